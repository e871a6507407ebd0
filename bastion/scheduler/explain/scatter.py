"""
`Scatter`: how much of a gang fits on what is free, and over what the free capacity is scattered.

Machines are filled one after the other. So it is a count for people, at times too low: whether the
whole gang can be placed was found out before.

It must not know shares, nor what runs.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from bastion.scheduler.placement.capacity import Capacity
from bastion.scheduler.placement.room import Room, Shelf
from bastion.scheduler.placement.scope import can_make
from bastion.scheduler.queue.shape import Part, Shape
from bastion.scheduler.reasons.words import Scattered
from bastion.scheduler.state.draft import Draft
from quota.amounts import Amounts


class Scatter(NamedTuple):
    """Why a gang fits nowhere for which enough is free."""

    over: Scattered
    fitting: int
    """Replicas that fit; fewer than all."""


class _Bin(NamedTuple):
    """A machine or a slice that has something free, or that could be made."""

    hosts: int
    rooms: list[Room]
    """Empty where it is still to be made."""
    free: dict[str, int]
    is_vacant: bool


def scatter_of(draft: Draft, shape: Shape, *, in_full: bool = True) -> Scatter:
    """
    How `shape`, which cannot be placed, would fit on what is free now.

    Not `in_full`, the replicas of one part alone are counted, of that which fits best.
    """
    shelves = list(draft.capacity.shelves.values())
    together, want = draft.parts.placement.together, shape.replicas
    is_counted = not in_full or (len(shape.parts) == 1 and _is_plain(shape.parts[0]))
    slots = [_Slots(draft.capacity, part) for part in shape.parts] if is_counted else []

    def fill(some: list[Shelf], *, is_limited: bool) -> int:
        if slots:
            return max(each.fill(some, is_limited=is_limited) for each in slots)
        return _Filling(draft, shape, is_limited=is_limited).fill(some)

    anywhere = fill(shelves, is_limited=False)
    in_tiers = fitting = fill(shelves, is_limited=True)
    if together:
        fitting = max((fill([shelf], is_limited=True) for shelf in shelves), default=0)
    over: Scattered = "machines"
    if anywhere >= want > in_tiers:
        over = "tiers"
    elif in_tiers >= want > fitting:
        over = "pools"
    return Scatter(over=over, fitting=min(fitting, want - 1))


def _is_plain(part: Part) -> bool:
    """Whether its replicas share machines with others: one machine says nothing of the next."""
    return part.hosts == 1 and not part.takes_whole


class _Slots:
    """How many replicas of one part fit, if there were no other part."""

    def __init__(self, capacity: Capacity, part: Part) -> None:
        self._capacity, self._part = capacity, part
        self._scope = capacity.scope_of(part)
        self._known: dict[str, int] = {}
        """Shelf -> how many replicas its machines hold."""

    def fill(self, shelves: Iterable[Shelf], *, is_limited: bool) -> int:
        """How many replicas `shelves` hold at once, the totals of the tiers aside or not."""
        by_tier: dict[int, int] = {}
        for shelf in shelves:
            by_tier[shelf.tier] = by_tier.get(shelf.tier, 0) + self._on(shelf)
        fits = (min(n, self._allowed(t)) if is_limited else n for t, n in by_tier.items())
        return min(self._part.replicas, sum(fits))

    def _allowed(self, tier: int) -> int:
        free = self._capacity.tier_free[tier]
        allowed = (max(0, free[t]) // n for t, n in self._part.capped)
        return min(allowed, default=self._part.replicas)

    def _on(self, shelf: Shelf) -> int:
        if shelf.hosts > 1:
            return 0
        if shelf.name not in self._known:
            part = self._part
            slots = sum(room.slots(part) for room in self._scope.on(shelf))
            if shelf.pool is not None and can_make(part.where, shelf):
                slots += shelf.left * part.most_on(shelf.pool.resources)
            self._known[shelf.name] = slots
        return self._known[shelf.name]


class _Filling:
    """Replicas of a gang are put on machines one after the other; nothing is taken for good."""

    def __init__(self, draft: Draft, shape: Shape, *, is_limited: bool) -> None:
        self._capacity = draft.capacity
        self._shape = shape
        self._want = [part.replicas for part in shape.parts]
        self._left = [tier.copy() for tier in self._capacity.tier_free] if is_limited else []
        """Of the totals of the tiers, where they count."""

    def fill(self, shelves: Iterable[Shelf]) -> int:
        """How many replicas `shelves` hold at once."""
        for shelf in shelves:
            for each in self._bins(shelf):
                self._put(each, shelf)
        return self._shape.replicas - sum(self._want)

    def _bins(self, shelf: Shelf) -> Iterator[_Bin]:
        if shelf.hosts > 1:
            for rooms in shelf.slices.values():
                is_free = all(each.is_idle for each in rooms)
                size = Amounts.sum(room.full for room in rooms)
                yield _Bin(shelf.hosts, rooms, dict(size.items()) if is_free else {}, is_free)
        else:
            for room in shelf.rooms:
                free = {t: room.free(t) for t in self._shape.types}
                yield _Bin(1, [room], free, room.is_vacant)
        if shelf.pool is not None:
            size = shelf.hosts * shelf.pool.resources
            for _ in range(shelf.left // shelf.hosts):
                yield _Bin(shelf.hosts, [], dict(size.items()), is_vacant=True)

    def _put(self, each: _Bin, shelf: Shelf) -> None:
        """As many as fit there, the hardest to place first."""
        is_used = False
        for index in self._shape.orders[0]:
            part = self._shape.parts[index]
            if not self._want[index] or not self._may_use(part, each, shelf):
                continue
            if part.takes_whole and (is_used or not each.is_vacant):
                continue
            fits = min(self._want[index], self._slots(part, each, is_used=is_used))
            cost = each.free if part.takes_whole else dict(part.per_replica.items())
            fits = self._charge(shelf.tier, part, cost, fits)
            self._want[index] -= fits
            is_used = is_used or fits > 0
            for resource, units in cost.items() if fits else ():
                each.free[resource] = 0 if part.takes_whole else each.free[resource] - fits * units

    def _may_use(self, part: Part, each: _Bin, shelf: Shelf) -> bool:
        if part.hosts != each.hosts:
            return False
        scope = self._capacity.scope_of(part)
        if not each.rooms:
            return can_make(part.where, shelf)
        return all(scope.has(room) for room in each.rooms)

    def _slots(self, part: Part, each: _Bin, *, is_used: bool) -> int:
        if part.hosts > 1:
            return int(all(each.free.get(t, 0) >= n for t, n in part.per_replica.items()))
        if each.rooms and not is_used:
            return each.rooms[0].slots(part)
        if part.asks_nothing:
            return part.replicas
        return min(each.free.get(t, 0) // n for t, n in part.per_replica.items())

    def _charge(self, tier: int, part: Part, cost: dict[str, int], fits: int) -> int:
        """How many of `fits` the total of the tier leaves room for; it is used up by them."""
        if not self._left:
            return fits
        left = self._left[tier]
        costs = {t: n for t, n in cost.items() if n and t in left}
        if part.takes_whole:
            fits = fits if all(n <= left[t] for t, n in costs.items()) else 0
        else:
            fits = min([fits, *(max(0, left[t]) // n for t, n in costs.items())])
        for resource, units in costs.items():
            left[resource] -= units if part.takes_whole else fits * units
        return fits
