"""
Standstill: a plan that moved nothing still holds while nothing has changed and no time matters.

Rules: it holds for the same records, machines and quota file, until `Plan.wake_at`. Where it moved
nothing, each gang was tried on the same state, so their order made no difference; only whom a
reason calls `Behind` whom follows it. What drifts with time, without a change, does not stand
still: estimates that rest on earlier runs or on rotation, and which jobs would have to end.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from operator import is_

from bastion.scheduler.plan import Keep, Plan, Wait
from bastion.scheduler.policies.admission import admit_all
from bastion.scheduler.queue.positions import Crowd
from bastion.scheduler.reasons.reason import Fragmented
from bastion.scheduler.snapshot import Snapshot
from bastion.scheduler.state.draft import Draft
from bastion.scheduler.state.policy_choice import Parts


class Standstill:
    """The last cycle, if it moved nothing."""

    def __init__(self, draft: Draft, plan: Plan, *, tells: bool) -> None:
        self._quota, self._parts, self._now = draft.snapshot.quota, draft.parts, draft.now
        self._jobs = tuple(draft.snapshot.jobs.values())  # its mappings may be changed by then
        self._machines = tuple(draft.snapshot.machines.values())
        self._others = _others(draft.snapshot)
        self.plan = plan
        self._tells = tells
        self._order = _order_of_users(draft.snapshot)
        self._drifts_at = min(_times(draft, plan), default=None)

    def holds(self, parts: Parts, snapshot: Snapshot, now: float, *, tells: bool) -> bool:
        """Whether a cycle on `snapshot` would come to the same plan."""
        wake_at = self.plan.wake_at
        return (
            self._now <= now
            and (wake_at is None or now < wake_at)
            and (self._drifts_at is None or now < self._drifts_at)
            and tells is self._tells
            and snapshot.quota is self._quota
            and parts == self._parts
            and _is_same(snapshot.jobs, self._jobs)
            and _is_same(snapshot.machines, self._machines)
            and _others(snapshot) == self._others
            and _order_of_users(snapshot) == self._order
        )


def _others(snapshot: Snapshot) -> tuple[object, ...]:
    """What is compared by value."""
    return (
        snapshot.quota_problem,
        dict(snapshot.arrays),
        dict(snapshot.pools),
        snapshot.promises,
        snapshot.planned,
        snapshot.considered,
        snapshot.steps,
        snapshot.seq,
        dict(snapshot.stockouts),
        dict(snapshot.runs),
    )


def standstill_of(draft: Draft, plan: Plan, *, tells: bool) -> Standstill | None:
    """What stands still after a cycle that came to `plan`; None where anything moves or drifts."""
    snapshot, verdicts = draft.snapshot, plan.verdicts
    is_still = (
        plan.promises == snapshot.promises
        and plan.planned == snapshot.planned
        and not (plan.considered or snapshot.considered or plan.new_machines)
        and not (snapshot.stockouts or draft.capacity.closures or draft.doomed)
        and draft.parts.order.is_lasting
        and draft.parts.admission is admit_all
        and not draft.parts.preemption.follows_order
        and not any(each.rests_on for each in verdicts.starts.values())
        and all(_stays(verdict) for verdict in verdicts.decided.values())
        and not any(isinstance(each, Crowd) and _drifts(each.reason) for each in verdicts.in_line)
    )
    return Standstill(draft, plan, tells=tells) if is_still else None


def _stays(verdict: object) -> bool:
    if isinstance(verdict, Wait):
        return not (verdict.rests_on or _drifts(verdict.reason))
    return isinstance(verdict, Keep)


def _drifts(reason: object) -> bool:
    return isinstance(reason, Fragmented) and bool(reason.to_end)


def _is_same(records: Mapping[str, object], before: Sequence[object]) -> bool:
    return len(records) == len(before) and all(map(is_, records.values(), before))


def _times(draft: Draft, plan: Plan) -> Iterator[float]:
    """When estimates begin to follow the clock: one has passed, or a borrower has had its slice."""
    waits = (verdict for verdict in plan.verdicts.decided.values() if isinstance(verdict, Wait))
    told = [wait.estimated_at for wait in waits if wait.estimated_at is not None]
    told += [each.at for each in plan.verdicts.starts.values()]
    if told:
        yield min(told)
        slice_s = draft.options.borrow_slice_s
        yield from (r.whole_since + slice_s for r in draft.running.values() if r.is_borrowed)


def _order_of_users(snapshot: Snapshot) -> list[tuple[str, str, bool]]:
    """The users of each project by what they have used, and which of them are level."""
    used = sorted((key[0], seconds, key[1]) for key, seconds in snapshot.decayed_by_user.items())
    before = [("", 0.0, ""), *used]
    return [
        (mine[0], mine[2], last[:2] == mine[:2] or (last[0] != mine[0] and not mine[1]))
        for last, mine in pairwise(before)
    ]
