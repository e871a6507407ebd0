"""
The cycles of a leader's scheduler, within the time that its lease leaves them.

A turn commits, and so renews the lease, only after its cycles. So they may search for a part of the
lease and no longer; what a cycle does not come to, the next turn goes on with.

It must not know what a plan is applied to.
"""

from __future__ import annotations

from collections import deque
from dataclasses import replace

from bastion.errors import BastionError
from bastion.scheduler.cycle import decide
from bastion.scheduler.effort import steps_within
from bastion.scheduler.plan import Plan
from bastion.scheduler.snapshot import Snapshot
from bastion.scheduler.state.memory.memory import Memory
from bastion.service.journal import Journal

SEARCH_SHARE = 1 / 6
"""
The part of the lease for which all cycles of one turn may search.

The lease is renewed when a third of it is over; the other half of that is for all else in a turn.
"""
CHECK_EVERY = 1_000
"""Cycles: in one of so many the state is compared with one made from nothing."""
MOST_TIMES = 1_000
"""Of cycles that are kept until an event takes them along, which stays below 20 kB by it."""


class Cycles:
    """
    Asks the scheduler for plans.

    Args:
        ttl_s: Of the lease.
        journal: Is told what fails.
    """

    def __init__(self, ttl_s: float, journal: Journal) -> None:
        self._turn_s = ttl_s * SEARCH_SHARE
        self._left_s = self._turn_s
        self._journal = journal
        self._memory = Memory(check_every=CHECK_EVERY)
        self.times: deque[float] = deque(maxlen=MOST_TIMES)
        """When it was asked, since the history was last told."""

    def begin_turn(self) -> None:
        """Let the cycles of another turn begin."""
        self._left_s = self._turn_s

    def plan(self, snapshot: Snapshot, now: float) -> Plan | None:
        """
        The plan for `snapshot`, or None if the scheduler fails.

        Each cycle of a turn may search for half of what the earlier ones have left. Where a cycle
        fails, it is made once more from nothing and without reasons: a fault in what is told of one
        job keeps none from starting.
        """
        self._left_s /= 2
        self.times.append(now)
        snapshot = replace(snapshot, steps=steps_within(self._left_s))
        try:
            plan = decide(snapshot, now, self._memory)
        except Exception as error:  # noqa: BLE001 - running jobs are monitored all the same
            self._journal.failure("scheduler", error)
            return self._without_reasons(snapshot, now)
        for problem in self._memory.told_problems():
            self._journal.problem("scheduler state", BastionError(f"was rebuilt: {problem}"))
        return plan

    def _without_reasons(self, snapshot: Snapshot, now: float) -> Plan | None:
        try:
            return decide(snapshot, now, tells=False)
        except Exception as error:  # noqa: BLE001 - as above
            self._journal.failure("scheduler without reasons", error)
            return None
