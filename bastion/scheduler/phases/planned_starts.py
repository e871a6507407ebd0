"""
Phase 4: planned starts, so that no gang waits for ever while small ones stream past it.

The oldest blocked gang of each pool gets a start in the future, at the first time when enough has
ended; its devices are closed from now on to borrowers that would not have ended by then. The first
gang of each project that its share holds gets one, too, and before phase 3 starts what comes after
it: inside a project order is kept. Only higher priority, and a gang of another project within its
own share, may still come in between.

Rules: nothing idles for a gang that cannot start beside what other projects use, wait for and keep
of their own shares. A job without `max_runtime` counts as endless; that a borrower among them ends
is known only because it is rotated after its slice. Around endless jobs of its own project a gang
that the share holds drains what it could use: until it starts no later job of the project does.

It must not know how borrowers are ordered.

Source: EASY backfill (Lifka 1995; Mu'alem and Feitelson 2001), one reservation for each pool.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from itertools import chain

from bastion.scheduler.phases.awaited import awaited
from bastion.scheduler.phases.backfill import counted
from bastion.scheduler.phases.claims import Claims
from bastion.scheduler.phases.first_fit import (
    Fit,
    ends_at,
    first_fit,
    fits_share,
    holding,
    is_reclaimable,
)
from bastion.scheduler.phases.guarantee import would_be_taken
from bastion.scheduler.phases.promises import is_covered, placed_again, start_reserved, waiting_gang
from bastion.scheduler.phases.revocation import could_borrow, starting
from bastion.scheduler.placement.place import Placed
from bastion.scheduler.promise import PlannedStart
from bastion.scheduler.queue.order import Entry, Gang, Line, ids_of, place_of
from bastion.scheduler.queue.shape import Shape
from bastion.scheduler.reasons.reason import Rotated
from bastion.scheduler.state.decisions import Doom
from bastion.scheduler.state.draft import Draft
from bastion.scheduler.state.reservation import Reserved
from bastion.scheduler.state.running import Running

SEARCHES = 4
"""Searches for new planned starts in each phase; what is left is looked at in the next cycle."""
PART = 4
"""Before phase 3 that part of the steps is spent on planned starts at most, as one of so many."""


def take_over_plans(draft: Draft) -> None:
    """Close again what earlier cycles planned, and plan for those that others may not overtake."""
    lapsed = []
    for planned in sorted(draft.snapshot.planned, key=lambda each: (each.at, each.gang)):
        found = waiting_gang(draft, planned.gang)
        if found is not None and not _take_over(draft, planned, *found):
            lapsed.append(draft.line_of(found[1][3]))
    _plan_ahead(draft, [*lapsed, *_aged_on_shares(draft)])


def _take_over(draft: Draft, planned: PlannedStart, line: Line, entry: Entry) -> bool:
    """Close what `planned` keeps, or find that it does not hold any more."""
    placed = placed_again(draft, line, planned.placements)
    if placed is None or draft.now > planned.at:
        return False
    plan = Reserved(
        gang=entry[3],
        shape=line.shape,
        placed=placed,
        until=planned.at,
        is_promise=False,
        rank=entry[0],
    )
    if not all(_is_gone(draft, running, plan) for running in draft.holders(plan.footprint)):
        return False
    waits = _waits(draft, plan)
    if waits is None:
        return False
    plan.waits = tuple(waits)
    draft.reserve(plan)
    return True


def _aged_on_shares(draft: Draft) -> list[Line]:
    """Lines with aged heads that the share of their project holds, the first to plan for first."""
    aged = _aged_in(draft, draft.lines.values())
    found = [line for line in aged if fits_share(draft, line.project, line.shape)]
    return sorted(found, key=lambda line: place_of(line.gangs[line.at]))


def _plan_ahead(draft: Draft, lines: Sequence[Line]) -> None:
    """
    Plan for the first of each project in each pool, before anything after it starts.

    Where running gangs yield to the order, what comes after it is stopped for it instead.
    """
    if draft.parts.preemption.follows_order:
        return
    searches, effort = 0, draft.search.effort
    enough = effort.left - effort.left // PART
    for line in lines:
        if searches == SEARCHES or effort.left < enough:
            return
        if line.head[0].id in draft.plans or line.head[0].id in draft.search.no_start:
            continue
        pools = set(_pools(draft, line.shape))
        ahead = draft.reservations.ahead_of(line)
        if any(pools <= set(_pools(draft, plan.shape)) for plan in ahead):
            continue
        searches += 1
        with counted(draft, ahead):
            _plan_before_others(draft, line, pools)


def _plan_before_others(draft: Draft, line: Line, pools: set[str]) -> None:
    """Plan for the head of `line`; what is planned for a later gang of its project gives way."""
    later = [
        plan
        for plan in draft.reservations.planned_for(line.project)
        if plan.rank > line.gangs[line.at][0] and pools & set(_pools(draft, plan.shape))
    ]
    for plan in later:
        draft.lend(plan)
    found = _first_start(draft, line)
    for plan in later:
        draft.call_in(plan)
    if found is not None:
        for plan in later:
            draft.give_up(plan)
        _plan(draft, line, *found)


def _first_start(draft: Draft, line: Line) -> Fit | None:
    """As `first_fit`; what has no start is not looked at again in this cycle."""
    found = first_fit(draft, line)
    if found is None:
        draft.search.no_start.add(line.head[0].id)
    return found


def plan_starts(draft: Draft) -> None:
    """Start what was planned and fits now, keep what still holds, and plan for the oldest."""
    aged = _aged(draft)
    if not aged and not draft.plans:
        return
    claims = Claims(draft)
    waiting = {line.head[0].id: line for line in _waiting_lines(draft)}
    for plan in list(draft.plans.values()):
        line = waiting.get(plan.name)
        if line is None or line.is_over or line.head is not plan.gang:
            line = next((each for each in _waiting_lines(draft) if each.has(plan.gang)), None)
        _renew(draft, plan, line, claims)
    if not draft.search.unseen:  # else what starts could be stopped for one of them at once
        _plan_oldest(draft, _aged(draft), claims)


def plan_again(draft: Draft) -> None:
    """
    Plan what the starts since then make possible, and give up what they make impossible.

    As the next cycle would.
    """
    if draft.plans:
        _give_up(draft)
    aged = _aged(draft)
    if aged:
        _plan_oldest(draft, aged, Claims(draft))
        draft.blocked = [line for line in draft.blocked if not line.is_over]


def _give_up(draft: Draft) -> None:
    claims = Claims(draft)
    lines = {ids_of(line.head): line for line in _waiting_lines(draft)}
    for plan in list(draft.plans.values()):
        line = lines.get(ids_of(plan.gang))
        if line is not None and not claims.leave_room(line):
            draft.give_up(plan)


def _plan_oldest(draft: Draft, aged: list[Line], claims: Claims) -> None:
    """Start the oldest of each pool without a plan, or plan for it."""
    planned_pools = {each for plan in draft.plans.values() for each in _places(draft, plan)}
    searches = 0
    for line in aged:
        owner = line.project if fits_share(draft, line.project, line.shape) else ""
        pools = {(owner, name) for name in _pools(draft, line.shape)}
        if line.is_over or line.head[0].id in draft.plans:
            continue
        if pools <= planned_pools or line.head[0].id in draft.search.no_start:
            continue
        if not claims.leave_room(line) or _goes_behind(draft, line):
            continue
        if start_borrowing(draft, line.head, line.shape):
            line.at += 1
            continue
        if searches == SEARCHES:
            break
        if claims.version != draft.shares.version:
            claims = Claims(draft)
            if not claims.leave_room(line):
                continue
        searches += 1
        found = _first_start(draft, line)
        if found is not None:
            plan = _plan(draft, line, *found)
            plan.holds_quota = True
            draft.count(plan)
            _commit(draft, plan)
            planned_pools |= pools


def _places(draft: Draft, plan: Reserved) -> list[tuple[str, str]]:
    """The pools of a planned start, each with its project where its share holds it."""
    project = plan.gang[0].project
    owner = project if fits_share(draft, project, plan.shape) else ""
    return [(owner, name) for name in _pools(draft, plan.shape)]


def _goes_behind(draft: Draft, line: Line) -> bool:
    """
    Whether one of higher priority of its project can start now, and is looked at in phase 5.

    Age goes before priority only in what is planned: else that one would stop it at once.
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
    """Close what the head of `line` will start on."""
    plan = Reserved(
        gang=line.head,
        shape=line.shape,
        placed=placed,
        until=at,
        is_promise=False,
        rank=line.gangs[line.at][0],
    )
    waits = _waits(draft, plan)
    assert waits is not None, "it fits once all that end by then have ended"
    plan.waits = tuple(waits)
    draft.reserve(plan)
    return plan


