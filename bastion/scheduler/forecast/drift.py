"""
Drift: which parts of a plan change with time alone, even if no event occurs.

These are estimates that rest on earlier runs or on rotation, and the jobs that would have to end.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import inf, nextafter

from bastion.scheduler.plan import Keep, Plan, Wait
from bastion.scheduler.policies.admission import admit_all
from bastion.scheduler.queue.positions import Crowd
from bastion.scheduler.reasons.reason import Fragmented
from bastion.scheduler.state.draft import Draft
from bastion.scheduler.state.memory.standstill import Standstill


def standstill_of(draft: Draft, plan: Plan, *, explains: bool) -> Standstill | None:
    """Return what stands still after a cycle that gave `plan`; None if anything moves or drifts."""
    snapshot, verdicts = draft.snapshot, plan.verdicts
    is_still = (
        plan.promises == snapshot.promises
        and plan.planned == snapshot.planned
        and not (plan.considered or snapshot.considered or plan.new_machines)
        and not (snapshot.stockouts or draft.capacity.closures or draft.victims)
        and not draft.search.apart
        and draft.parts.order.is_lasting
        and draft.parts.admission is admit_all
        and not draft.parts.preemption.follows_order
        and not any(each.rests_on for each in verdicts.starts.values())
        and all(_stays(verdict) for verdict in verdicts.decided.values())
        and not any(isinstance(each, Crowd) and _drifts(each.reason) for each in verdicts.in_line)
    )
    if not is_still:
        return None
    at = min(_times(draft, plan), default=None)
    return Standstill(snapshot, draft.parts, draft.now, plan, explains=explains, drifts_at=at)


def _stays(verdict: object) -> bool:
    if isinstance(verdict, Wait):
        start = verdict.start
        return not ((start and start.rests_on) or _drifts(verdict.reason))
    return isinstance(verdict, Keep)


def _drifts(reason: object) -> bool:
    return isinstance(reason, Fragmented) and bool(reason.to_end)


def _times(draft: Draft, plan: Plan) -> Iterator[float]:
    """Yield when plans, estimates and reasons follow the clock: a time passes, or a slice ends."""
    starts = (planned.at for planned in plan.planned)
    yield from (nextafter(at, inf) for at in starts if at is not None)  # void after that time
    yield from _too_long(draft, plan)
    waits = (verdict for verdict in plan.verdicts.decided.values() if isinstance(verdict, Wait))
    told = [wait.estimated_at for wait in waits if wait.estimated_at is not None]
    told += [each.at for each in plan.verdicts.starts.values()]
    if told:
        yield min(told)
        slice_s = draft.options.borrow_slice_s
        yield from (r.started_at + slice_s for r in draft.running.values() if r.is_borrowed)


def _too_long(draft: Draft, plan: Plan) -> Iterator[float]:
    """Yield from when a job would not end before a planned start of its project."""
    for planned in plan.planned:
        backlog = draft.backlogs.get(draft.snapshot.jobs[planned.gang[0]].project)
        for shape in backlog.shapes if backlog is not None else ():
            end = draft.end_of(shape)
            if end is not None and planned.at is not None and end <= planned.at:
                yield nextafter(draft.now + planned.at - end, inf)
