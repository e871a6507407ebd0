"""
The cycles of a leader's scheduler, within the time that its lease leaves for them.

A turn commits, and so renews the lease, only after its cycles. So their searches can take only a
part of the lease; the next turn continues with what a cycle did not reach.

This module must not know what a plan is applied to.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import replace

from bastion.errors import BastionError
from bastion.scheduler.cycle import decide, decide_plainly
from bastion.scheduler.effort import steps_within
from bastion.scheduler.plan import Plan
from bastion.scheduler.snapshot import Snapshot
from bastion.scheduler.state.memory.memory import Memory
from bastion.service.journal import Journal

SEARCH_SHARE = 1 / 6
"""
The part of the lease for which all cycles of one turn can search.

The lease is renewed when a third of it is over; the other half of that third is for the rest of a
turn.
"""
CHECK_EVERY = 1_000
"""In one of this many cycles, the state is compared with a newly built one."""
RETRY_S = 20.0
"""
A whole cycle is tried again this long after one that failed, although nothing has changed.

Its fault may depend on the time, and `status` names a problem only while it is met.
"""
MOST_TIMES = 1_000
"""Maximum cycle times kept until an event takes them along, which keeps the event below 20 kB."""


class Cycles:
    """
    Asks the scheduler for plans.

    Args:
        ttl_s: Duration of the lease.
        journal: Where failures are logged.
    """

    def __init__(self, ttl_s: float, journal: Journal) -> None:
        self._turn_s = ttl_s * SEARCH_SHARE
        self._left_s = self._turn_s
        self._journal = journal
        self._memory = Memory(check_every=CHECK_EVERY)
        self.times: deque[float] = deque(maxlen=MOST_TIMES)
        """The times at which it was asked since the last event of the history."""

    def begin_turn(self) -> None:
        """Start the cycles of another turn."""
        self._left_s = self._turn_s

    def plan(self, snapshot: Snapshot, now: float) -> Plan | None:
        """
        Return the plan for `snapshot`, or None if the scheduler fails.

        Each cycle of a turn can search for half of the time that the earlier ones have left. If a
        cycle fails, it is run again with less and less: from nothing and without reasons, then
        without searches, then without promises. A fault that one job brings to light must not keep
        the others from starting. A whole cycle is tried again soon.
        """
        self._left_s /= 2
        self.times.append(now)
        snapshot = replace(snapshot, steps=steps_within(self._left_s))
        attempts = self._attempts(snapshot, now)
        for number, (what, attempt) in enumerate(attempts.items()):
            try:
                plan = attempt()
            except Exception as error:  # noqa: BLE001 - running jobs are monitored all the same
                self._journal.failure(what, error)
                continue
            self._journal.solved(*list(attempts)[number:])
            for problem in self._memory.told_problems():
                self._journal.problem("scheduler state", BastionError(f"was rebuilt: {problem}"))
            return plan if number == 0 else _due_again(plan, now + RETRY_S)
        return None

    def _attempts(self, snapshot: Snapshot, now: float) -> dict[str, Callable[[], Plan]]:
        """Return how a cycle is run, by its name in the log: each only if those before fail."""
        without_promises = replace(snapshot, promises=())
        return {
            "scheduler": lambda: decide(snapshot, now, self._memory),
            "scheduler without reasons": lambda: decide(snapshot, now, explains=False),
            "scheduler without searches": lambda: decide_plainly(snapshot, now),
            "scheduler without promises": lambda: decide_plainly(without_promises, now),
        }


def _due_again(plan: Plan, at: float) -> Plan:
    """Return `plan` with another cycle due `at` that time, or earlier if it is due by itself."""
    return replace(plan, wake_at=at if plan.wake_at is None else min(plan.wake_at, at))