def _renew(draft: Draft, plan: Reserved, line: Line | None, claims: Claims) -> None:
    """Start the gang of a standing plan if it fits; it is void if it does not hold."""
    if line is None or not claims.leave_room(line) or not is_covered(draft, plan):
        draft.give_up(plan)
        return
    if start_reserved(draft, plan, guaranteed=False):
        line.remove(plan.gang)
        return
    draft.open(plan)
    waits = _waits(draft, plan)
    if waits is None:
        draft.release(plan)
        return
    draft.reservations.wait_for(plan, waits)
    draft.shut(plan)
    plan.holds_quota = True
    draft.count(plan)
    _commit(draft, plan)


def _waiting_lines(draft: Draft) -> Iterator[Line]:
    for lines in draft.rest.values():
        yield from (line for line in lines if not line.is_over)


def _aged(draft: Draft) -> list[Line]:
    """Lines with heads that have waited long, the longest first; each line once."""
    found = [
        (line.gangs[line.at][4], line.head[0].id, line)
        for line in _aged_in(draft, draft.rest.values())
        # Within its share it is promised a start, and elsewhere it has none.
        if draft.shares.ever_borrows(line.project, line.shape)
    ]
    return [line for *_, line in sorted(found, key=lambda each: each[:2])]


def _aged_in(draft: Draft, lines: Iterable[list[Line]]) -> Iterator[Line]:
    """Those with heads that have waited for `plan_after_s` and have no planned start."""
    since = draft.now - draft.options.plan_after_s
    for line in chain.from_iterable(lines):
        gangs, at = line.gangs, line.at
        if at >= len(gangs) or gangs[at][4] > since or line.fail_when_busy:
            continue
        if gangs[at][3][0].id not in draft.plans:
            yield line


