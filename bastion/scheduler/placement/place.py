"""
Placement: which machines and devices a gang gets, as a whole or not at all.

A replica lies on one machine, or on one slice taken whole. Tiers are filled one after the other.
Within a tier, existing machines come before new ones. The policy chooses the machine.

This module must not know which gang asks, nor whether it may.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import chain
from typing import NamedTuple

from bastion.job import Placement, ReplicaPlace
from bastion.scheduler.placement.blocks import blocks_with_room
from bastion.scheduler.placement.candidates import Choose, PlacementPolicy, View
from bastion.scheduler.placement.capacity import Capacity
from bastion.scheduler.placement.hold import Charge
from bastion.scheduler.placement.room import Room, Shelf
from bastion.scheduler.placement.scope import Scope, can_make
from bastion.scheduler.placement.whole_machines import SearchOrder, Wholes
from bastion.scheduler.queue.shape import Part, Shape
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
    capacity: Capacity,
    shape: Shape,
    policy: PlacementPolicy,
    *,
    guaranteed: bool,
    allows: Callable[[Amounts], bool] | None = None,
) -> Placed | None:
    """
    Take devices for all of `shape`, or take nothing and return None.

    Args:
        capacity: Taken from, when a placement is found.
        shape: What is asked for.
        policy: Which machines are best.
        guaranteed: Fill from the best tier down; otherwise from the worst up.
        allows: Whether it may be charged that much. Called for whole machines: if the first choice
            may not be charged, it gets the machines that cost least.
    """
    for order in (SearchOrder.BY_TIER,) if allows is None else _orders(capacity, shape):
        placed = _place(capacity, shape, policy, order, guaranteed=guaranteed, allows=allows)
        if placed is not None:
            return placed
    return None


def cheapest(capacity: Capacity, shape: Shape, policy: PlacementPolicy) -> Placed | None:
    """Return the lowest charge at which it can be placed; take nothing."""
    found = []
    for order in _orders(capacity, shape):
        with capacity.trial():
            placed = _place(capacity, shape, policy, order, guaranteed=False)
        if placed is not None:
            found.append(placed)
    totals = capacity.quota.totals

    def weight(placed: Placed) -> float:
        return max((n / totals[t] for t, n in placed.total.items()), default=0.0)

    return min(found, key=weight, default=None)


def replicas_placed(capacity: Capacity, shape: Shape, policy: PlacementPolicy) -> int:
    """Take devices for as many replicas as fit, in any blocks, and count them."""
    how = _How(policy.choose, guaranteed=False, order=SearchOrder.BY_TIER)
    charge, count = capacity.nothing(), 0
    for index in shape.orders[0]:
        search = _Search(capacity, shape.parts[index], how)
        search.run(charge)
        count += len(search.places)
    return count


def _orders(capacity: Capacity, shape: Shape) -> Iterable[SearchOrder]:
    """Return the orders in which it may lie elsewhere, or have another cost."""
    return SearchOrder if shape.takes_whole and not capacity.is_alike else (SearchOrder.BY_TIER,)


def _place(
    capacity: Capacity,
    shape: Shape,
    policy: PlacementPolicy,
    order: SearchOrder,
    *,
    guaranteed: bool,
    allows: Callable[[Amounts], bool] | None = None,
) -> Placed | None:
    how = _How(policy.choose, guaranteed, order)
    if shape.is_single:
        return _place_all(capacity, shape, shape.orders[0], how)
    for block in blocks_with_room(capacity, shape, policy, guaranteed=guaranteed):
        for parts in block.orders:
            capacity.begin()
            placed = _place_all(capacity, block, parts, how)
            if placed is not None and (allows is None or allows(placed.total)):
                capacity.agree()
                return placed
            capacity.undo()
    return None


class _How(NamedTuple):
    """How machines are searched."""

    choose: Choose
    guaranteed: bool
    order: SearchOrder


def _place_all(capacity: Capacity, shape: Shape, parts: Sequence[int], how: _How) -> Placed | None:
    charge = capacity.nothing()
    placements: list[Placement] = [()] * len(shape.parts)
    for index in parts:
        found = _Search(capacity, shape.parts[index], how).run(charge)
        if found is None:
            return None
        placements[index] = found
    return Placed(placements=tuple(placements), charge=tuple(charge))


class _Search:
    """Finds and takes machines for one part."""

    def __init__(self, capacity: Capacity, part: Part, how: _How) -> None:
        self.capacity = capacity
        self.part = part
        self.choose, self.guaranteed, self.order = how
        self.scope: Scope = capacity.scope_of(part)
        self.places: list[ReplicaPlace] = []

    def run(self, charge: list[Amounts]) -> Placement | None:
        """Return the replicas' places, their cost added to `charge`; or None, partly taken."""
        tiers = self.scope.tiers if self.part.hosts > 1 else self.scope.singles
        if not self.guaranteed:
            tiers = tiers[::-1]
        if self.part.takes_whole:
            return self._run_whole(tiers, charge)
        left = self.part.replicas
        for shelves in tiers:
            if shelves:
                left -= self._take_devices(shelves, shelves[0].tier, left, charge)
            if not left:
                return tuple(self.places)
        return None

    def _run_whole(self, tiers: list[list[Shelf]], charge: list[Amounts]) -> Placement | None:
        if self.order is not SearchOrder.BY_TIER:
            tiers = [list(chain.from_iterable(tiers))]
        for shelves in tiers:
            wholes = Wholes(self.capacity, self.part, self.scope, shelves, self.order)
            left = self.part.replicas - len(self.places)
            self.places += wholes.take(left, charge, guaranteed=self.guaranteed)
            if len(self.places) == self.part.replicas:
                return tuple(self.places)
        return None

    def _take_devices(
        self, shelves: list[Shelf], tier: int, want: int, charge: list[Amounts]
    ) -> int:
        want = min(want, self._allowed(tier))
        if not want:
            return 0
        view = View(self.capacity, shelves, self.scope, self.part, self.guaranteed)
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
            self.capacity.charge_more(charge, tier, done * self.part.charged)
        return done

    def _allowed(self, tier: int) -> int:
        free, allowed = self.capacity.tier_free[tier], self.part.replicas
        for resource, units in self.part.capped:
            allowed = min(allowed, max(0, free[resource]) // units)
        return allowed

    def _new(self, shelves: list[Shelf]) -> tuple[Room, int] | None:
        for shelf in shelves:
            if not (shelf.left > 0 and can_make(self.scope.where, shelf)):
                continue
            assert shelf.pool is not None
            if self.part.per_replica <= shelf.pool.resources:
                room = self.capacity.make_room(shelf)
                return room, room.slots(self.part)
        return None
