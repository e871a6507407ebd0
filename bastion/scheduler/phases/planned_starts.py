"""
Phase 4: planned starts, so that no large gang waits for ever while small ones stream past it.

The oldest blocked gang of each pool gets a start in the future, at the first time when enough has
ended; its devices are closed from now on to borrowers that would not have ended by then. Only a
gang within its own share may still come in between.

Rules: nothing idles for a gang that cannot start beside what other projects use, wait for and keep
of their own shares. A job without `max_runtime` counts as endless; that a borrower among them ends
is known only because it is rotated after its slice.

It must not know how borrowers are ordered.

Source: EASY backfill (Lifka 1995; Mu'alem and Feitelson 2001), one reservation for each pool.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from functools import partial

from bastion.scheduler.phases.awaited import awaited
from bastion.scheduler.phases.guarantee import would_be_taken
from bastion.scheduler.phases.promises import is_covered, placed_again, start_reserved, waiting_gang
from bastion.scheduler.phases.revocation import could_borrow, starting
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
from quota.tree import Group

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
        holders = draft.holders(plan.footprint)
        if any(ends_at(draft, r, plan.shape, line.project) > planned.at for r in holders):
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
    planned_pools = {name for plan in draft.plans.values() for name in _pools(draft, plan.shape)}
    searches = 0
    for line in aged:
        pools = set(_pools(draft, line.shape))
        if line.is_over or line.head[0].id in draft.plans:
            continue
        if pools <= planned_pools:
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
    assert waits is not None, "it fits once all that end by then have ended"
    plan.waits = tuple(waits)
    plan.holds_quota = True
    draft.reserve(plan)
    return plan


def _renew(draft: Draft, plan: Reserved, claims: Claims) -> None:
    """Start the gang of a standing plan if it fits; it is void if it does not hold."""
    line = next((line for line in _waiting_lines(draft) if line.has(plan.gang)), None)
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
    since = draft.now - draft.options.plan_after_s
    found = []
    for lines in draft.rest.values():
        for line in lines:
            gangs, at = line.gangs, line.at
            if at >= len(gangs) or gangs[at][4] > since or line.fail_when_busy:
                continue
            if not draft.shares.ever_borrows(line.project, line.shape):
                continue  # within its share it is promised a start, and elsewhere it has none
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
        wanted = {}
        self._own: dict[str, Amounts] = {}
        for name in draft.shares.names():
            owner = draft.shares.project(name)
            wanted[name] = draft.shares.held(name) + waits.get(name, NOTHING)
            self._own[name] = (wanted[name] & owner.nominal) | owner.kept
        self._add_groups(wanted)
        groups_of = draft.snapshot.quota.groups_of
        self._all = Amounts.sum(
            self._own[name] for name in sorted(self._own) if not groups_of(name)
        )
        self._others: dict[str, Amounts] = {}
        self._claiming: dict[tuple[str, ...], tuple[str, ...]] = {}
        """Types -> the projects that claim any of them, most first."""

    def _add_groups(self, wanted: dict[str, Amounts]) -> None:
        """What every group claims: what its members do, and more up to its own share."""
        quota = self.draft.snapshot.quota
        for name in sorted(quota.groups, key=lambda name: -len(quota.groups_of(name))):
            group = quota.groups[name]
            wanted[name] = Amounts.sum(wanted.get(each, NOTHING) for each in group.members)
            own = Amounts.sum(self._own.get(each, NOTHING) for each in group.members)
            self._own[name] = own | (wanted[name] & group.nominal) | group.kept

    def of_others(self, project: str) -> Amounts:
        """The claims of all projects but `project`, and of the groups that it is not in."""
        known = self._others.get(project)
        if known is None:
            quota = self.draft.snapshot.quota
            inside = project
            claims = NOTHING
            for group in quota.groups_of(project):
                claims += self._beside(inside, group)
                inside = group.name
            known = self._others[project] = claims + self._all - self._own.get(inside, NOTHING)
        return known

    def _beside(self, name: str, group: Group) -> Amounts:
        """The claims of the members of `group` but `name`."""
        others = (each for each in group.members if each != name)
        return Amounts.sum(self._own.get(each, NOTHING) for each in others)

    def lenders(self, project: str, asked: Amounts) -> tuple[str, ...]:
        """The projects but `project` that claim any of the types in `asked`, most first."""
        types = asked.types()
        claiming = self._claiming.get(types)
        if claiming is None:
            claims = {name: own.only(types) for name, own in self._own.items()}
            weights = {name: self.shares.weight(units) for name, units in claims.items() if units}
            claiming = tuple(sorted(weights, key=lambda name: (-weights[name], name)))
            self._claiming[types] = claiming
        quota = self.draft.snapshot.quota
        if not quota.groups:
            return tuple(name for name in claiming if name != project)
        own = {project, *(group.name for group in quota.groups_of(project))}
        around = {"", *own} - {project}
        beside = (name for name in claiming if quota.node(name).group in around)
        return tuple(name for name in beside if name not in own)

    def leave_room(self, line: Line) -> bool:
        """Whether the head of `line` could ever start beside them."""
        asked = self.draft.asks(line.shape)
        if not asked <= self.shares.project(line.project).ceiling:
            return False
        claims, inside = asked, line.project
        for group in self.draft.snapshot.quota.groups_of(line.project):
            claims += self._beside(inside, group)
            if not group.ceiling.holds(claims - asked, asked):
                return False
            inside = group.name
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
    if draft.search.no_room.get(key) == draft.shares.version:
        return False
    if not draft.shares.lets_borrow(project, shape, shape.asked):
        draft.search.no_room[key] = draft.shares.version
        return False

    may_borrow = partial(draft.shares.lets_borrow, project, shape)
    return draft.try_admit(gang, shape, may_borrow, guaranteed=False)


def first_fit(draft: Draft, line: Line) -> tuple[float, Placed] | None:
    """The first time at which the head of `line` fits, and where; None when that never is."""
    ends = [(ends_at(draft, r, line.shape, line.project), r.name, r) for r in holding(draft)]
    ends = sorted((end, name, r) for end, name, r in ends if not math.isinf(end))
    draft.capacity.begin()
    need = Need(draft, line.shape, guaranteed=False)
    may_borrow = partial(draft.shares.lets_borrow, line.project, line.shape)
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
    """The gangs that run, and those that start in this cycle."""
    return [*draft.running.values(), *starting(draft)]


def _waits(draft: Draft, plan: Reserved) -> list[Running] | None:
    """The gangs that must end before `plan` starts; None when it has no room even then."""
    others = _enders(draft, plan)
    new = [running for running in starting(draft) if running.footprint.meets(plan.footprint)]
    project = plan.gang[0].project
    if any(ends_at(draft, running, plan.shape, project) > plan.until for running in new):
        return None
    sure = [*draft.holders(plan.footprint), *new]
    return awaited(draft, project, plan.footprint, plan.placed, sure, others, within_share=False)


def _enders(draft: Draft, plan: Reserved) -> Iterator[Running]:
    """The gangs that have ended when `plan` starts; none is rotated for room that comes anyway."""
    ends = [
        (draft.ends_at(running) > plan.until, end, running.name, running)
        for running in holding(draft)
        if (end := ends_at(draft, running, plan.shape, plan.gang[0].project)) <= plan.until
    ]
    yield from (running for *_, running in sorted(ends, key=lambda each: each[:3]))


def ends_at(draft: Draft, running: Running, shape: Shape, project: str) -> float:
    """When `running` is gone at the latest, if it is rotated for a gang of `project` in time."""
    own = draft.ends_at(running)
    may_rotate = draft.is_open_to(running, project) and draft.parts.preemption.reclaims
    if running.is_leaving or not may_rotate or running.priority < shape.priority:
        return own
    rotated = max(draft.now, running.whole_since + draft.options.borrow_slice_s)
    return min(own, rotated + running.grace_s)


def _is_in_vain(draft: Draft, plan: Reserved, rotated: Sequence[Running]) -> bool:
    draft.lend(plan)
    is_taken = would_be_taken(draft, plan.gang, rotated)
    draft.call_in(plan)
    return is_taken


def _commit(draft: Draft, plan: Reserved) -> None:
    """
    Write the plan down; rotate the borrowers whose time has come.

    It is given up where a gang within its share would take what they leave.
    """
    rotated = [running for running in plan.waits if draft.ends_at(running) > plan.until]
    if rotated and _is_in_vain(draft, plan, rotated):
        draft.give_up(plan)
        return
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
