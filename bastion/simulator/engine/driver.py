"""
`Driver`: how a simulation gets plans from the scheduler. Every call to the scheduler is here.

This module holds what can be carried from cycle to cycle: the scheduler's own memory of records. A
driver may skip a cycle only if its plan would change nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from bastion.scheduler.cycle import decide_with
from bastion.scheduler.explain.verdicts import SUBMITTED_S
from bastion.scheduler.plan import Plan, Refuse, Wait
from bastion.scheduler.reasons.reason import text
from bastion.scheduler.snapshot import Snapshot
from bastion.scheduler.state.memory.memory import Memory
from bastion.scheduler.state.memory.policy_choice import Parts, chosen
from bastion.simulator.engine.state import State
from quota import Quota


class Driver(Protocol):
    """Decides what happens now."""

    def needs_cycle(self, state: State, *, only_ends: bool) -> bool:
        """
        Whether a cycle could change anything.

        Args:
            state: After everything that happens now.
            only_ends: The only events were ends of jobs.
        """
        ...

    def plan(self, state: State, now: float) -> Plan:
        """Return what should be done now."""
        ...

    def reasons(self, snapshot: Snapshot, now: float) -> Mapping[str, str]:
        """Return why each job in `snapshot` waits, in words."""
        ...


class Naive:
    """A cycle after every event, with nothing carried over: every other driver must match it."""

    def __init__(self, quota: Quota, parts: Parts | None = None) -> None:
        self.parts = parts or chosen(quota.scheduler)

    def needs_cycle(self, state: State, *, only_ends: bool) -> bool:
        """Always."""
        del state, only_ends
        return True

    def plan(self, state: State, now: float) -> Plan:
        """Run a cycle with nothing carried over."""
        return self.decide(state.snapshot(now), now)

    def reasons(self, snapshot: Snapshot, now: float) -> Mapping[str, str]:
        """Return why each job in `snapshot` waits, in words."""
        plan = decide_with(self.parts, snapshot, now)
        return {
            name: text(verdict.reason, now)
            for name, verdict in plan.verdicts.items()
            if isinstance(verdict, Wait | Refuse)
        }

    def decide(self, snapshot: Snapshot, now: float) -> Plan:
        """Call the scheduler's own function."""
        return decide_with(self.parts, snapshot, now)


class Shortcut(Protocol):
    """Finds the plan of some cycles without running them."""

    def plan(self, state: State, now: float) -> Plan | None:
        """Return the plan of a cycle, or None if it takes the scheduler to find out."""
        ...


class Carrying(Naive):
    """Remembers records from cycle to cycle, and skips cycles that cannot change anything."""

    def __init__(
        self, quota: Quota, parts: Parts | None = None, shortcut: Shortcut | None = None
    ) -> None:
        super().__init__(quota, parts)
        self._memory = Memory()
        self.shortcut = shortcut

    def needs_cycle(self, state: State, *, only_ends: bool) -> bool:
        """False if only jobs ended, no job waits or has a promise, and no class changes."""
        return not (only_ends and state.is_settled)

    def plan(self, state: State, now: float) -> Plan:
        """Run a cycle with carried records; with reasons if an arriving job may be refused."""
        known = self.shortcut.plan(state, now) if self.shortcut is not None else None
        if known is not None:
            return known
        may_refuse = state.cluster.shrinks and now - state.last_arrival_s <= SUBMITTED_S
        return decide_with(self.parts, state.snapshot(now), now, self._memory, explains=may_refuse)

    def decide(self, snapshot: Snapshot, now: float) -> Plan:
        """Call the scheduler's own function, with its memory, and without reasons for waiting."""
        return decide_with(self.parts, snapshot, now, self._memory, explains=False)
