"""
Blocks: units that a gang must not span, such as one pool, or the machines of one rack.

A block is one more filter: the pool, or a label, with a value. A gang that must lie in one block is
placed with the filters of each in turn, so no other file handles blocks.

This module must not know whether a gang fits there.
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
    """Return the labels, or `pool`, that must be equal for all replicas of `shape`."""
    labels = shape.same, POOL if policy.together else ""
    return tuple(dict.fromkeys(label for label in labels if label))


def blocks_of(capacity: Capacity, shape: Shape, policy: PlacementPolicy) -> list[Shape]:
    """Return `shape` with the filters of each block that it may lie in."""
    same = same_of(shape, policy)
    texts = product(*(_texts_of(capacity, label) for label in same))
    made = (shape.inside(dict(zip(same, each))) for each in texts)
    return [each for each in made if each is not None]


def blocks_with_room(
    capacity: Capacity, shape: Shape, policy: PlacementPolicy, *, guaranteed: bool
) -> Sequence[Shape]:
    """
    Return those of `blocks_of` with as much free as it asks for, the best first.

    The best block has machines of the best tier (the worst, if not `guaranteed`), and then the
    least free capacity. A shape that may lie anywhere is returned unchanged.
    """
    if shape.replicas == 1 or not (shape.same or policy.together):
        return (shape,)
    found = []
    for number, block in enumerate(blocks_of(capacity, shape, policy)):
        scope = capacity.scope_of(block.parts[block.orders[0][0]])
        tiers = [tier for tier, shelves in enumerate(scope.tiers) if shelves]
        free = _free_for(capacity, block)
        if tiers and free is not None:
            found.append((tiers[0] if guaranteed else -tiers[-1], free, number, block))
    return [block for *_, block in sorted(found)]


def block_of(capacity: Capacity, same: Sequence[str], machine: str) -> dict[str, str] | None:
    """Return the block of `machine`; None if unknown, or if it lacks one of the labels."""
    room = capacity.by_name.get(machine)
    if room is None:
        return None
    labels = {**labels_of(room.machine, room.shelf.pool), POOL: room.shelf.name}
    return {label: labels[label] for label in same} if labels.keys() >= set(same) else None


def _texts_of(capacity: Capacity, label: str) -> tuple[str, ...]:
    """Return all values of `label` on existing or possible machines, in order; or the pools."""
    if label == POOL:
        return tuple(capacity.shelves)
    if label not in capacity.texts:
        known = [labels_of(room.machine, room.shelf.pool) for room in capacity.rooms]
        known += [labels_of(None, shelf.pool) for shelf in capacity.shelves.values()]
        capacity.texts[label] = tuple(sorted({each[label] for each in known if label in each}))
    return capacity.texts[label]


def _free_for(capacity: Capacity, shape: Shape) -> int | None:
    """Return what is free of the type used to search its hardest part; None if too little."""
    part = shape.parts[shape.orders[0][0]]
    resource, units = part.leading
    scope, least = capacity.scope_of(part), units if part.hosts == 1 else 1
    shelves = [shelf for tier in scope.tiers for shelf in tier]
    free = sum(free for shelf in shelves for free, _ in scope.ascending(shelf, resource, least))
    made = sum(shelf.left * shelf.pool.resources[resource] for shelf in shelves if shelf.pool)
    is_enough = part.asks_nothing or free + made >= part.replicas * units
    return free if is_enough else None
