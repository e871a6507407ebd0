"""
Standing promises: what earlier cycles promised, kept, fulfilled or void.

A promise keeps its devices and its deadline from cycle to cycle. It is fulfilled as soon as its
gang fits, there or anywhere. It is void when:

- a device, or a label that the gang asks for, is lost;
- a gang holds a device and will not end by the deadline;
- a victim that is not yet stopped is no longer legal;
- the gang has left the queue or its project's share;
- its deadline has passed and, resting on priority alone, the quota has no room for it.

A gang that still waits is then considered again in the same cycle, and classes are derived again
without the promise.

This module must not know how a promise is made.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from functools import cache, partial
from operator import attrgetter

from bastion.scheduler.phases.entitlement import is_in_vain
from bastion.scheduler.phases.guarantee import look_again
from bastion.scheduler.phases.reservations.awaited import (
    awaited,
    has_room_then,
    holders_of,
    is_covered,
)
from bastion.scheduler.phases.reservations.breakable import stands_within
from bastion.scheduler.phases.reservations.fulfilment import located_again, sharing, start_reserved
from bastion.scheduler.phases.reservations.lending import discounted, lent, set_apart
from bastion.scheduler.phases.reservations.new_promise import name_victim
from bastion.scheduler.phases.reservations.reserving import give_up, reserve
from bastion.scheduler.phases.survey import classify_again
from bastion.scheduler.placement.place import Placed
from bastion.scheduler.preemption.stop_times import spare_until, stop_by
from bastion.scheduler.preemption.victims import is_legal
from bastion.scheduler.promise import Promise
from bastion.scheduler.queue.order import Entry, Gang, Line
from bastion.scheduler.queue.shape import Shape
from bastion.scheduler.state.draft import Draft
from bastion.scheduler.state.holders.running import Running
from bastion.scheduler.state.reservation import Reserved

_frees_at = attrgetter("frees_at")


def stand_by(draft: Draft) -> None:
    """Take over every promise that still holds; the others do not count in the classes."""
    promises = draft.snapshot.promises
    named = frozenset(job for promise in promises for job, _ in promise.victims)
    void = set()
    for promise in sorted(promises, key=lambda p: p.made_at):
        found = draft.memory.waiting(promise.gang, draft.rank)
        if found is None:
            void.add(promise.gang[0])
        elif not _take_over(draft, promise, *found, named):
            void.add(promise.gang[0])
            draft.lapsed.append(found[1].gang)
    classify_again(draft, void)


def fulfil(draft: Draft) -> None:
    """
    Start gangs with a promise that are within their project's share now, wherever they fit.

    Skip gangs that a waiting gang of higher priority would immediately preempt: that one goes
    first.
    """
    foremost = cache(partial(_foremost, draft))
    for reserved in _standing(draft):
        is_outranked = foremost(reserved.project) < reserved.shape.priority
        if not is_outranked and stands_within(draft, reserved, own=True):
            _start_promised(draft, reserved, guaranteed=True)


def start_others(draft: Draft) -> None:
    """
    Start the other gangs with a promise that can, beside planned starts; after phase 3.

    A gang within its share may have taken some of their devices in this cycle, or a victim that
    they wait for is no longer stopped: then the promise is void.
    """
    before = len(draft.promised)
    for reserved in _standing(draft):
        if _keep_or_give_up(draft, reserved):
            _start_promised(draft, reserved, guaranteed=stands_within(draft, reserved))
    if len(draft.promised) == before:
        return
    look_again(draft)  # some started elsewhere than on their reservation, or were given up
    for reserved in _standing(draft):
        _keep_or_give_up(draft, reserved)  # what that left may have been promised since


def _standing(draft: Draft) -> Iterator[Reserved]:
    """Yield what is closed for promises of earlier cycles, without those given up since."""
    for reserved in [draft.promised[name] for name in draft.standing if name in draft.promised]:
        if draft.promised.get(reserved.name) is reserved:
            yield reserved


def _foremost(draft: Draft, project: str) -> float:
    """Return the highest priority (lowest number) of gangs that wait and may be within share."""
    if not draft.parts.preemption.outranks:
        return math.inf
    nominal = draft.shares.project(project).nominal
    return min(
        (
            line.shape.priority
            for line in draft.lines.get(project, ())
            if not line.is_over and line.shape.asked <= nominal
        ),
        default=math.inf,
    )


def _keep_or_give_up(draft: Draft, reserved: Reserved) -> bool:
    holds = _holds(draft, reserved)
    if not holds:
        give_up(draft, reserved)
    return holds


def _holds(draft: Draft, reserved: Reserved) -> bool:
    """Whether it still gets its devices and its room in the quota by its deadline."""
    if not is_covered(draft, reserved):
        return False
    late = (running for running in reserved.waits if running.frees_at > reserved.until)
    if not all(map(draft.is_departing, late)):
        return False
    if draft.promises[reserved.name].within_share:
        return not draft.shares.is_nested or is_still_within(draft, reserved)
    if _lacks_room(draft, reserved):
        return False
    with lent(draft, [reserved]):
        return not is_in_vain(draft, reserved.gang, reserved.victims)


def is_still_within(draft: Draft, reserved: Reserved) -> bool:
    """Whether others of its group, within their own share, have left it its place on the share."""
    if draft.has_own_place(reserved.name):
        return True
    with discounted(draft, [reserved]):
        return _is_within_then(draft, reserved.project, reserved.placed)


def _lacks_room(draft: Draft, reserved: Reserved) -> bool:
    """Whether it has no room even after everything that ends by then has ended."""
    others, limited = sharing(draft, reserved), draft.search.limited
    if limited is None:
        bounded = (running for running in draft.running.values() if running.frees_at < math.inf)
        limited = draft.search.limited = sorted(bounded, key=_frees_at)
    over = limited[: bisect_right(limited, reserved.until, key=_frees_at)]
    with set_apart(draft, [reserved], others):
        return not has_room_then(draft, reserved, {*reserved.waits, *over})


def _start_promised(draft: Draft, reserved: Reserved, *, guaranteed: bool) -> None:
    """Fulfil a promise, if possible now; it is void if it never will be."""
    if start_reserved(draft, reserved, guaranteed=guaranteed):
        del draft.promises[reserved.name]
    elif draft.now >= reserved.until and not any(map(draft.is_departing, reserved.waits)):
        give_up(draft, reserved)


def _take_over(
    draft: Draft, promise: Promise, line: Line, entry: Entry, named: frozenset[str]
) -> bool:
    """Close what `promise` keeps, or find it void; `named` are victims of any promise."""
    gang, shape = entry.gang, line.shape
    draft.capacity.make_again(promise.placements)
    at = located_again(draft, shape, promise)
    if at is None:
        return False
    is_within = draft.shares.is_within(line.project, at.placed.total, own=not shape.borrows)
    if is_within and not promise.within_share:
        promise = replace(promise, within_share=True)  # others of its project have ended since
    victims = tuple(_victims(draft, promise, gang, line)) if promise.victims else ()
    before = {victim.name: draft.victims.get(victim.name) for victim in victims}
    own = _name_victims(draft, promise, gang, shape, victims)
    reserved = Reserved(gang=gang, at=at, until=promise.deadline, is_promise=True, victims=victims)
    waits = _waits(draft, promise, reserved, named, is_within=is_within)
    if waits is None:
        draft.victims.restore(before)
        return False
    reserved.waits = tuple(waits)
    line.remove(gang)
    if promise.victims:
        stops = _stops(draft, promise, victims, own, waits)
        promise = _with_stops(draft, promise, stops)
    draft.promises[gang[0].id] = promise
    reserve(draft, reserved)
    return True


def _with_stops(draft: Draft, promise: Promise, stops: Mapping[str, float]) -> Promise:
    """Return `promise` with the victims that have not ended; running ones get these `stops`."""
    still = tuple(
        (job, stops.get(job, at))
        for job, at in promise.victims
        if job in stops or (job in draft.of_job and draft.of_job[job].is_leaving)
    )
    return promise if still == promise.victims else replace(promise, victims=still)


def _name_victims(
    draft: Draft, promise: Promise, gang: Gang, shape: Shape, victims: Iterable[Running]
) -> list[Running]:
    """Name those of `victims` again that no other promise names with equal right."""
    own = []
    for victim in victims:
        known = draft.victims.get(victim.name)
        if known is None or (promise.within_share and not known.is_firm):
            own.append(victim)
            name_victim(draft, victim, gang, shape, is_firm=promise.within_share)
    return own


def _stops(
    draft: Draft,
    promise: Promise,
    victims: Iterable[Running],
    own: Iterable[Running],
    waits: Iterable[Running],
) -> dict[str, float]:
    """Return when each job of `victims` stops: not later than announced, and not before it must."""
    spare_until(draft, own, max(map(draft.ends_at, waits), default=draft.now))
    stops = {}
    for victim in victims:
        told = min(at for job, at in promise.victims if job in victim.ids)
        stop_by(draft, victim, max(draft.now, told))
        stops.update(dict.fromkeys(victim.ids, draft.victims[victim.name].stop_at))
    return stops


def _waits(
    draft: Draft,
    promise: Promise,
    reserved: Reserved,
    named: frozenset[str],
    *,
    is_within: bool,
) -> list[Running] | None:
    """
    Return what it still waits for, all gone by the deadline; None if that no longer suffices.

    What is stopped for another promise, one of those `named`, is counted on last.
    """
    placed, victims = reserved.placed, reserved.victims
    if promise.within_share and not (
        is_within
        or draft.has_own_place(reserved.name)
        or _is_within_then(draft, reserved.project, placed)
    ):
        return None
    going = {victim.name for victim in victims}

    def is_gone(running: Running) -> bool:
        is_over = running.frees_at <= promise.deadline
        return is_over or running.name in going or draft.is_departing(running)

    holders = holders_of(draft, reserved)
    if not all(map(is_gone, holders)):
        return None
    sure = {running.name: running for running in (*holders, *victims)}

    def order(running: Running) -> tuple[bool, float, str]:
        return not named.isdisjoint(running.ids), draft.ends_at(running), running.name

    return awaited(
        draft,
        reserved.project,
        reserved.at,
        sure.values(),
        draft.running.values(),
        within_share=promise.within_share,
        has_ended=is_gone,
        order=order,
    )


def _is_within_then(draft: Draft, project: str, placed: Placed) -> bool:
    """Whether it is within a share once all stops, present and planned, are over."""
    with draft.shares.without(standing=draft.departing().sums):
        return draft.shares.is_within(project, placed.total)


def _victims(draft: Draft, promise: Promise, gang: Gang, line: Line) -> Iterator[Running]:
    """Yield victims that are not yet being stopped, and may still be."""
    seen: set[str] = set()
    for job, _ in promise.victims:
        running = draft.of_job.get(job)
        if running is None or running.is_leaving or running.name in seen:
            continue
        seen.add(running.name)
        legal = is_legal(draft, running, gang, line.shape, within_share=promise.within_share)
        if legal and running.admitted_at <= promise.made_at:
            yield running
