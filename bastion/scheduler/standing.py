"""
Standing promises: what earlier cycles promised, kept, fulfilled or void.

Rules: a promise keeps its devices and its deadline from cycle to cycle. It is fulfilled as soon as
its gang fits, there or anywhere. It is void when a device is lost, when somebody holds one who
will not be gone by the deadline, when a victim not yet stopped is no longer a legal one, when the
gang has left the queue or its project's share, or when its deadline has passed and, resting on
priority alone, the quota has no room for it; a gang that still waits is then looked at anew in
the same cycle.

It must not know how a promise is made.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from bastion.job import JobClass, Placement
from bastion.scheduler.capacity import Capacity
from bastion.scheduler.draft import Draft, Reserved
from bastion.scheduler.guarantee import doom_of
from bastion.scheduler.order import Entry, Gang, Line
from bastion.scheduler.placement import Placed
from bastion.scheduler.promise import Promise
from bastion.scheduler.running import Running, charge_of, taken_by
from bastion.scheduler.victims import is_legal
from quota.amounts import Amounts


def stand_by(draft: Draft) -> None:
    """Take over every promise that still holds; start the gangs within their share that can."""
    waiting = heads(draft) if draft.snapshot.promises else {}
    for promise in sorted(draft.snapshot.promises, key=lambda p: (p.made_at, p.gang)):
        found = waiting.get(promise.gang)
        if found is not None:
            _take_over(draft, promise, *found)
    for reserved in list(draft.reserved.values()):
        if draft.promises[reserved.name].within_share:
            start_promised(draft, reserved, guaranteed=True)


def start_outranking(draft: Draft) -> None:
    """
    Start the gangs whose promise rests on priority, not on a share; after phase 3.

    A gang within its share may have taken of their devices in this cycle: then the promise is
    void, and the gang is looked at like every other.
    """
    for reserved in list(draft.reserved.values()):
        if draft.promises[reserved.name].within_share:
            continue
        if not is_covered(draft, reserved):
            draft.open(reserved)
            draft.release(reserved)
            del draft.promises[reserved.name]
            draft.put_back(reserved)
        else:
            start_promised(draft, reserved, guaranteed=False)


def start_promised(draft: Draft, reserved: Reserved, *, guaranteed: bool) -> None:
    """Fulfil a promise, if that can be done now."""
    if start_reserved(draft, reserved, guaranteed=guaranteed):
        del draft.promises[reserved.name]


def heads(draft: Draft) -> dict[tuple[str, ...], tuple[Line, Entry]]:
    """Every waiting gang by the ids of its jobs."""
    return {
        tuple(job.id for job in entry[3]): (line, entry)
        for lines in draft.lines.values()
        for line in lines
        for entry in line.gangs
    }


def _take_over(draft: Draft, promise: Promise, line: Line, entry: Entry) -> None:
    gang, shape = entry[3], line.shape
    placed = placed_again(draft, line, promise.placements)
    if placed is None:
        return
    is_within = draft.shares.is_within(line.project, placed.total)
    if is_within and not promise.within_share:
        promise = replace(promise, within_share=True)  # others of its project have ended since
    victims = list(_victims(draft, promise, gang, line))
    if not is_within and not _has_room(draft, promise, line, placed, victims):
        return
    holders = draft.holders(promise.placements)
    named = {victim.name for victim in victims}
    for holder in holders:
        if holder.is_leaving or holder.name in named or holder.name in draft.doomed:
            continue
        if holder.frees_at > promise.deadline:
            return
    for victim in victims:
        known = draft.doomed.get(victim.name)
        if known is not None and known.is_firm:
            continue
        stop = min(at for job, at in promise.victims if job in victim.ids)
        draft.doomed[victim.name] = doom_of(
            draft, victim, gang, shape, stop, is_firm=promise.within_share
        )
    line.remove(gang)
    legal = {job for victim in victims for job in victim.ids}
    still = tuple(
        (job, at)
        for job, at in promise.victims
        if job in legal or (job in draft.of_job and draft.of_job[job].is_leaving)
    )
    draft.promises[gang[0].id] = replace(promise, victims=still)
    draft.reserve(
        Reserved(
            gang=gang,
            shape=shape,
            placed=placed,
            until=promise.deadline,
            is_promise=True,
            victims=tuple(victims),
        )
    )


def _has_room(
    draft: Draft, promise: Promise, line: Line, placed: Placed, victims: list[Running]
) -> bool:
    """Whether the quota still lets it start once its victims are gone."""
    if promise.within_share:
        return draft.class_of_promise.get(promise.gang[0]) is JobClass.GUARANTEED
    going = {r.name: r for r in draft.holders(promise.placements) if r.is_leaving}
    going.update((victim.name, victim) for victim in victims)
    back = Amounts.sum(r.held for r in going.values() if r.project == line.project)
    draft.shares.add(line.project, -back)
    has_room = draft.shares.is_under_ceiling(line.project, placed.total)
    if draft.now >= promise.deadline:  # whoever was to leave has left: or it waits for ever
        has_room = draft.shares.may_borrow(line.project, placed.total)
    draft.shares.add(line.project, back)
    return has_room


def _victims(draft: Draft, promise: Promise, gang: Gang, line: Line) -> Iterator[Running]:
    """Victims that are not yet being stopped, and may still be."""
    seen: set[str] = set()
    for job, _ in promise.victims:
        running = draft.of_job.get(job)
        if running is None or running.is_leaving or running.name in seen:
            continue
        seen.add(running.name)
        legal = is_legal(draft, running, gang, line.shape, within_share=promise.within_share)
        if legal and running.admitted_at <= promise.made_at:
            yield running


def placed_again(draft: Draft, line: Line, placements: tuple[Placement, ...]) -> Placed | None:
    """The same devices again, if all of them are still in order."""
    parts = line.shape.parts
    if not _is_sound(draft.capacity, placements):
        return None
    pairs = [(part, replica) for part, places in zip(parts, placements) for replica in places]
    return Placed(placements=placements, charge=charge_of(pairs, draft.capacity))


def _is_sound(capacity: Capacity, placements: tuple[Placement, ...]) -> bool:
    for machine, masks in taken_by(placements).items():
        room = capacity.by_name.get(machine)
        if room is None or not room.opened:
            return False
        if any(mask & room.bad.get(resource, 0) for resource, mask in masks.items()):
            return False
        if any(mask >> room.full[resource] for resource, mask in masks.items()):
            return False
    return True


def _has_room_now(draft: Draft, reserved: Reserved) -> bool:
    """Whether the quota has room already; victims may still hold what it needs of that."""
    project, asked = reserved.gang[0].project, reserved.placed.total
    draft.lend(reserved)
    has = draft.shares.is_within(project, asked) or draft.shares.may_borrow(project, asked)
    draft.call_in(reserved)
    return has


def start_reserved(draft: Draft, reserved: Reserved, *, guaranteed: bool) -> bool:
    """Start the gang if it fits, where it was to be or anywhere; else everything stays closed."""
    if not _has_room_now(draft, reserved):
        return False
    draft.open(reserved)
    shape, placed = reserved.shape, reserved.placed
    if draft.capacity.is_free(shape.parts, placed.placements, placed.charge):
        for part, placement in zip(shape.parts, placed.placements):
            for replica in placement:
                draft.capacity.occupy(part, replica, guaranteed=guaranteed)
        draft.capacity.charge(placed.charge)
    else:
        draft.capacity.begin()
        again = draft.try_place(shape, guaranteed=guaranteed)
        if again is None or not again.total <= placed.total:
            draft.capacity.undo()
            draft.shut(reserved)
            return False
        draft.capacity.agree()
        placed = again
    draft.release(reserved)
    draft.admit(reserved.gang, shape, placed)
    return True


def is_covered(draft: Draft, reserved: Reserved) -> bool:
    """Whether nothing of it was promised to, or taken by, somebody else in this cycle."""
    assert reserved.hold is not None
    held = _merged(running.taken for running in draft.holders(reserved.placed.placements))
    ours: dict[tuple[str, str], int] = {}
    for room, resource, free, later in reserved.hold.masks:
        key = room.name, resource
        ours[key] = ours.get(key, 0) | free | (later & held.get(key, 0))
    return not any(
        mask & ~ours.get((machine, resource), 0)
        for machine, masks in taken_by(reserved.placed.placements).items()
        for resource, mask in masks.items()
    )


def _merged(taken: Iterable[dict[str, dict[str, int]]]) -> dict[tuple[str, str], int]:
    merged: dict[tuple[str, str], int] = {}
    for each in taken:
        for machine, masks in each.items():
            for resource, mask in masks.items():
                merged[machine, resource] = merged.get((machine, resource), 0) | mask
    return merged
