"""
Phase 5: all other gangs, on what other projects leave idle.

The project that has borrowed least recently, relative to its weight, goes first. Only these are
stopped for a borrower: gangs of its own project with lower priority or above their minimum
replicas, and gangs that yield to the order under `preemption = "order"`. A gang that does not fit
blocks no other: capacity that must not be taken is already closed, for promises and planned starts.

This module must not know why anything is closed.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache, partial
from itertools import chain

from bastion.scheduler.outcome import stopped_now
from bastion.scheduler.phases.entitlement import is_in_vain
from bastion.scheduler.phases.growth import widen
from bastion.scheduler.phases.guarantee import look_again, queue_of, spent
from bastion.scheduler.phases.planned_starts import plan_again
from bastion.scheduler.phases.reservations.backfill import (
    backfill,
    gaps,
    may_backfill,
    may_borrow_beside,
    start_borrowing,
)
from bastion.scheduler.phases.reservations.fulfilment import start_reserved
from bastion.scheduler.phases.reservations.lending import count_plans, discount_plans, lent
from bastion.scheduler.phases.reservations.new_promise import make_promise
from bastion.scheduler.phases.reservations.reserving import forget_plan, spare_for
from bastion.scheduler.phases.reservations.starts import lower_starting, starting
from bastion.scheduler.preemption.harm import first_to_yield, in_project
from bastion.scheduler.preemption.lack import Lack
from bastion.scheduler.preemption.victims import find, yields_to
from bastion.scheduler.queue.order import Line, Projects, Queue, Score, first_asked
from bastion.scheduler.state.blocked import moved
from bastion.scheduler.state.draft import Draft
from bastion.scheduler.state.holders.running import Running
from bastion.scheduler.state.reservation import Reserved
from quota.amounts import Amounts

ONE_SECOND = 1.0
"""Usage of the whole pool, added to what every project borrowed, so that weights order equals."""

GANGS_LEAVING_A_STEP = 4
"""Departing gangs counted in the time of one step, before victims are searched."""


def borrow(draft: Draft) -> None:
    """Admit every other waiting gang that fits, and record those that do not."""
    draft.is_borrowing = True
    if draft.search.unseen:
        draft.search.is_cut_short = True
        rest = (line for lines in draft.rest.values() for line in lines)
        draft.blocked.extend(line for line in rest if not line.is_over)
        discount_plans(draft)
        return
    projects = Projects(_first_asked(draft), _score_of(draft))
    made = len(draft.promises)
    outranks_none: set[tuple[str, int]] = set()
    hopeless: set[tuple[str, int]] = set()
    blocked, drains = draft.blocked, len(draft.reservations.drained())

    @cache
    def queue_at_its_first_turn(project: str) -> Queue:
        return queue_of(draft, project, _hopeful(draft, project))

    for queue, line in projects.turns(queue_at_its_first_turn):
        if line.key in hopeless and not line.fail_when_busy:
            blocked.append(line)
        elif _start(draft, line) or _outrank(draft, line, outranks_none):
            forget_plan(draft, line.head)
            queue.serve(spent(draft, line))
            continue
        else:
            blocked.append(line)
            # Equal gangs of its project fare no better, unless it fails because of its placement
            # alone.
            if not line.fail_when_busy and may_borrow_beside(draft, line):
                hopeless.add(line.key)
        queue.pass_over()
    if draft.search.is_off:
        draft.blocked = [line for line in blocked if not line.is_over]
        return
    _look_again(draft, made)
    if draft.taken_back or len(draft.reservations.drained()) < drains:
        _start_blocked(draft)
    plan_again(draft, partial(_use_again, draft))
    widen(draft)
    discount_plans(draft)


def _first_asked(draft: Draft) -> dict[str, float]:
    """Return when the first remaining gang of each project was submitted."""
    touched = moved(draft)
    return {
        name: first_asked(lines) if name in touched else draft.backlogs[name].first_asked
        for name, lines in draft.rest.items()
        if lines
    }


def _score_of(draft: Draft) -> Callable[[str], Score]:
    """Return the score for turns between projects: the outermost group decides, then inner ones."""
    quota, decayed = draft.snapshot.quota, draft.snapshot.decayed

    def of(name: str) -> float:
        count_plans(draft)  # a search for victims since the last turn has discounted them
        ahead = draft.shares.borrowed(name) * draft.options.borrow_slice_s
        return (decayed.get(name, 0.0) + ahead + ONE_SECOND) / quota.weight(name)

    if not quota.groups:
        return of
    return lambda name: (*(of(group.name) for group in reversed(quota.groups_of(name))), of(name))


def _look_again(draft: Draft, made: int) -> None:
    """Search again for gangs that can preempt, as long as more is `made` and may help one."""
    if draft.search.is_deferred:
        _reclaim_again(draft)
    while True:
        before = len(draft.promises)
        _outrank_again(draft, is_better=before > made or bool(draft.taken_back))
        if (len(draft.promises) > made and draft.search.hopeless) or draft.search.loosened:
            _reclaim_again(draft)
        if len(draft.promises) == before:
            break
        made = before


def _use_again(draft: Draft) -> None:
    """Use the capacity of a planned start that is given up; gangs within their share go first."""
    _reclaim_again(draft)
    _start_blocked(draft)


def _start_blocked(draft: Draft) -> None:
    """Start blocked gangs after a start was taken back, or a plan or a drain has ended."""
    for line in [*draft.taken_back, *draft.blocked]:
        while not line.is_over and _start(draft, line):
            forget_plan(draft, line.head)
            line.at += 1


def _hopeful(draft: Draft, project: str) -> list[Line]:
    """Return the lines of `project` for which something may be done; the others are blocked."""
    lines, highest = draft.rest[project], _highest_to_outrank(draft, project)
    roomy: dict[int, bool] = {}
    hopeful = set()
    for shape in draft.backlogs[project].shapes:
        if shape.form not in roomy:
            roomy[shape.form] = not draft.is_too_full(
                shape, guaranteed=False
            ) and draft.shares.lets_borrow(project, shape, shape.asked)
        if roomy[shape.form] or shape.priority < highest or may_backfill(draft, shape):
            hopeful.add(id(shape))
    if not hopeful:
        draft.blocked += lines
        return []
    found: list[Line] = []
    for line in lines:
        (found if id(line.shape) in hopeful else draft.blocked).append(line)
    return found


def _outrank_again(draft: Draft, *, is_better: bool) -> None:
    """
    Search for victims of lower priority once more.

    A victim may free more than it was preempted for. A gang that needed no victim, because enough
    was being freed, may need one after other gangs have taken of that.
    """
    lines, search, is_served = draft.blocked, draft.search, False
    if not is_better:
        begun = {project for project, started in draft.admitted_by.items() if started}
        lines = [
            line
            for line in lines
            # Nothing lower ran when it was considered, and a lower one has started since.
            if (line.project in begun and line.key not in search.asked)
            or (search.patient and line.key in search.patient)
        ]
    while lines:
        before = len(draft.promises)
        outranks_none: set[tuple[str, int]] = set()
        for line in (each for each in lines if each.key not in outranks_none):
            while not line.is_over and _outrank(draft, line, outranks_none):
                forget_plan(draft, line.head)
                line.at += 1
                is_served = True
        lines = draft.blocked if len(draft.promises) > before else []
    if is_served:
        draft.blocked = [line for line in draft.blocked if not line.is_over]


def _reclaim_again(draft: Draft) -> None:
    """Reclaim again: what yields to higher priority may leave room within a gang's own share."""
    discount_plans(draft)  # `look_again` counts those that precede a gang
    draft.may_break_promises = False
    draft.rest = {}
    for line in draft.blocked:
        draft.rest.setdefault(line.project, []).append(line)
    look_again(draft)
    draft.may_break_promises = True
    draft.blocked = [line for line in draft.blocked if not line.is_over]


