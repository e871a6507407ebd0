"""
Blocks: what a gang may not span, as one pool, or the machines of one rack.

A block is one filter more: the pool, or a label, with a text. A gang that has to lie in one is
placed with the filters of each in turn, so no other file knows of blocks but by that.

It must not know whether a gang fits there.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product

from bastion.scheduler.placement.candidates import PlacementPolicy
from bastion.scheduler.placement.capacity import Capacity
from bastion.scheduler.placement.room import labels_of
from bastion.scheduler.queue.shape import Shape
from bastion.spec.where import POOL


def same_of(shape: Shape, policy: PlacementPolicy) -> tuple[str, ...]:
    """The labels, or `pool`, that are the same wherever a replica of `shape` lies."""
    own = policy.together and shape.same != POOL
    return (*((shape.same,) if shape.same else ()), *((POOL,) if own else ()))


def blocks(
    capacity: Capacity, shape: Shape, policy: PlacementPolicy, *, guaranteed: bool = False
) -> Sequence[Shape]:
    """
    Return `shape` with the filters of each block that it may lie in, the best first.

    The best has machines of the best tier (the worst, if not `guaranteed`), and then the least that
    is free. A shape that may lie anywhere is returned as it is.
    """
    if shape.replicas == 1 or not (shape.same or policy.together):
        return (shape,)
    same = same_of(shape, policy)
    texts = product(*(_texts_of(capacity, label) for label in same))
    made = (shape.inside(dict(zip(same, each))) for each in texts)
    found = [each for each in made if each is not None]
    if len(found) > 1:
        found.sort(key=lambda each: _badness(capacity, each, guaranteed=guaranteed))
    return found


def block_of(capacity: Capacity, same: Sequence[str], machine: str) -> dict[str, str] | None:
    """The block of `machine`; None if it is not known, or has not all labels."""
    room = capacity.by_name.get(machine)
    if room is None:
        return None
    labels = {**labels_of(room.machine, room.shelf.pool), POOL: room.shelf.name}
    return {label: labels[label] for label in same} if labels.keys() >= set(same) else None


def _texts_of(capacity: Capacity, label: str) -> tuple[str, ...]:
    """What `label` says on any machine that stands or can be made, in order; or the pools."""
    if label == POOL:
        return tuple(capacity.shelves)
    if label not in capacity.texts:
        known = [labels_of(room.machine, room.shelf.pool) for room in capacity.rooms]
        known += [labels_of(None, shelf.pool) for shelf in capacity.shelves.values()]
        capacity.texts[label] = tuple(sorted({each[label] for each in known if label in each}))
    return capacity.texts[label]


def _badness(capacity: Capacity, shape: Shape, *, guaranteed: bool) -> tuple[int, int]:
    """The tier of its hardest part, and what is free there of the type that it is searched by."""
    part = shape.parts[shape.orders[0][0]]
    scope, (resource, units) = capacity.scope_of(part), part.leading
    tiers = [tier for tier, shelves in enumerate(scope.tiers) if shelves]
    free = sum(
        free
        for tier in tiers
        for shelf in scope.tiers[tier]
        for free, _ in scope.ascending(shelf, resource, units)
    )
    return min(tiers, default=0) if guaranteed else -max(tiers, default=0), free
