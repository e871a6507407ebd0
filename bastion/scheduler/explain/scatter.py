"""
`Scatter`: how much of a gang fits on free capacity, and over what that capacity is scattered.

Replicas are placed until no more fit. The count is for people and is sometimes too low: whether the
whole gang can be placed was determined before.

This module must not know shares, nor what runs.
"""

from __future__ import annotations

from typing import NamedTuple

from bastion.scheduler.placement.blocks import blocks_of, same_of
from bastion.scheduler.placement.place import replicas_placed
from bastion.scheduler.placement.room import Shelf
from bastion.scheduler.placement.scope import Scope, can_make
from bastion.scheduler.queue.shape import Part, Shape
from bastion.scheduler.state.draft import Draft

UNLIMITED = 10**18
"""Units of a type in a tier, more than ever exist."""


class Scatter(NamedTuple):
    """Why a gang fits nowhere although enough is free."""

    over: str
    fitting: int
    """Replicas that fit; fewer than all."""


def scatter_of(draft: Draft, shape: Shape, *, in_full: bool = True) -> Scatter:
    """
    Return how `shape`, which cannot be placed, would fit on what is free now.

    Without `in_full`, only the replicas of the part that fits best are counted.
    """
    want = shape.replicas
    same = same_of(shape, draft.parts.placement)
    is_counted = not in_full or (len(shape.parts) == 1 and not shape.takes_whole)

    def fill(where: Shape, *, is_limited: bool = True) -> int:
        if not is_counted:
            return _placed(draft, where, is_limited=is_limited)
        return max(_counted(draft, part, is_limited=is_limited) for part in where.parts)

    anywhere, in_tiers = fill(shape, is_limited=False), fill(shape)
    inside = blocks_of(draft.capacity, shape, draft.parts.placement)
    fitting = max(map(fill, inside), default=0) if same else in_tiers
    over = "machines"
    if anywhere >= want > in_tiers:
        over = "tiers"
    elif in_tiers >= want > fitting:
        over = same[-1]
    return Scatter(over=over, fitting=min(fitting, want - 1))


def _placed(draft: Draft, shape: Shape, *, is_limited: bool) -> int:
    """Return how many replicas can be placed, with or without the totals of the tiers."""
    with draft.capacity.trial():
        for free in () if is_limited else draft.capacity.tier_free:
            free.update(dict.fromkeys(free, UNLIMITED))
        return replicas_placed(draft.capacity, shape, draft.parts.placement)


def _counted(draft: Draft, part: Part, *, is_limited: bool) -> int:
    """Return how many replicas of `part` fit if there were no other part."""
    scope, fits = draft.capacity.scope_of(part), 0
    for free, shelves in zip(draft.capacity.tier_free, scope.tiers):
        slots = sum(_slots(scope, part, shelf) for shelf in shelves)
        allowed = [max(0, free[t]) // n for t, n in part.capped] if is_limited else []
        fits += min([slots, *allowed])
    return min(part.replicas, fits)


def _slots(scope: Scope, part: Part, shelf: Shelf) -> int:
    if shelf.hosts > 1:
        return 0
    slots = sum(room.slots(part) for room in scope.on(shelf))
    if shelf.pool is not None and can_make(part.where, shelf):
        slots += shelf.left * part.most_on(shelf.pool.resources)
    return slots