def _start(draft: Draft, line: Line) -> bool:
    """Start on open capacity, or briefly on capacity closed for a later time."""
    gang, shape = line.head, line.shape
    if not may_borrow_beside(draft, line):
        return False
    if start_borrowing(draft, gang, shape):
        return True
    opened = [each for each in gaps(draft, shape, draft.closed) if each.gang is not gang]
    if not opened or draft.search.effort.is_spent:
        return False
    count_plans(draft)
    done = backfill(draft, shape, opened, partial(start_borrowing, draft, gang, shape))
    if done:
        _borrows(draft)
    return done


def _outrank(draft: Draft, line: Line, outranks_none: set[tuple[str, int]]) -> bool:
    """Promise devices of lower priority of the same project, if that lets it start."""
    if line.key in outranks_none:
        return False
    if draft.reservations.drained_before(line):
        return False
    outranks_none.add(line.key)
    if line.fail_when_busy or line.shape.priority >= _highest_to_outrank(draft, line.project):
        return False
    own = draft.plans.get(line.head[0].id)
    if (own is not None and _is_due(draft, own)) or not draft.search.may_search(
        line.head, outranks=True
    ):
        return False
    draft.search.effort.spend(1 + len(draft.departing()) // GANGS_LEAVING_A_STEP)
    if own is None and _is_too_little(draft, line):
        return False
    told = spare_for(draft, own) if own else {}
    lower = _lower(draft, line)
    first = next(lower, None)
    if first is None:
        draft.victims.update(told)
        return False
    draft.search.asked.add(line.key)
    discount_plans(draft)
    with lent(draft, [own] if own is not None else []):  # what is reserved for it needs no victim
        done = _promise_lower(draft, line, chain((first,), lower))
    if done:
        outranks_none.discard(line.key)
    else:
        draft.victims.update(told)
    return done


def _is_due(draft: Draft, plan: Reserved) -> bool:
    """Whether a borrower may have been rotated for it: preempting others too would gain nothing."""
    return any(plan.until <= draft.now + running.grace_s for running in plan.waits)


def _highest_to_outrank(draft: Draft, project: str) -> float:
    """Return the priority number below which gangs of `project` may have others preempted."""
    policy = draft.parts.preemption
    if not (policy.follows_order or policy.outranks):
        return -math.inf
    elastic = draft.occupancy.elastic.values()
    if policy.follows_order or any(r.project == project and r.is_grown for r in elastic):
        return math.inf
    return draft.lowest_priority(project)


def _is_too_little(draft: Draft, line: Line) -> bool:
    """Whether devices are too few for it even with all lower priorities gone."""
    gang, shape, (part, *others) = line.head, line.shape, line.shape.parts
    if others or not part.is_plain or draft.parts.preemption.follows_order:
        return False
    lower = [
        *lower_starting(draft, line.project, shape.priority),
        *draft.occupancy.by_project.get(line.project, ()),
    ]
    lower = [each for each in lower if yields_to(draft, each, gang, shape)]
    lack = Lack(draft.capacity, part)
    for running in chain(draft.departing().useful, lower):
        if lack.replicas <= 0:
            return False
        lack.let_go(running.footprint)
    if not all(map(draft.is_departing, lower)):
        draft.search.asked.add(line.key)
    return lack.replicas > 0


def _lower(draft: Draft, line: Line) -> Iterator[Running]:
    """Return what may be preempted for the head of `line` without a share, the least harm first."""
    gang, shape = line.head, line.shape

    def may_stop(running: Running) -> bool:
        return yields_to(draft, running, gang, shape)

    if not draft.parts.preemption.follows_order:
        new = lower_starting(draft, line.project, shape.priority)
        return in_project(draft, line.project, new, may_stop, firm=False)
    running = (each for each in draft.running.values() if not draft.is_departing(each))
    found = filter(may_stop, [*running, *starting(draft)])
    return iter(sorted(found, key=lambda running: first_to_yield(draft, running)))


def _promise_lower(draft: Draft, line: Line, lower: Iterable[Running]) -> bool:
    gang, shape = line.head, line.shape

    def may_have(units: Amounts, gone: Sequence[Running]) -> bool:
        with draft.shares.without(gone):
            return draft.shares.has_room(line.project, shape, units)

    with draft.shares.without(standing=draft.departing().sums):
        may_stop = partial(yields_to, draft, gang=gang, shape=shape)
        found = find(draft, shape, lower, may_have, guaranteed=False, may_stop=may_stop)
        if found is None:
            return False
        with draft.shares.without(found.victims):
            may_borrow = draft.shares.lets_borrow(line.project, shape, found.placed.total)
    with draft.shares.without([*found.victims, *_leaving(draft)]):
        own = not shape.borrows
        within_share = draft.shares.may_start(line.project, found.placed.total, own=own)
        cover = draft.shares.cover(line.project, found.placed.total) if within_share else ""
    if not found.victims and not within_share:
        draft.search.patient.add(line.key)
        return False
    if not (may_borrow or within_share):
        return False
    if cover != line.project and is_in_vain(draft, gang, found.victims, group=cover):
        return False
    reserved = make_promise(draft, gang, shape, found, within_share=within_share)
    if not reserved.waits and start_reserved(draft, reserved, guaranteed=within_share):
        del draft.promises[reserved.name]  # nothing in its way had begun to stop
    return True


def _leaving(draft: Draft) -> Sequence[Running]:
    """Return what is being stopped, including what is stopped in this cycle."""
    stopped = stopped_now(draft)
    return [r for r in draft.departing(firm=True) if r.is_leaving or r.name in stopped]


def _borrows(draft: Draft) -> None:
    """Give the newest starting gang its place on a share after earlier promises."""
    draft.starts_beyond, admitted = True, draft.admitted[-1]
    for found in (draft.admitted, draft.admitted_by[admitted.gang[0].project]):
        found[-1] = admitted._replace(within_share=False)
