"""
Placement: which machines and devices a gang gets, as a whole or not at all.

A replica lies on one machine, or on one slice taken whole. Tiers are filled one after the other;
inside a tier, machines that stand come before new ones. Which machine is the policy's choice.

It must not know who asks, nor whether he may.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from bastion.job import HostPlace, Placement, ReplicaPlace
from bastion.scheduler.capacity import Capacity, Charge, Scope, can_make
from bastion.scheduler.room import Room, Shelf, resources_of
from bastion.scheduler.shape import Part, Shape
from bastion.scheduler.view import Choose, PlacementPolicy, View
from quota.amounts import Amounts


class Placed(NamedTuple):
    """Where a gang lies, job by job, and what it is charged."""

    placements: tuple[Placement, ...]
    charge: Charge

    @property
    def total(self) -> Amounts:
        """The charge over all tiers."""
        return self.charge[0] if len(self.charge) == 1 else Amounts.sum(self.charge)


def place(
    capacity: Capacity, shape: Shape, policy: PlacementPolicy, *, guaranteed: bool
) -> Placed | None:
    """
    Take devices for all of `shape`, or nothing and give None.

    Args:
        capacity: Taken from, when a placement is found.
        shape: What is asked for.
        policy: Which machines are best.
        guaranteed: Fill from the best tier down; otherwise from the worst up.
    """
    for block in policy.blocks(capacity):
        if shape.is_single:
            placed = _place_all(capacity, shape, policy.choose, block, guaranteed=guaranteed)
            if placed is not None:
                return placed
            continue
        capacity.begin()
        placed = _place_all(capacity, shape, policy.choose, block, guaranteed=guaranteed)
        if placed is not None:
            capacity.agree()
            return placed
        capacity.undo()
    return None


def _place_all(
    capacity: Capacity, shape: Shape, choose: Choose, block: Shelf | None, *, guaranteed: bool
) -> Placed | None:
    charge = capacity.nothing()
    placements: list[Placement] = [()] * len(shape.parts)
    for index in shape.hardest_first:
        part = shape.parts[index]
        found = _Search(capacity, part, choose, block, guaranteed=guaranteed).run(charge)
        if found is None:
            return None
        placements[index] = found
    return Placed(placements=tuple(placements), charge=tuple(charge))


class _Search:
    """Finds and takes machines for one part."""

    __slots__ = ("block", "capacity", "choose", "guaranteed", "part", "places", "scope")

    def __init__(
        self,
        capacity: Capacity,
        part: Part,
        choose: Choose,
        block: Shelf | None,
        *,
        guaranteed: bool,
    ) -> None:
        self.capacity = capacity
        self.part = part
        self.choose = choose
        self.block = block
        self.guaranteed = guaranteed
        self.scope: Scope = capacity.scope_of(part)
        self.places: list[ReplicaPlace] = []

    def run(self, charge: list[Amounts]) -> Placement | None:
        """The replicas' places, their cost added to `charge`; or None with things half taken."""
        left = self.part.replicas
        tiers = range(self.capacity.tier_count)
        for tier in tiers if self.guaranteed else reversed(tiers):
            by_tier = self.scope.tiers if self.part.hosts > 1 else self.scope.singles
            shelves = by_tier[tier]
            if self.block is not None:
                shelves = [self.block] if self.block in shelves else []
            if not shelves:
                continue
            if self.part.hosts > 1:
                left -= self._take_slices(shelves, tier, left, charge)
            elif self.part.exclusive:
                left -= self._take_machines(shelves, tier, left, charge)
            else:
                left -= self._take_devices(shelves, tier, left, charge)
            if not left:
                return tuple(self.places)
        return None

    def _take_devices(
        self, shelves: list[Shelf], tier: int, want: int, charge: list[Amounts]
    ) -> int:
        want = min(want, self._allowed(tier))
        if not want:
            return 0
        view = View(self.capacity, shelves, self.scope, self.part, guaranteed=self.guaranteed)
        done = 0
        while done < want:
            chosen = self.choose(view, want - done) or self._new(shelves)
            if chosen is None:
                break
            room, count = chosen
            count = min(count, want - done)
            for _ in range(count):
                host = self.capacity.take(room, self.part, guaranteed=self.guaranteed)
                self.places.append(ReplicaPlace(hosts=(host,), tier=tier))
            done += count
        if done and self.part.capped:
            self._spend(done * self.part.charged, tier, charge)
        return done

    def _allowed(self, tier: int) -> int:
        free, allowed = self.capacity.tier_free[tier], self.part.replicas
        for resource, units in self.part.capped:
            allowed = min(allowed, max(0, free[resource]) // units)
        return allowed

    def _spend(self, spent: Amounts, tier: int, charge: list[Amounts]) -> None:
        free = self.capacity.tier_free[tier]
        for resource, units in spent.items():
            free[resource] -= units
        charge[tier] = charge[tier] + spent

    def _new(self, shelves: list[Shelf]) -> tuple[Room, int] | None:
        for shelf in shelves:
            room = self._new_on(shelf)
            if room is not None:
                return room, room.slots(self.part)
        return None

    def _new_on(self, shelf: Shelf) -> Room | None:
        if shelf.left < shelf.hosts or not can_make(self.scope.where, shelf):
            return None
        assert shelf.pool is not None
        need = self.part.per_replica
        if not need <= shelf.hosts * shelf.pool.resources:
            return None
        return self.capacity.make_room(shelf)

    def _take_machines(
        self, shelves: list[Shelf], tier: int, want: int, charge: list[Amounts]
    ) -> int:
        done = 0
        for room in self._vacant(shelves):
            if done == want:
                break
            cost = resources_of(room, self.capacity.types)
            count = min(room.slots(self.part), want - done)
            if not count or not self._affords(cost, tier):
                continue
            for _ in range(count):
                host = self.capacity.take(room, self.part, guaranteed=self.guaranteed)
                self.places.append(ReplicaPlace(hosts=(host,), tier=tier))
            self.capacity.seal(room)
            self._spend(cost, tier, charge)
            done += count
        return done

    def _vacant(self, shelves: list[Shelf]) -> Iterator[Room]:
        """Empty machines, first what costs least a replica; then new ones, while asked for."""
        rooms = [r for s in shelves for r in s.rooms if self.scope.has(r)]
        fitting = [room for room in rooms if room.slots(self.part)]
        key, most = self.part.leading[0], self.part.replicas

        def cost(room: Room) -> tuple[float, int, int]:
            size = room.full[key]
            return size / min(room.slots(self.part), most), size, room.ordinal

        yield from sorted(fitting, key=cost)
        for shelf in shelves:
            while (room := self._new_on(shelf)) is not None:
                yield room
                if not room.sealed:
                    break

    def _affords(self, cost: Amounts, tier: int) -> bool:
        free = self.capacity.tier_free[tier]
        return all(units <= free[resource] for resource, units in cost.items())

    def _take_slices(
        self, shelves: list[Shelf], tier: int, want: int, charge: list[Amounts]
    ) -> int:
        done = 0
        for rooms in self._slices([s for s in shelves if s.hosts == self.part.hosts]):
            if done == want:
                break
            cost = Amounts.sum(resources_of(room, self.capacity.types) for room in rooms)
            if not self._affords(cost, tier):
                continue
            hosts: tuple[HostPlace, ...] = tuple(
                self.capacity.take_all(room, self.part) for room in rooms
            )
            self.places.append(ReplicaPlace(hosts=hosts, tier=tier))
            self._spend(cost, tier, charge)
            done += 1
        return done

    def _slices(self, shelves: list[Shelf]) -> Iterator[list[Room]]:
        """Whole free slices that hold a replica, the smallest first; then new ones."""
        found = []
        for shelf in shelves:
            for name, rooms in shelf.slices.items():
                if len(rooms) == shelf.hosts and self._is_free_slice(rooms):
                    size = sum(room.full[self.part.leading[0]] for room in rooms)
                    found.append((size, name, rooms))
        for _, _, rooms in sorted(found, key=lambda each: each[:2]):
            yield rooms
        for shelf in shelves:
            while (room := self._new_on(shelf)) is not None:
                yield shelf.slices[room.machine.slice]
                if not room.sealed:
                    break

    def _is_free_slice(self, rooms: list[Room]) -> bool:
        if not all(r.opened and r.is_vacant and r.is_whole and self.scope.has(r) for r in rooms):
            return False
        return self.part.per_replica <= Amounts.sum(room.full for room in rooms)
