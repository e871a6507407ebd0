"""
Phase 3: gangs within their project's share start, or get a promise with a deadline.

Whether a gang is within the share depends on the project's total usage, of both classes. All such
gangs of all projects are considered, so a large one that is not within its share never hides a
small one behind it. What is promised is closed to all other gangs from the same cycle on.

This module must not know how borrowers are ordered.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import partial

from bastion.scheduler.phases.entitlement import (
    breakable,
    found_within_share,
    goes_to_a_sibling,
    is_out_of_reach,
    may_be_within,
)
from bastion.scheduler.phases.reservations.awaited import is_covered
from bastion.scheduler.phases.reservations.backfill import backfill, could_borrow, gaps
from bastion.scheduler.phases.reservations.breakable import (
    breakable_by,
    cover_of,
    outranked,
    stands_within,
)
from bastion.scheduler.phases.reservations.lending import closed, counted, lent
from bastion.scheduler.phases.reservations.new_promise import earlier_of, make_promise
from bastion.scheduler.phases.reservations.reserving import drop, give_up, spare_for
from bastion.scheduler.phases.reservations.starts import waits_for_its_rest
from bastion.scheduler.preemption.victims import Found, gives_way, is_legal
from bastion.scheduler.queue.order import Gang, Line, Projects, Queue, ids_of, usage_of
from bastion.scheduler.state.draft import Draft
from bastion.scheduler.state.holders.running import Running
from bastion.scheduler.state.reservation import Reserved
from quota.amounts import Amounts

MOST_TRIES = 4
"""Sets of victims tried for a gang whose freed capacity a sibling would take."""


def guarantee(draft: Draft) -> None:
    """Admit, or promise to, every waiting gang within a share, as far as it fits."""
    _go_out_of_turn(draft)
    _go_through(draft, draft.lines)


def _go_out_of_turn(draft: Draft) -> None:
    """
    First consider gangs whose promise has lapsed, and gangs that others would delay.

    Otherwise a job that was stopped for a lapsed promise could start on that capacity, and be
    stopped again.
    """
    drained = [each.gang for each in draft.reservations.drained()]
    for gang in [*draft.lapsed, *_planned_behind(draft), *drained]:
        line = draft.line_of(gang)
        waiting = next((each for each in draft.lines[line.project] if each.has(gang)), None)
        if waiting is None or not may_be_within(draft, line.project, line.shape):
            continue
        if start_or_promise(draft, line):
            waiting.remove(gang)


def _planned_behind(draft: Draft) -> Iterator[Gang]:
    """Yield gangs with a planned start behind others of their line, which must not start first."""
    for plan in draft.plans.values():
        found = draft.memory.waiting(ids_of(plan.gang), draft.rank)
        if found is not None and not found[0].is_over and found[0].head is not plan.gang:
            yield plan.gang


def look_again(draft: Draft, *, own: bool = False) -> None:
    """
    Search for victims again for gangs that found none, as long as one more gang is helped.

    With `own`, only the share of a gang's project counts.
    """
    is_better = True
    while is_better and (draft.search.hopeless or draft.search.loosened):
        made = len(draft.promises)
        lines = {name: _without_victims(draft, name) for name in draft.rest}
        before = draft.search.hopeless.copy()
        draft.search.loosened.clear()
        draft.search.hopeless.clear()
        if own:
            _go_through_shares(draft, lines, own=True)
        else:
            _go_through(draft, lines)
        draft.search.hopeless |= before  # some are beyond the share only while a promise stands
        is_better = len(draft.promises) > made


def _without_victims(draft: Draft, project: str) -> list[Line]:
    """Remove and return the passed-on lines of `project` that may fare better now."""
    rest = draft.rest[project]
    is_loose = project in draft.search.loosened
    found = [
        each
        for each in rest
        if not each.is_over and (is_loose or each.key in draft.search.hopeless)
    ]
    draft.rest[project] = [line for line in rest if line not in found]
    return found


def _go_through(draft: Draft, waiting: Mapping[str, list[Line]]) -> None:
    """First consider what is within its project's own share, then what is within a group's."""
    before = draft.revised
    _go_through_shares(draft, waiting, own=True)
    if draft.shares.is_nested:
        if draft.revised > before:
            look_again(draft, own=True)
        in_groups = [name for name in draft.rest if draft.snapshot.quota.groups_of(name)]
        beyond = {name: draft.rest.pop(name) for name in in_groups}
        _go_through_shares(draft, beyond, own=False)


def _go_through_shares(draft: Draft, waiting: Mapping[str, list[Line]], *, own: bool) -> None:
    queues = {}
    for project, lines in waiting.items():
        within, beyond = _divide(draft, project, lines, own=own)
        draft.rest.setdefault(project, []).extend(beyond)
        queues[project] = queue_of(draft, project, within)
    submitted_at = {name: queue.next_submitted_at for name, queue in queues.items()}
    projects = Projects(submitted_at, draft.shares.usage_ratio)
    for queue, line in projects.turns(queues.__getitem__):
        is_within = may_be_within(draft, line.project, line.shape, own=own)
        if is_within and start_or_promise(draft, line):
            queue.serve(spent(draft, line))
        else:
            draft.rest[line.project].append(line)
            queue.pass_over()


def _divide(
    draft: Draft, project: str, lines: list[Line], *, own: bool
) -> tuple[list[Line], list[Line]]:
    """Split lines into those within a share, and those beyond it for the whole cycle."""
    known: dict[tuple[int, int], bool] = {}
    within: list[Line] = []
    beyond: list[Line] = []
    for line in lines:
        shape = line.shape
        key = shape.form, shape.priority if draft.promised else 0  # some give way to priority
        if key not in known:
            known[key] = may_be_within(draft, project, shape, own=own)
        (within if known[key] else beyond).append(line)
    return within, beyond


def queue_of(draft: Draft, project: str, lines: list[Line]) -> Queue:
    """Return the waiting gangs of `project` in its own order."""
    fair = draft.parts.order.between_users and draft.shares.project(project).order == "fair"
    if project not in draft.usage_by_user:
        decayed = draft.snapshot.decayed_by_user if fair else {}
        draft.usage_by_user[project] = usage_of(decayed, project)
    return Queue(lines, draft.usage_by_user[project], between_users=fair)


def spent(draft: Draft, line: Line) -> float:
    """
    Return what one more gang of `line` adds to its user's decayed usage.

    It counts as if it had already run for one slice. Otherwise one user would get everything that
    is free in one cycle, because usage only grows with time.
    """
    return draft.shares.dominant_share(line.shape.asked) * draft.options.borrow_slice_s


def start_or_promise(draft: Draft, line: Line) -> bool:
    """Whether something was done for the head of `line`, without delaying earlier gangs."""
    if waits_for_its_rest(draft, line.head):
        return True
    drained = draft.reservations.drained_before(line)
    if not drained:
        return _beside_plans(draft, line)
    with closed(draft, drained):
        is_within = may_be_within(draft, line.project, line.shape)
        return is_within and _beside_plans(draft, line)


def _beside_plans(draft: Draft, line: Line) -> bool:
    ahead = draft.reservations.ahead_of(line)
    if not ahead:
        return _with_own_plan_open(draft, line)
    with counted(draft, ahead):
        is_within = may_be_within(draft, line.project, line.shape)
        if is_within and _with_own_plan_open(draft, line, ahead):
            return True
    return _start_in_gap(draft, line, ahead)


def _start_in_gap(draft: Draft, line: Line, ahead: Sequence[Reserved]) -> bool:
    """Start it on capacity kept for planned starts of its project, if it ends by then."""
    opened = gaps(draft, line.shape, ahead)
    if not opened or line.key in draft.search.no_gap or draft.search.effort.is_spent:
        return False
    with counted(draft, [plan for plan in ahead if plan not in opened]):
        is_within = may_be_within(draft, line.project, line.shape)
        if is_within and backfill(draft, line.shape, opened, partial(_start, draft, line)):
            return True
    draft.search.no_gap.add(line.key)
    return False


def _start(draft: Draft, line: Line) -> bool:
    """Start the head of `line` on free and open capacity, if a share holds it."""
    shape, project = line.shape, line.project
    if not draft.shares.is_under_group_ceilings(project, shape.asked):
        return False

    def allows(charge: Amounts) -> bool:
        return draft.shares.may_start(project, charge, own=not shape.borrows)

    return draft.try_admit(line.head, shape, allows, guaranteed=True)


def _with_own_plan_open(draft: Draft, line: Line, ahead: Sequence[Reserved] = ()) -> bool:
    """Act while the gang's own plan is open; it no longer needs that plan."""
    own = draft.plans.get(line.head[0].id)
    if own is None:
        return _within_share(draft, line, ahead)
    told = spare_for(draft, own)
    with lent(draft, [own]):
        done = _within_share(draft, line, [*ahead, own])
        if done:
            drop(draft, own)
    if not done:
        draft.victims.update(told)
    return done


