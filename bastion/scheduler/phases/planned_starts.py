"""
Phase 4: planned starts, so that no gang waits forever while small ones stream past it.

The oldest blocked gang of each pool gets a future start, at the first time when enough gangs have
ended. Its devices are closed from now on to borrowers that would not end by then. The first gang of
each project that its share holds gets one too, before phase 3 starts the gangs behind it: inside a
project order is kept. Only gangs of higher priority, and gangs of another project within its own
share, may still start in between.

Nothing idles for a gang that cannot start beside what other projects use, wait for and keep of
their own shares. A job without `max_runtime` counts as endless; a borrower among them is known to
end only because it is rotated after its slice. Around endless jobs of its own project, a gang that
the share holds drains what it could use: until it starts, later jobs of the project start only
elsewhere, and only as far as the share holds both. Other projects do not see a drain.

This module must not know how borrowers are ordered.

Source: EASY backfill (Lifka 1995; Mu'alem and Feitelson 2001), with one reservation per pool.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from itertools import chain

from bastion.scheduler.phases.entitlement import would_be_taken
from bastion.scheduler.phases.reservations.aged import aged, aged_on_shares
from bastion.scheduler.phases.reservations.awaited import awaited, holders_of, is_covered
from bastion.scheduler.phases.reservations.backfill import (
    could_borrow,
    may_borrow_beside,
    start_borrowing,
)
from bastion.scheduler.phases.reservations.claims import Claims
from bastion.scheduler.phases.reservations.earliest_start import (
    earliest_start,
    fits_share,
    gone_at,
    is_reclaimable,
    known_ends,
)
from bastion.scheduler.phases.reservations.fulfilment import located_again, start_reserved
from bastion.scheduler.phases.reservations.lending import (
    closed,
    count,
    count_plans,
    counted,
    discount_plans,
    lent,
    reopened,
)
from bastion.scheduler.phases.reservations.reserving import give_up, reserve
from bastion.scheduler.phases.reservations.starts import borrowing, starting
from bastion.scheduler.placement.place import Placed
from bastion.scheduler.promise import PlannedStart
from bastion.scheduler.queue.order import Entry, Gang, Line
from bastion.scheduler.queue.shape import Shape
from bastion.scheduler.reasons.reason import Rotated
from bastion.scheduler.state.decisions import PlannedStop
from bastion.scheduler.state.draft import Draft
from bastion.scheduler.state.holders.footprint import located
from bastion.scheduler.state.holders.running import Running
from bastion.scheduler.state.reservation import Reserved

SEARCHES = 4
"""Searches for new planned starts in each phase; the rest is considered in the next cycle."""
PART_BEFORE_STARTS = 4
"""The most steps for planned starts before phase 3: one of so many."""


def take_over_plans(draft: Draft) -> None:
    """Close what earlier cycles planned, and drain what they drained, as far as it holds."""
    for planned, line, entry in _planned_before(draft):
        _take_over(draft, planned, line, entry)


def plan_ahead(draft: Draft) -> None:
    """Plan for gangs that lost their start, and for gangs that the share holds, first of all."""
    kept_for = draft.reservations.kept_for
    lapsed = [
        draft.line_of(entry.gang)
        for _, _, entry in _planned_before(draft)
        if kept_for(entry.gang) is None
    ]
    _plan_ahead(draft, chain(lapsed, aged_on_shares(draft)))


def _planned_before(draft: Draft) -> Iterator[tuple[PlannedStart, Line, Entry]]:
    """Yield what earlier cycles planned for gangs that still wait."""
    for planned in sorted(draft.snapshot.planned, key=lambda each: (_time_of(each), each.gang)):
        found = draft.memory.waiting(planned.gang, draft.rank)
        if found is not None:
            yield planned, *found


def _time_of(planned: PlannedStart) -> float:
    return math.inf if planned.at is None else planned.at


def _take_over(draft: Draft, planned: PlannedStart, line: Line, entry: Entry) -> None:
    """Keep what `planned` reserves, unless it no longer holds."""
    at, until = located_again(draft, line.shape, planned), _time_of(planned)
    if at is None or draft.now > until:
        return
    plan = Reserved(gang=entry.gang, at=at, until=until, is_promise=False, rank=entry.rank)
    if not all(map(_is_gone_at(draft, plan), holders_of(draft, plan))):
        return
    waits = _waits(draft, plan)
    if waits is None and plan.drains:  # what others reserve does not end a drain
        own = draft.occupancy.by_project.get(line.project, ())
        waits = [*dict.fromkeys((*holders_of(draft, plan), *own))]
    if waits is None or (plan.drains and not waits):
        return  # others' reservations keep a drain that waits for none from its place
    plan.waits = tuple(waits)
    _keep(draft, _timed(draft, plan) if plan.drains else plan)


def _timed(draft: Draft, drain: Reserved) -> Reserved:
    """Return a drain with its start time, if all that it waits for ends at a known time."""
    until = max(map(draft.ends_at, drain.waits), default=math.inf)
    if math.isinf(until):
        return drain
    plan = Reserved(gang=drain.gang, at=drain.at, until=until, is_promise=False, rank=drain.rank)
    with counted(draft, [each for each in draft.plans.values() if not each.holds_quota]):
        waits = _waits(draft, plan)
    if waits is None:
        return drain
    plan.waits = tuple(waits)
    return plan


def _keep(draft: Draft, plan: Reserved) -> None:
    """Close it, or drain it if its time is unknown."""
    if plan.drains:
        draft.reservations.drain(plan)
    else:
        reserve(draft, plan)


def _plan_ahead(draft: Draft, lines: Iterable[Line]) -> None:
    """
    Plan for the first of each project in each pool, before anything after it starts.

    Where running gangs yield to the order, later gangs are stopped for it instead.
    """
    if draft.parts.preemption.follows_order:
        return
    claims: Claims | None = None
    searches, effort, reservations = 0, draft.search.effort, draft.reservations
    enough = effort.left - effort.left // PART_BEFORE_STARTS
    for line in lines:
        if searches == SEARCHES or effort.left < enough:
            return
        if reservations.kept_for(line.head) or line.head[0].id in draft.search.no_start:
            continue
        pools = _pools(draft, line.shape)
        ahead, drained = reservations.ahead_of(line), reservations.drained_before(line)
        if any(pools <= _pools(draft, plan.shape) for plan in (*ahead, *drained)):
            continue
        searches += 1
        claims = claims or Claims(draft)
        with closed(draft, drained), counted(draft, ahead):
            _plan_before_others(draft, line, pools, claims)


def _plan_before_others(draft: Draft, line: Line, pools: set[str], claims: Claims) -> None:
    """Plan for the head of `line`; reservations of later gangs of its project give way."""

    def is_later(plan: Reserved) -> bool:
        return plan.rank > line.first.rank and not pools.isdisjoint(_pools(draft, plan.shape))

    later = list(filter(is_later, draft.reservations.planned_for(line.project)))
    with lent(draft, later):
        found = earliest_start(draft, line, claims)
        if found is None and fits_share(draft, line.project, line.shape):
            draft.search.no_start.add(line.head[0].id)  # beyond it, it may once others are rotated
    if found is not None:
        for plan in later:
            give_up(draft, plan)
        for plan in list(filter(is_later, draft.reservations.drained_for(line.project))):
            draft.reservations.end_drain(plan.gang)
        _plan(draft, line, *found)


def plan_starts(draft: Draft) -> None:
    """Start planned gangs that fit now, keep valid plans, and plan for the oldest gangs."""
    if draft.plans or draft.reservations.drained():
        _renew_plans(draft)
    if not draft.search.unseen:  # else starting gangs could immediately be stopped for one of them
        _plan_oldest(draft)


def _renew_plans(draft: Draft) -> None:
    """
    Start or keep plans that hold, and give up the rest.

    A plan that is given up kept others of its project from their share. Phase 5 considers those
    again: new plans are made first, and are then checked against the changes.
    """
    tried: set[str] = set()
    while lapsed := _renew_each(draft):
        draft.search.no_start |= tried  # once each: they did not hold either
        tried |= {gang[0].id for gang in lapsed}
        discount_plans(draft)
        _plan_ahead(draft, [draft.line_of(gang) for gang in lapsed])


def plan_again(draft: Draft, start_blocked: Callable[[], None]) -> None:
    """
    Plan what the starts since then make possible, and give up what they make impossible.

    The next cycle would do the same. What is given up was kept from blocked gangs: `start_blocked`
    starts those that fit now.
    """
    count_plans(draft)
    if _renew_drains(draft):
        start_blocked()
        count_plans(draft)
    while _give_up_void(draft):
        start_blocked()
        count_plans(draft)
    _plan_oldest(draft)
    draft.blocked = [line for line in draft.blocked if not line.is_over]


def _give_up_void(draft: Draft) -> bool:
    """Give up the plans that no longer hold; return whether there were any."""
    if not draft.plans:
        return False
    claims, before = Claims(draft), len(draft.plans)
    for plan in list(draft.plans.values()):
        line = _line_with(draft, plan)
        if line is not None and not (claims.leave_room(line) and is_covered(draft, plan)):
            give_up(draft, plan)
    return len(draft.plans) < before


def _plan_oldest(draft: Draft) -> None:
    """Start the oldest of each pool without a plan, or plan for it."""
    claims: Claims | None = None
    reservations = draft.reservations
    kept = (*draft.plans.values(), *reservations.drained())
    planned_pools = {each for plan in kept for each in _places(draft, plan.project, plan.shape)}
    searches = 0
    for line in aged(draft):
        if line.is_over or reservations.kept_for(line.head) or not may_borrow_beside(draft, line):
            continue
        pools = _places(draft, line.project, line.shape)
        if pools <= planned_pools or line.head[0].id in draft.search.no_start:
            continue
        claims = claims or Claims(draft)
        if not claims.leave_room(line) or _goes_behind(draft, line):
            continue
        if start_borrowing(draft, line.head, line.shape):
            line.at += 1
            claims = Claims(draft)
            continue
        if searches == SEARCHES:
            break
        if claims.version != draft.shares.version:
            claims = Claims(draft)
            if not claims.leave_room(line):
                continue
        searches += 1
        found = earliest_start(draft, line, claims)
        if found is None:
            draft.search.no_start.add(line.head[0].id)
            continue
        plan = _plan(draft, line, *found)
        planned_pools |= pools
        if not plan.drains:
            _commit(draft, plan)


def _places(draft: Draft, project: str, shape: Shape) -> set[tuple[str, str]]:
    """Return the pools where it could lie, each with its project if its share holds it."""
    owner = project if fits_share(draft, project, shape) else ""
    return {(owner, name) for name in _pools(draft, shape)}


def _goes_behind(draft: Draft, line: Line) -> bool:
    """
    Whether a gang of its project with higher priority can start now, in phase 5.

    Age precedes priority only in plans: otherwise that gang would immediately preempt it.
    """
    if not draft.parts.preemption.outranks:
        return False
    higher = {
        each.key: each.shape
        for each in draft.rest[line.project]
        if each.shape.priority < line.shape.priority and not each.is_over
    }
    return any(could_borrow(draft, line.project, shape) for shape in higher.values())


def _plan(draft: Draft, line: Line, at: float, placed: Placed) -> Reserved:
    """Close the devices on which the head of `line` will start, or drain them."""
    plan = Reserved(
        gang=line.head,
        at=located(line.shape, placed),
        until=at,
        is_promise=False,
        rank=line.first.rank,
    )
    waits = _waits(draft, plan)
    assert waits is not None, "it fits once all that end by then have ended"
    plan.waits = tuple(waits)
    _keep(draft, plan)
    return plan


def _renew_each(draft: Draft) -> list[Gang]:
    """Renew every plan; return the gangs that keep waiting without one."""
    claims, lapsed = Claims(draft), []
    for plan in list(draft.plans.values()):
        _renew(draft, plan, claims)
        if plan.name not in draft.plans and _line_with(draft, plan) is not None:
            lapsed.append(plan.gang)
    return [*lapsed, *_renew_drains(draft)]


def _renew(draft: Draft, plan: Reserved, claims: Claims) -> None:
    """Start the gang of a standing plan if it fits; the plan is void if it does not hold."""
    line = _line_with(draft, plan)
    if line is None or not claims.leave_room(line) or not is_covered(draft, plan):
        give_up(draft, plan)
        return
    if start_reserved(draft, plan, guaranteed=False):
        line.remove(plan.gang)
        return
    with reopened(draft, [plan]):
        waits = _waits(draft, plan)
        draft.reservations.wait_for(plan, waits or ())
    if waits is None:
        give_up(draft, plan)
        return
    _commit(draft, plan)


def _renew_drains(draft: Draft) -> list[Gang]:
    """
    Set times of drains that are known now, and give up what a starting gang will hold.

    Return the gangs that keep waiting without a drain.
    """
    drained, lapsed = draft.reservations.drained(), []
    new = starting(draft) if drained else []
    for drain in drained:
        there = [running for running in new if running.footprint.meets(drain.footprint)]
        borrowed = borrowing(draft, drain.project) if there else []
        own = [running for running in there if running not in borrowed]
        if not all(map(_is_gone_at(draft, drain), own)):
            draft.reservations.end_drain(drain.gang)
            draft.search.loosened.add(drain.project)  # others of it waited behind this
            lapsed.append(drain.gang)
            continue
        plan = _timed(draft, drain)
        if plan is not drain:
            reserve(draft, plan)
            _commit(draft, plan)
    return lapsed


def _line_with(draft: Draft, plan: Reserved) -> Line | None:
    lines = draft.rest.get(plan.project, ())
    return next((line for line in lines if line.has(plan.gang)), None)


def _pools(draft: Draft, shape: Shape) -> set[str]:
    """Return the pools where any part of it could lie."""
    names = set[str]()
    for part in shape.parts:
        for shelves in draft.capacity.scope(part.where).tiers:
            names |= {s.name for s in shelves if (s.hosts > 1) == (part.hosts > 1)}
    return names


def _waits(draft: Draft, plan: Reserved) -> list[Running] | None:
    """Return the gangs that must end before `plan` starts; None if it has no room even then."""
    is_gone = _is_gone_at(draft, plan)
    new = [running for running in starting(draft) if running.footprint.meets(plan.footprint)]
    if not all(map(is_gone, new)):
        return None
    project, shape = plan.project, plan.shape

    def order(running: Running) -> tuple[bool, float, str]:
        """A sort key: no gang is rotated for room that becomes free anyway."""
        end = gone_at(draft, running, shape, project)
        return draft.ends_at(running) > plan.until, end, running.name

    def search(borrows: bool) -> list[Running] | None:
        return awaited(
            draft,
            project,
            plan.at,
            [*holders_of(draft, plan), *new],
            known_ends(draft).by(plan.until, project),
            within_share=False,
            borrows=borrows,
            has_ended=is_gone,
            order=order,
        )

    within = search(borrows=False) if plan.drains else None  # by then it may be unable to borrow
    return search(borrows=True) if within is None else within


def _is_gone_at(draft: Draft, plan: Reserved) -> Callable[[Running], bool]:
    """Whether a gang has ended when `plan` starts, by itself or because it is stopped for it."""
    project, until = plan.project, plan.until
    is_on_share = fits_share(draft, project, plan.shape)
    least_s = draft.options.min_runtime_s

    def is_gone(running: Running) -> bool:
        end = gone_at(draft, running, plan.shape, project)
        if end <= until and not math.isinf(end):
            return True
        if not is_on_share:
            return False
        if running.project == project:
            return plan.drains
        may_be_told = is_reclaimable(draft, running, project)
        return may_be_told and running.started_at + least_s + running.grace_s <= until

    return is_gone


def _rotated(draft: Draft, plan: Reserved) -> list[Running]:
    """Return what would continue beyond the start of `plan` unless rotated, and may be rotated."""
    late = [running for running in plan.waits if draft.ends_at(running) > plan.until]
    return [r for r in late if gone_at(draft, r, plan.shape, plan.project) <= plan.until]


def _commit(draft: Draft, plan: Reserved) -> None:
    """
    Let the plan hold its room in the quota, and rotate gangs that had their time.

    It is given up if a gang within its share would take what these borrowers leave.
    """
    plan.holds_quota = True
    count(draft, plan)
    rotated = _rotated(draft, plan)
    if not rotated:
        return
    with lent(draft, [plan]):
        is_in_vain = would_be_taken(draft, plan.gang, rotated)
    if is_in_vain:
        draft.search.no_start.add(plan.name)
        give_up(draft, plan)
        return
    for running in rotated:
        if plan.until - running.grace_s <= draft.now:
            borrowed_s = draft.now - running.started_at
            slice_s = draft.options.borrow_slice_s
            reason = Rotated(by=plan.name, borrowed_s=borrowed_s, slice_s=slice_s)
            stop = PlannedStop(by=plan.name, stop_at=draft.now, end_at=plan.until, reason=reason)
            draft.victims[running.name] = stop
