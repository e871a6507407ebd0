"""
Phase 4: planned starts, so that no large gang waits for ever while small ones stream past it.

The oldest blocked gang of each pool gets a start in the future, at the first time when enough has
ended; its devices are closed from now on to every borrower who would not be gone by then. Only a
gang within its own share may still come in between.

Rules: nothing idles for a gang that cannot start beside what other projects use, wait for and keep
of their own shares. A job without `max_runtime` counts as endless; that a borrower among them ends
is known only because it is rotated after its slice.

It must not know how borrowers are ordered.

Source: EASY backfill (Lifka 1995; Mu'alem and Feitelson 2001), one reservation for each pool.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import partial

from bastion.scheduler.phases.awaited import awaited
from bastion.scheduler.phases.promises import is_covered, placed_again, start_reserved, waiting_gang
from bastion.scheduler.phases.starting import could_borrow, starting
from bastion.scheduler.placement.place import Placed
from bastion.scheduler.preemption.victims import Need
from bastion.scheduler.promise import PlannedStart
from bastion.scheduler.queue.order import Gang, Line, ids_of
from bastion.scheduler.queue.shape import Shape
from bastion.scheduler.reasons.reason import Rotated
from bastion.scheduler.state.decisions import Doom
from bastion.scheduler.state.draft import Draft
from bastion.scheduler.state.release import Release
from bastion.scheduler.state.reservation import Reserved
from bastion.scheduler.state.running import Running
from quota.amounts import NOTHING, Amounts

SEARCHES = 8
"""New planned starts that one cycle looks for; what is left is looked at in the next."""


def take_over_plans(draft: Draft) -> None:
    """Close again what earlier cycles planned, as far as it still holds."""
    for planned in sorted(draft.snapshot.planned, key=lambda each: (each.at, each.gang)):
        found = waiting_gang(draft, planned.gang)
        if found is None or draft.now > planned.at:
            continue
        line, entry = found
        placed = placed_again(draft, line, planned.placements)
        if placed is None:
            continue
        plan = Reserved(
            gang=entry[3], shape=line.shape, placed=placed, until=planned.at, is_promise=False
        )
        if any(ends_at(draft, r, plan.shape) > planned.at for r in draft.holders(plan.footprint)):
            continue
        waits = _waits(draft, plan)
        if waits is not None:
            plan.waits = tuple(waits)
            draft.reserve(plan)


def plan_starts(draft: Draft) -> None:
    """Start what was planned and fits now, keep what still holds, and plan for the oldest."""
    aged = _aged(draft)
    if not aged and not draft.plans:
        return
    claims = Claims(draft)
    for plan in list(draft.plans.values()):
        _renew(draft, plan, claims)
    if not draft.void:
        _plan_oldest(draft, aged, claims)


def plan_again(draft: Draft) -> None:
    """
    Plan what those who have started since make possible, and give up what they make impossible.

    As the next cycle would.
    """
    if draft.plans:
        _give_up(draft)
    aged = _aged(draft)
    if aged and not draft.void:
        _plan_oldest(draft, aged, Claims(draft))
        draft.blocked = [line for line in draft.blocked if not line.is_over]


def _give_up(draft: Draft) -> None:
    claims = Claims(draft)
    lines = {ids_of(line.head): line for line in _waiting_lines(draft)}
    for plan in draft.plans.values():
        line = lines.get(ids_of(plan.gang))
        if line is not None and not claims.leave_room(line):
            draft.void.add(ids_of(plan.gang))
            draft.unplanned.add(plan.name)


def _plan_oldest(draft: Draft, aged: list[Line], claims: Claims) -> None:
    """Start the oldest of each pool without a plan, or plan for it."""
    planned_pools = {name for plan in draft.plans.values() for name in _pools(draft, plan.shape)}
    searches = 0
    for line in aged:
        pools = set(_pools(draft, line.shape))
        if line.is_over or line.head[0].id in draft.plans:
            continue
        if pools <= planned_pools or line.head[0].id in draft.outset.unplanned:
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
        found = first_fit(draft, line)
        if found is not None:
            _commit(draft, _plan(draft, line, *found))
            planned_pools |= pools


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
    """Close what the head of `line` will start on, and its room in the quota."""
    plan = Reserved(gang=line.head, shape=line.shape, placed=placed, until=at, is_promise=False)
    waits = _waits(draft, plan)
    assert waits is not None, "it fits once all have ended who will have by then"
    plan.waits = tuple(waits)
    plan.holds_quota = True
    draft.reserve(plan)
    return plan


def _renew(draft: Draft, plan: Reserved, claims: Claims) -> None:
    """Start the gang of a standing plan if it fits; it is void if it does not hold."""
    line = next((line for line in _waiting_lines(draft) if line.has(plan.gang)), None)
    if line is None or not claims.leave_room(line) or not is_covered(draft, plan):
        draft.void.add(ids_of(plan.gang))
        return
    if start_reserved(draft, plan, guaranteed=False):
        line.remove(plan.gang)
        return
    draft.open(plan)
    waits = _waits(draft, plan)
    if waits is None:
        draft.release(plan)
        draft.void.add(ids_of(plan.gang))
        return
    plan.waits = tuple(waits)
    draft.shut(plan)
    plan.holds_quota = True
    draft.count(plan)
    _commit(draft, plan)


def _waiting_lines(draft: Draft) -> Iterator[Line]:
    for lines in draft.rest.values():
        yield from (line for line in lines if not line.is_over)


def _aged(draft: Draft) -> list[Line]:
    """Lines with heads that have waited long, the longest first; each line once."""
    since = draft.now - draft.options.plan_after_s
    found = []
    for lines in draft.rest.values():
        for line in lines:
            gangs, at = line.gangs, line.at
            if at >= len(gangs) or gangs[at][4] > since or line.fail_when_busy:
                continue
            first = line.head[0].id
            if first not in draft.plans:
                found.append((gangs[at][4], first, line))
    return [line for _, _, line in sorted(found, key=lambda each: each[:2])]


def _pools(draft: Draft, shape: Shape) -> list[str]:
    """The pools where any of it could lie."""
    names = set()
    for part in shape.parts:
        for shelves in draft.capacity.scope(part.where).tiers:
            names |= {s.name for s in shelves if (s.hosts > 1) == (part.hosts > 1)}
    return sorted(names)


class Claims:
    """What every project uses, waits for or keeps of its own share: it will not be left idle."""

    def __init__(self, draft: Draft) -> None:
        self.draft = draft
        self.shares = draft.shares
        self.version = draft.shares.version
        waits = {name: _waited_for(draft, name) for name in draft.rest}
        self._own = {}
        for name in draft.shares.names():
            owner = draft.shares.project(name)
            claim = draft.shares.held(name) + waits.get(name, NOTHING)
            self._own[name] = (claim & owner.nominal) | owner.kept
        self._all = Amounts.sum(self._own[name] for name in sorted(self._own))
        self._others: dict[str, Amounts] = {}

    def of_others(self, project: str) -> Amounts:
        """The claims of all projects but `project`."""
        known = self._others.get(project)
        if known is None:
            known = self._others[project] = self._all - self._own.get(project, NOTHING)
        return known

    def leave_room(self, line: Line) -> bool:
        """Whether the head of `line` could ever start beside them."""
        asked = self.draft.asks(line.shape)
        if not asked <= self.shares.project(line.project).ceiling:
            return False
        return self.shares.totals.holds(self.of_others(line.project), asked)


def _waited_for(draft: Draft, project: str) -> Amounts:
    """What gangs that could each start within the project's share wait for."""
    nominal = draft.shares.project(project).nominal
    gangs: dict[int, int] = {}
    shapes: dict[int, Shape] = {}
    for line in draft.rest[project]:
        if line.fail_when_busy:
            continue  # it does not wait
        form = line.shape.form
        shapes[form] = line.shape
        gangs[form] = gangs.get(form, 0) + len(line.gangs) - line.at
    asked = {form: draft.asks(shape) for form, shape in shapes.items()}
    return Amounts.sum(gangs[form] * each for form, each in asked.items() if each <= nominal)


