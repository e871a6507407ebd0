"""
Whole machines and slices for a part that shares none.

The gang is charged for all they have, so those that cost least per replica come first, and none is
taken that the others make unnecessary.

This module must not know which gang asks, nor whether it may.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from enum import Enum
from functools import partial
from heapq import merge
from itertools import islice
from operator import itemgetter
from typing import NamedTuple

from bastion.job import ReplicaPlace
from bastion.scheduler.placement.capacity import Capacity
from bastion.scheduler.placement.room import Room, Shelf
from bastion.scheduler.placement.scope import Scope, can_make
from bastion.scheduler.queue.shape import Part
from bastion.value import value
from quota.amounts import Amounts

_Rooms = tuple[Room, ...]
_Key = tuple[bool, float, float, int, int]
"""(is it new, cost of a replica or number of replicas, cost, index of its shelf, ordinal)"""
_InOrder = Iterable[tuple[_Key, _Rooms | Shelf]]
"""Equal units, or a single one: by key."""


class SearchOrder(Enum):
    """Which units come first; each order is searched for cheap ones."""

    BY_TIER = "by tier"
    """Existing machines before new ones, tier by tier."""
    CHEAPEST = "cheapest"
    """Those that cost least per replica, of any tier."""
    FEWEST = "fewest"
    """Those that hold all of it, or most of it."""


@value
class _Unit:
    """One machine, or one slice."""

    rooms: _Rooms
    slots: int
    """Replicas that it holds."""
    cost: Amounts

    @property
    def tier(self) -> int:
        """The tier in which it is bought."""
        return self.rooms[0].shelf.tier


class Wholes(NamedTuple):
    """What `part` could take of `shelves`."""

    capacity: Capacity
    part: Part
    scope: Scope
    shelves: Iterable[Shelf]
    order: SearchOrder

    def take(self, want: int, charge: list[Amounts], *, guaranteed: bool) -> list[ReplicaPlace]:
        """Place at most `want` replicas, add their cost to `charge`, and return the places."""
        places: list[ReplicaPlace] = []
        for unit in self._chosen(want):
            if self.part.hosts > 1:
                take = partial(self.capacity.take_all, part=self.part, guaranteed=guaranteed)
                places.append(ReplicaPlace(hosts=tuple(map(take, unit.rooms)), tier=unit.tier))
            else:
                (room,) = unit.rooms
                for _ in range(min(unit.slots, want - len(places))):
                    host = self.capacity.take(room, self.part, guaranteed=guaranteed)
                    places.append(ReplicaPlace(hosts=(host,), tier=unit.tier))
                self.capacity.seal(room)
            self.capacity.charge_more(charge, unit.tier, unit.cost)
        return places

    def _chosen(self, want: int) -> list[_Unit]:
        """Return enough of them, as far as they exist, without unnecessary ones."""
        spent = self.capacity.nothing()
        chosen: list[_Unit] = []
        missing = want
        for unit in self._in_order(spent):
            if missing <= 0:
                break
            chosen.append(unit)
            spent[unit.tier] = spent[unit.tier] + unit.cost
            missing -= unit.slots
        for unit in sorted(chosen, key=lambda unit: -unit.cost[self.part.leading[0]]):
            if missing + unit.slots <= 0:
                chosen.remove(unit)
                missing += unit.slots
        return chosen

    def _in_order(self, spent: list[Amounts]) -> Iterator[_Unit]:
        """Yield those that fit and for which the tiers have room beside what is `spent`."""
        found: list[_InOrder] = []
        for place, shelf in enumerate(self.shelves):
            if shelf.hosts != self.part.hosts:
                continue
            found += self._standing(shelf, place)
            if shelf.pool is None:
                continue  # its pool is no longer in the settings: none is created
            size = shelf.pool.resources
            if self.part.per_replica <= shelf.hosts * size:
                slots = 1 if shelf.hosts > 1 else self.part.most_on(size)
                key = self._key(size, slots, place)
                is_last = self.order is SearchOrder.BY_TIER
                found.append([((is_last, *key, len(self.capacity.rooms)), shelf)])
        for _, each in merge(*found, key=itemgetter(0)):
            if isinstance(each, Shelf):
                yield from self._new(each, spent)
                continue
            unit = self._unit(each)
            if self._affords(unit.cost, unit.tier, spent):
                yield unit

    def _key(self, size: Amounts, slots: int, place: int) -> tuple[float, float, int]:
        """Return the sort key of a unit of machines of that `size`, by cost of a replica."""
        if self.order is not SearchOrder.BY_TIER:
            totals = self.capacity.quota.totals
            weight = max((n / totals[t] for t, n in size.items() if totals[t]), default=0.0)
        else:
            weight = size[self.part.leading[0]]
        weight *= self.part.hosts
        holds = max(1, min(slots, self.part.replicas))
        first = -holds if self.order is SearchOrder.FEWEST else weight / holds
        return first, weight, place

    def _new(self, shelf: Shelf, spent: list[Amounts]) -> Iterator[_Unit]:
        """Yield machines that `shelf` creates for it."""
        assert shelf.pool is not None, "only a pool makes machines"
        cost = (shelf.hosts * shelf.pool.resources).only(self.capacity.types)
        while shelf.left >= shelf.hosts and self._affords(cost, shelf.tier, spent):
            if not can_make(self.scope.where, shelf):
                break
            room = self.capacity.make_room(shelf)
            rooms = shelf.slices[room.machine.slice] if shelf.hosts > 1 else (room,)
            yield self._unit(tuple(rooms))

    def _affords(self, cost: Amounts, tier: int, spent: list[Amounts]) -> bool:
        free = self.capacity.tier_free[tier]
        return all(spent[tier][resource] + n <= free[resource] for resource, n in cost.items())

    def _standing(self, shelf: Shelf, place: int) -> list[_InOrder]:
        """Return empty machines, or whole free slices, that hold a replica."""
        if shelf.hosts == 1:
            return [self._alike(rooms, place) for rooms in self.scope.empty(shelf)]
        whole = (tuple(each) for each in shelf.slices.values() if self._is_whole(each, shelf))
        return [[(self._key_of(rooms, 1, place), rooms)] for rooms in whole]

    def _alike(self, rooms: Sequence[Room], place: int) -> _InOrder:
        for room in islice(rooms, len(rooms)):  # more may be created meanwhile
            slots = room.slots(self.part)
            if slots:
                yield self._key_of((room,), slots, place), (room,)

    def _key_of(self, rooms: _Rooms, slots: int, place: int) -> _Key:
        return (False, *self._key(rooms[0].full, slots, place), rooms[0].ordinal)

    def _is_whole(self, rooms: Sequence[Room], shelf: Shelf) -> bool:
        if len(rooms) != shelf.hosts:
            return False
        if not all(room.is_idle and self.scope.has(room) for room in rooms):
            return False
        return self.part.per_replica <= Amounts.sum(room.full for room in rooms)

    def _unit(self, rooms: _Rooms) -> _Unit:
        cost = Amounts.sum(room.full for room in rooms).only(self.capacity.types)
        slots = 1 if self.part.hosts > 1 else rooms[0].slots(self.part)
        return _Unit(rooms=rooms, slots=slots, cost=cost)
