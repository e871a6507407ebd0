"""
A reserved gang starts, where it was planned or anywhere else that it fits.

This module must not know when that is tried.
"""

from __future__ import annotations

from collections.abc import Iterable

from bastion.job import Placement, ReplicaPlace
from bastion.scheduler.phases.reservations.backfill import may_fit_again
from bastion.scheduler.phases.reservations.lending import set_apart
from bastion.scheduler.phases.reservations.reserving import drop
from bastion.scheduler.placement.capacity import Capacity
from bastion.scheduler.placement.place import Placed
from bastion.scheduler.promise import PlannedStart, Promise
from bastion.scheduler.queue.shape import Part, Shape
from bastion.scheduler.state.draft import Draft
from bastion.scheduler.state.holders.footprint import Footprint, Located, pairs_of
from bastion.scheduler.state.holders.running import charge_of
from bastion.scheduler.state.reservation import Reserved


def located_again(draft: Draft, shape: Shape, before: Promise | PlannedStart) -> Located | None:
    """Return the same devices again, if all of them are still in order."""
    memory, name = draft.memory, before.gang[0]
    known = draft.occupancy.located.get(name)
    if known is None or known.shape is not shape or known.placed.placements != before.placements:
        known = None
    if known is not None and not memory.is_check_due:
        return known
    found = _located(draft, shape, before.placements)
    if known is not None and (found is None or found.placed != known.placed):
        memory.problems.append(f"where {name} lies was another")
    if found is not None and not draft.capacity.created:  # creation may not be repeated
        draft.occupancy.located[name] = found
    return found


def _located(draft: Draft, shape: Shape, placements: tuple[Placement, ...]) -> Located | None:
    if [*map(len, placements)] != [part.replicas for part in shape.parts]:
        return None
    pairs = pairs_of(shape.parts, placements)
    footprint = Footprint(pairs)
    if not _is_sound(draft.capacity, footprint) or not _may_lie(draft.capacity, pairs):
        return None
    placed = Placed(placements=placements, charge=charge_of(pairs, draft.capacity))
    return Located(shape, placed, footprint)


def _may_lie(capacity: Capacity, pairs: Iterable[tuple[Part, ReplicaPlace]]) -> bool:
    """Whether maintenance does not close the places too early, and labels still fit the filters."""
    closures = capacity.closures
    rooms = ((p, capacity.by_name[h.machine]) for p, place in pairs for h in place.hosts)
    return all(
        closures.lets_start(part, room.machine, spare=False)
        and capacity.scope(part.where).has(room)
        for part, room in rooms
    )


def _is_sound(capacity: Capacity, wanted: Footprint) -> bool:
    for machine, masks in wanted.masks.items():
        room = capacity.by_name.get(machine)
        if room is None or not room.opened:
            return False
        if any(mask & ~room.in_order(resource) for resource, mask in masks.items()):
            return False
    return True


def start_reserved(draft: Draft, reserved: Reserved, *, guaranteed: bool) -> bool:
    """Start the gang if it fits, where planned or anywhere; otherwise everything stays closed."""
    if not may_fit_again(draft, reserved):
        return False
    with set_apart(draft, [reserved], sharing(draft, reserved)):
        shape, total = reserved.shape, reserved.placed.total
        if not draft.shares.has_room(reserved.project, shape, total):
            return False  # victims may still hold the quota that it needs
        placed = _taken(draft, reserved, guaranteed=guaranteed)
        if placed is None:
            return False
        drop(draft, reserved)
    draft.search.has_opened |= placed.placements != reserved.placed.placements
    draft.admit(reserved.gang, reserved.shape, placed)
    return True


def sharing(draft: Draft, reserved: Reserved) -> list[Reserved]:
    """Return others that wait for the same gangs: what these give back counts for one only."""
    payers = {running.name for running, _, _ in reserved.paid}
    payers |= {running.name for running, _ in reserved.gifts}
    if not payers:
        return []
    return [each for each in draft.reservations.waiting_for(payers) if each is not reserved]


def _taken(draft: Draft, reserved: Reserved, *, guaranteed: bool) -> Placed | None:
    """Return where it lies now: where planned, or anywhere; None if it does not fit."""
    shape, placed = reserved.shape, reserved.placed
    if draft.capacity.is_free(shape.parts, placed.placements, placed.charge):
        for part, placement in zip(shape.parts, placed.placements):
            for replica in placement:
                draft.capacity.occupy(part, replica, guaranteed=guaranteed)
        draft.capacity.charge(placed.charge)
        return placed
    return draft.try_place(shape, lambda units: units <= placed.total, guaranteed=guaranteed)