def start_borrowing(draft: Draft, gang: Gang, shape: Shape) -> bool:
    """Start `gang` now, if the quota and what is free and open allow it."""
    project = gang[0].project
    if draft.is_too_full(shape, guaranteed=False):
        return False
    key = project, shape.form
    if draft.no_room.get(key) == draft.shares.version:
        return False
    if not draft.shares.may_borrow(project, shape.asked):
        draft.no_room[key] = draft.shares.version
        return False

    may_borrow = partial(draft.shares.may_borrow, project)
    return draft.try_admit(gang, shape, may_borrow, guaranteed=False)


def first_fit(draft: Draft, line: Line) -> tuple[float, Placed] | None:
    """The first time at which the head of `line` fits, and where; None when that never is."""
    ends = [(ends_at(draft, r, line.shape), r.name, r) for r in holding(draft)]
    ends = sorted((end, name, r) for end, name, r in ends if not math.isinf(end))
    draft.capacity.begin()
    need = Need(draft, line.shape, guaranteed=False)
    may_borrow = partial(draft.shares.may_borrow, line.project)
    gone: list[Running] = []
    try:
        for position, (end, _, running) in enumerate(ends):
            need.count(Release(draft.capacity, running))
            draft.shares.leave(running)
            gone.append(running)
            if position + 1 < len(ends) and ends[position + 1][0] == end:
                continue
            if not (need.may_fit() and may_borrow(line.shape.asked)):
                continue
            draft.capacity.begin()
            placed = draft.try_place(line.shape, may_borrow, guaranteed=False)
            draft.capacity.undo()
            if placed is not None:
                return max(end, draft.now), placed
        return None
    finally:
        draft.capacity.undo()
        for running in gone:
            draft.shares.stay(running)


