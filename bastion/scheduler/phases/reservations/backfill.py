"""
Backfill: gangs that start beside what is closed for a later time, without delaying it.

This module must not know which gang is next.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial

from bastion.scheduler.phases.reservations.breakable import stands_within
from bastion.scheduler.phases.reservations.earliest_start import fits_share
from bastion.scheduler.phases.reservations.lending import count_plans, set_apart
from bastion.scheduler.phases.reservations.starts import newest, waits_for_its_rest
from bastion.scheduler.placement.capacity import Capacity
from bastion.scheduler.placement.room import Room
from bastion.scheduler.queue.order import Gang, Line
from bastion.scheduler.queue.shape import BEST_EFFORT, Part, Shape
from bastion.scheduler.state.draft import Draft
from bastion.scheduler.state.reservation import Reserved
from quota.amounts import Amounts

HOLDS_COUNTED_A_STEP = 32
"""Reservations whose devices are counted in the time of one step."""


def put_off(draft: Draft, plans: Iterable[Reserved], shape: Shape) -> list[Reserved]:
    """
    Return those of `plans` that a later gang of their project, of `shape`, would delay by
    borrowing.

    What it holds would count against the share that they wait for, unless it ends in time.
    """
    end = draft.end_of(shape)
    return [
        plan
        for plan in plans
        if (end is None or end > plan.until)
        and not plan.shape.scarce.isdisjoint(shape.scarce)
        and fits_share(draft, plan.project, plan.shape)
    ]


def may_borrow_beside(draft: Draft, line: Line) -> bool:
    """Whether the head of `line`, beyond its share, delays no gang of its project."""
    if draft.reservations.drained_before(line):
        return False
    return not put_off(draft, draft.reservations.ahead_of(line), line.shape)


def displaces(draft: Draft, project: str, units: Amounts) -> bool:
    """
    Whether a promise on the share of a group would lose its place to a borrower of `project`.

    Its victims would have been stopped in vain.
    """
    groups_of = draft.snapshot.quota.groups_of
    if not (groups_of(project) and draft.promised):
        return False
    with draft.shares.without(standing=draft.departing().sums):
        outgrown = draft.shares.outgrown(project, units)
    return bool(outgrown) and any(
        draft.promises[each.name].within_share
        and any(group.name in outgrown for group in groups_of(each.project))
        and not stands_within(draft, each, own=True)
        for each in draft.promised.values()
    )


def could_borrow(draft: Draft, project: str, shape: Shape) -> bool:
    """Whether a gang of it could start now on what others leave idle."""
    if draft.is_too_full(shape, guaranteed=False):
        return False
    if not draft.shares.lets_borrow(project, shape, shape.asked):
        return False
    may_borrow = partial(draft.shares.lets_borrow, project, shape)
    return draft.would_place(shape, may_borrow, guaranteed=False) is not None


def start_borrowing(draft: Draft, gang: Gang, shape: Shape) -> bool:
    """Start `gang` now, if the quota and free and open capacity allow it, or set it aside."""
    if waits_for_its_rest(draft, gang):
        return True
    project = gang[0].project
    if draft.is_too_full(shape, guaranteed=False):
        return False
    count_plans(draft)
    key = project, shape.form
    if draft.search.no_room.get(key) == draft.shares.version:
        return False
    if not draft.shares.lets_borrow(project, shape, shape.asked):
        draft.search.no_room[key] = draft.shares.version
        return False
    if displaces(draft, project, shape.asked):
        return False

    may_borrow = partial(draft.shares.lets_borrow, project, shape)
    return draft.try_admit(gang, shape, may_borrow, guaranteed=False)


def gaps(draft: Draft, shape: Shape, reserved: Iterable[Reserved]) -> list[Reserved]:
    """Return what is closed until a time by which a gang of `shape` ends if it starts now."""
    end = draft.end_of(shape)
    if end is None:
        return []
    return [each for each in reserved if end <= each.until]


def backfill(
    draft: Draft, shape: Shape, opened: Sequence[Reserved], start: Callable[[], bool]
) -> bool:
    """
    Whether a gang of `shape` can `start` while these are open; each then waits for it, too.

    Nothing is opened if machines would lack devices even so.
    """
    reserved = draft.closed
    draft.search.effort.spend(1 + len(opened) // HOLDS_COUNTED_A_STEP)
    if not may_fit_beside(draft, shape, opened):
        return False
    draft.search.effort.spend(len(reserved))
    others = [each for each in reserved if each not in opened]
    with set_apart(draft, opened, others):
        done = start()
        if done:
            new = newest(draft)
            for each in opened:
                if each.footprint.meets(new.footprint):
                    draft.reservations.wait_for(each, (new, *each.waits))
    return done


def may_backfill(draft: Draft, shape: Shape) -> bool:
    """Whether a gang of `shape` might start on what is closed for others, and end in time."""
    known = draft.search.gaps
    if shape.max_runtime_s is None or not (shape.borrows and (draft.promised or draft.plans)):
        return False
    if shape.form not in known:
        reserved = draft.closed
        draft.search.effort.spend(1 + len(reserved) // HOLDS_COUNTED_A_STEP)
        known[shape.form] = may_fit_beside(draft, shape, reserved)
    return known[shape.form]


def may_fit_beside(draft: Draft, shape: Shape, opened: Iterable[Reserved]) -> bool:
    """Whether free capacity, with all that is `opened`, could suffice; a quick upper bound."""
    kept: dict[Room, dict[str, int]] = {}
    for hold in (each.hold for each in opened if each.hold is not None):
        for room, resource, _, free, _ in hold.masks:
            more = kept.setdefault(room, {})
            more[resource] = more.get(resource, 0) + free.bit_count()
        for room, resource, free, _ in hold.counts:
            more = kept.setdefault(room, {})
            more[resource] = more.get(resource, 0) + free
    return all(_slots_may_do(draft.capacity, part, kept) for part in shape.parts)


def may_fit_again(draft: Draft, reserved: Reserved) -> bool:
    """Return `may_fit_beside` for what is closed for it; fast if that holds nothing free yet."""
    form, hold = reserved.shape.form, reserved.hold
    assert hold is not None
    is_empty = not (any(free for *_, free, _ in hold.masks) or hold.counts)
    if is_empty and form in draft.search.no_slots:
        return False
    may_fit = may_fit_beside(draft, reserved.shape, (reserved,))
    if is_empty and not may_fit:
        draft.search.no_slots.add(form)
    return may_fit


def _slots_may_do(capacity: Capacity, part: Part, kept: Mapping[Room, Mapping[str, int]]) -> bool:
    """Whether machines may have as many slots as `part` needs, if `kept` is free as well."""
    resource, units = part.leading
    if resource == BEST_EFFORT or part.hosts > 1:
        return True
    slots = sum(_slots_with(room, part, more) for room, more in kept.items())
    for shelf in (shelf for tier in capacity.scope_of(part).tiers for shelf in tier):
        if slots >= part.replicas or shelf.left:
            return True
        for _, ordinal in shelf.ascending(resource, units):
            room = capacity.rooms[ordinal]
            slots += 0 if room in kept else room.slots(part)
            if slots >= part.replicas:
                return True
    return slots >= part.replicas


def _slots_with(room: Room, part: Part, more: Mapping[str, int]) -> int:
    """Return how many replicas may fit there, with `more` free."""
    if part.exclusive and (room.occupants or room.sealed):
        return 0
    asked = (*part.devices, *part.counts)
    return min([(room.free(each) + more.get(each, 0)) // units for each, units in asked])