def _within_share(draft: Draft, line: Line, ahead: Sequence[Reserved]) -> bool:
    shape, project = line.shape, line.project
    if _start(draft, line):
        return True
    was_hopeless = line.key in draft.search.hopeless
    lower = outranked(draft, project, shape.priority)
    within = [r for r in lower if draft.promises[r.name].within_share and stands_within(draft, r)]
    weak = [*breakable_by(draft, project, shape.asked, ahead), *lower]
    kept = [*draft.reservations.drained_before(line), *ahead]
    with lent(draft, weak, kept):
        done = (bool(weak) and _start(draft, line)) or _promise(draft, line, weak)
    if not (done or was_hopeless or line.fail_when_busy):
        broken = [each for each in breakable(draft, line) if each not in weak]
        if broken:
            draft.search.hopeless.discard(line.key)
            weak = [*broken, *weak]
            with lent(draft, weak, kept):
                done = _promise(draft, line, weak, broken)
    if done:
        _give_up_broken(draft, weak, within)
    return done


def _give_up_broken(draft: Draft, weak: Sequence[Reserved], within: Sequence[Reserved]) -> None:
    """Give up those of the `weak` promises whose devices, or place on a share, are gone."""
    promised = [each for each in weak if each.is_promise]
    for each in sorted(promised, key=lambda r: (-r.shape.priority, -r.number)):
        is_beyond = each in within and not stands_within(draft, each)
        if draft.shares.is_nested and draft.promises[each.name].within_share:
            is_beyond = is_beyond or not cover_of(draft, each)
        if is_beyond or not is_covered(draft, each):
            give_up(draft, each)


