"""
Standstill: a plan that changed nothing is valid while nothing has changed and no time matters.

It is valid for the same records, machines and quota file, until `Plan.wake_at`. If it changed
nothing, each gang was tried on the same state, so their order made no difference; it only decides
which gang a reason names as preceding. What drifts with time, without a change, does not stand
still: estimates that rest on earlier runs or on rotation, and the jobs that would have to end.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from operator import is_

from bastion.scheduler.plan import Plan
from bastion.scheduler.snapshot import Snapshot
from bastion.scheduler.state.holders.budgets import spent_budgets
from bastion.scheduler.state.memory.policy_choice import Parts


class Standstill:
    """The last cycle, if it changed nothing."""

    def __init__(
        self,
        snapshot: Snapshot,
        parts: Parts,
        now: float,
        plan: Plan,
        *,
        explains: bool,
        drifts_at: float | None,
    ) -> None:
        self._quota, self._parts, self._now = snapshot.quota, parts, now
        self._jobs = tuple(snapshot.jobs.values())  # its mappings may be changed by then
        self._machines = tuple(snapshot.machines.values())
        self._others = _others(snapshot)
        self.plan = plan
        self._explains = explains
        self._order = _order_of_users(snapshot)
        self._drifts_at = drifts_at

    def holds(self, parts: Parts, snapshot: Snapshot, now: float, *, explains: bool) -> bool:
        """Whether a cycle on `snapshot` would give the plan."""
        return (
            self._is_still(now)
            and explains is self._explains
            and snapshot.quota is self._quota
            and parts == self._parts
            and _is_same(snapshot.machines, self._machines)
            and _others(snapshot) == self._others
            and _order_of_users(snapshot) == self._order
            and _is_same(snapshot.jobs, self._jobs)
        )

    def _is_still(self, now: float) -> bool:
        """Whether no time that matters has come."""
        wake_at = self.plan.wake_at
        return (
            self._now <= now
            and (wake_at is None or now < wake_at)
            and (self._drifts_at is None or now < self._drifts_at)
        )


def _others(snapshot: Snapshot) -> tuple[object, ...]:
    """Return what is compared by value."""
    return (
        snapshot.quota_problem,
        dict(snapshot.arrays),
        dict(snapshot.pools),
        snapshot.promises,
        snapshot.planned,
        snapshot.considered,
        snapshot.steps,
        snapshot.seq,
        spent_budgets(snapshot.quota, snapshot.spent),
        dict(snapshot.stockouts),
        dict(snapshot.runs),
    )


def _is_same(records: Mapping[str, object], before: Sequence[object]) -> bool:
    return len(records) == len(before) and all(map(is_, records.values(), before))


def _order_of_users(snapshot: Snapshot) -> list[tuple[str, str, bool]]:
    """Return the users of each project by usage, and which of them are equal."""
    used = sorted((key[0], seconds, key[1]) for key, seconds in snapshot.decayed_by_user.items())
    before = [("", 0.0, ""), *used]
    return [
        (mine[0], mine[2], last[:2] == mine[:2] or (last[0] != mine[0] and not mine[1]))
        for last, mine in pairwise(before)
    ]