def holding(draft: Draft) -> list[Running]:
    """Who runs, and who starts in this cycle."""
    return [*draft.running.values(), *starting(draft)]


def _waits(draft: Draft, plan: Reserved) -> list[Running] | None:
    """Who must have ended before `plan` starts; None when it has no room even then."""
    others = _enders(draft, plan)
    new = [running for running in starting(draft) if running.footprint.meets(plan.footprint)]
    if any(ends_at(draft, running, plan.shape) > plan.until for running in new):
        return None
    sure = [*draft.holders(plan.footprint), *new]
    project = plan.gang[0].project
    return awaited(draft, project, plan.footprint, plan.placed, sure, others, within_share=False)


def _enders(draft: Draft, plan: Reserved) -> Iterator[Running]:
    """Who has ended when `plan` starts; nobody is rotated for room that comes anyway."""
    ends = [
        (draft.ends_at(running) > plan.until, end, running.name, running)
        for running in holding(draft)
        if (end := ends_at(draft, running, plan.shape)) <= plan.until
    ]
    yield from (running for *_, running in sorted(ends, key=lambda each: each[:3]))


def ends_at(draft: Draft, running: Running, shape: Shape) -> float:
    """When `running` is gone at the latest, rotation counted in."""
    own = draft.ends_at(running)
    may_rotate = running.is_borrowed and draft.parts.preemption.reclaims
    if running.is_leaving or not may_rotate or running.priority < shape.priority:
        return own
    if not draft.outset.unrotated.isdisjoint(running.ids):
        return own
    rotated = max(draft.now, running.whole_since + draft.options.borrow_slice_s)
    return min(own, rotated + running.grace_s)


def _commit(draft: Draft, plan: Reserved) -> None:
    """Write the plan down; rotate the borrowers whose time has come."""
    draft.planned[plan.name] = PlannedStart(
        gang=tuple(job.id for job in plan.gang), placements=plan.placed.placements, at=plan.until
    )
    for running in plan.waits:
        stop = plan.until - running.grace_s
        if draft.ends_at(running) > plan.until and stop <= draft.now:
            borrowed_s = draft.now - running.whole_since
            slice_s = draft.options.borrow_slice_s
            reason = Rotated(by=plan.name, borrowed_s=borrowed_s, slice_s=slice_s)
            doom = Doom(by=plan.name, stop_at=draft.now, end_at=plan.until, reason=reason)
            draft.doomed[running.name] = doom