def _pools(draft: Draft, shape: Shape) -> list[str]:
    """The pools where any of it could lie."""
    names = set()
    for part in shape.parts:
        for shelves in draft.capacity.scope(part.where).tiers:
            names |= {s.name for s in shelves if (s.hosts > 1) == (part.hosts > 1)}
    return sorted(names)


def start_borrowing(draft: Draft, gang: Gang, shape: Shape) -> bool:
    """Start `gang` now, if the quota and what is free and open allow it."""
    project = gang[0].project
    if draft.is_too_full(shape, guaranteed=False):
        return False
    key = project, shape.form
    if draft.search.no_room.get(key) == draft.shares.version:
        return False
    if not draft.shares.lets_borrow(project, shape, shape.asked):
        draft.search.no_room[key] = draft.shares.version
        return False

    may_borrow = partial(draft.shares.lets_borrow, project, shape)
    return draft.try_admit(gang, shape, may_borrow, guaranteed=False)


def _waits(draft: Draft, plan: Reserved) -> list[Running] | None:
    """The gangs that must end before `plan` starts; None when it has no room even then."""
    others = _enders(draft, plan)
    new = [running for running in starting(draft) if running.footprint.meets(plan.footprint)]
    if not all(_is_gone(draft, running, plan) for running in new):
        return None
    project, shape = plan.gang[0].project, plan.shape
    sure = [*draft.holders(plan.footprint), *new]
    wanted = plan.footprint
    return awaited(draft, project, shape, wanted, plan.placed, sure, others, within_share=False)


def _enders(draft: Draft, plan: Reserved) -> Iterator[Running]:
    """The gangs that have ended when `plan` starts; none is rotated for room that comes anyway."""
    ends = [
        (draft.ends_at(r) > plan.until, ends_at(draft, r, plan.shape, _project(plan)), r.name, r)
        for r in holding(draft)
        if _is_gone(draft, r, plan)
    ]
    yield from (running for *_, running in sorted(ends, key=lambda each: each[:3]))


def _is_gone(draft: Draft, running: Running, plan: Reserved) -> bool:
    """Whether `running` has ended when `plan` starts, by itself or as it is stopped for that."""
    project = _project(plan)
    end = ends_at(draft, running, plan.shape, project)
    if end <= plan.until and not math.isinf(end):
        return True
    if not fits_share(draft, project, plan.shape):
        return False
    if running.project == project:
        return plan.drains
    least_s = draft.options.min_runtime_s + running.grace_s
    return is_reclaimable(draft, running, project) and running.started_at + least_s <= plan.until


def _project(plan: Reserved) -> str:
    return plan.gang[0].project


def _is_in_vain(draft: Draft, plan: Reserved, rotated: Sequence[Running]) -> bool:
    draft.lend(plan)
    is_taken = would_be_taken(draft, plan.gang, rotated)
    draft.call_in(plan)
    return is_taken


def _is_rotated(draft: Draft, running: Running, plan: Reserved) -> bool:
    """Whether it goes on beyond the start of `plan` unless it is rotated, as it may be."""
    if draft.ends_at(running) <= plan.until:
        return False
    return ends_at(draft, running, plan.shape, _project(plan)) <= plan.until


def _commit(draft: Draft, plan: Reserved) -> None:
    """
    Write the plan down; rotate the borrowers whose time has come.

    It is given up where a gang within its share would take what they leave.
    """
    rotated = [running for running in plan.waits if _is_rotated(draft, running, plan)]
    if rotated and _is_in_vain(draft, plan, rotated):
        draft.give_up(plan)
        return
    if plan.drains:
        return  # it has no time yet, and is found anew in every cycle
    draft.planned[plan.name] = PlannedStart(
        gang=ids_of(plan.gang), placements=plan.placed.placements, at=plan.until
    )
    for running in rotated:
        if plan.until - running.grace_s <= draft.now:
            borrowed_s = draft.now - running.whole_since
            slice_s = draft.options.borrow_slice_s
            reason = Rotated(by=plan.name, borrowed_s=borrowed_s, slice_s=slice_s)
            doom = Doom(by=plan.name, stop_at=draft.now, end_at=plan.until, reason=reason)
            draft.doomed[running.name] = doom