def _promise(
    draft: Draft, line: Line, weak: Sequence[Reserved], broken: Sequence[Reserved] = ()
) -> bool:
    """Promise the head of `line` a start; it may break `weak` ones, which spares their victims."""
    gang, shape = line.head, line.shape
    if line.fail_when_busy or line.key in draft.search.hopeless:
        return False
    if not draft.search.may_search(gang):
        return False
    if is_out_of_reach(draft, line):
        draft.search.hopeless.add(line.key)
        return False
    spared, others = _spared(draft, line, weak, broken)
    found = _search(draft, line, spared, others)
    if found is None or _rather_borrows(draft, line, found):
        draft.search.hopeless.add(line.key)
        return False
    found = earlier_of(draft, found, draft.plans.get(gang[0].id))
    make_promise(draft, gang, shape, found, within_share=True)
    return True


def _spared(
    draft: Draft, line: Line, weak: Sequence[Reserved], broken: Sequence[Reserved]
) -> tuple[list[Running], set[str]]:
    """Return victims of `weak` promises that would continue, and projects that lose `broken`."""
    gang, shape = line.head, line.shape
    spared, others = [], {each.project for each in broken}
    for promise in weak:
        for victim in promise.victims:
            if victim.is_leaving or gives_way(draft, victim, gang, shape, shape.asked):
                continue
            if promise in broken and is_legal(draft, victim, gang, shape, within_share=True):
                others.add(victim.project)
            else:
                spared.append(victim)
    return spared, others


def _search(
    draft: Draft, line: Line, spared: Sequence[Running], others: Collection[str]
) -> Found | None:
    """Return where the head of `line` may start, and for which victims, with `spared` left."""
    tried: set[Running] = set()
    for _ in range(MOST_TRIES):
        found = found_within_share(draft, line, without=tried, staying=spared, others=others)
        if found is None or not goes_to_a_sibling(draft, line, found.victims, found.placed.total):
            return found
        tried.update(found.victims)  # what others leave may be too little for the sibling
    return None


def _rather_borrows(draft: Draft, line: Line, found: Found) -> bool:
    """
    Whether the victims `found` need not stop: whole machines are free, though beyond its share.

    Phase 5 lets it start there; if another gang was faster, it is considered once more after that.
    """
    if not (line.shape.takes_whole and found.victims and draft.may_break_promises):
        return False
    borrows = could_borrow(draft, line.project, line.shape)
    draft.search.is_deferred |= borrows
    return borrows
