"""
`Scatter`: how much of a gang fits on what is free, and over what the free capacity is scattered.

Its replicas are placed until no more fit. So it is a count for people, at times too low: whether
the whole gang can be placed was found out before.

It must not know shares, nor what runs.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from bastion.scheduler.placement.capacity import Capacity
from bastion.scheduler.placement.place import replicas_placed
from bastion.scheduler.placement.room import Shelf
from bastion.scheduler.placement.scope import can_make
from bastion.scheduler.queue.shape import Part, Shape
from bastion.scheduler.reasons.words import Scattered
from bastion.scheduler.state.draft import Draft

UNLIMITED = 10**18
"""Units of a type in a tier, more than there ever are."""


class Scatter(NamedTuple):
    """Why a gang fits nowhere for which enough is free."""

    over: Scattered
    fitting: int
    """Replicas that fit; fewer than all."""


def scatter_of(draft: Draft, shape: Shape, *, in_full: bool = True) -> Scatter:
    """
    How `shape`, which cannot be placed, would fit on what is free now.

    Not `in_full`, the replicas of one part alone are counted, of that which fits best.
    """
    shelves = list(draft.capacity.shelves.values())
    together, want = draft.parts.placement.together, shape.replicas
    is_counted = not in_full or (len(shape.parts) == 1 and not shape.takes_whole)
    slots = [_Slots(draft.capacity, part) for part in shape.parts] if is_counted else []

    def fill(block: Shelf | None = None, *, is_limited: bool = True) -> int:
        if not slots:
            return _placed(draft, shape, block, is_limited=is_limited)
        some = shelves if block is None else [block]
        return max(each.fill(some, is_limited=is_limited) for each in slots)

    anywhere, in_tiers = fill(is_limited=False), fill()
    fitting = max(map(fill, shelves), default=0) if together else in_tiers
    over: Scattered = "machines"
    if anywhere >= want > in_tiers:
        over = "tiers"
    elif in_tiers >= want > fitting:
        over = "pools"
    return Scatter(over=over, fitting=min(fitting, want - 1))


def _placed(draft: Draft, shape: Shape, block: Shelf | None, *, is_limited: bool) -> int:
    """How many replicas placement finds a place for, the totals of the tiers aside or not."""
    with draft.capacity.trial():
        for free in () if is_limited else draft.capacity.tier_free:
            free.update(dict.fromkeys(free, UNLIMITED))
        return replicas_placed(draft.capacity, shape, draft.parts.placement, block)


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
