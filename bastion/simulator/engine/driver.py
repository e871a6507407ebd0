"""
`Driver`: how a simulation asks the scheduler for plans. Every call of the scheduler is here.

What can be carried from cycle to cycle belongs here: the scheduler's own memory of records. A
driver may leave a cycle out only if its plan would change nothing.
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
            only_ends: Nothing happened but that jobs ended.
        """
        ...

    def plan(self, state: State, now: float) -> Plan:
        """What should be done now."""
        ...

    def reasons(self, snapshot: Snapshot, now: float) -> Mapping[str, str]:
        """Why each job in `snapshot` waits, in words."""
        ...


class Naive:
    """A cycle after every event, with nothing carried over: what every other driver must equal."""

    def __init__(self, quota: Quota, parts: Parts | None = None) -> None:
        self.parts = parts or chosen(quota.scheduler)

    def needs_cycle(self, state: State, *, only_ends: bool) -> bool:
        """Always."""
        del state, only_ends
        return True

    def plan(self, state: State, now: float) -> Plan:
        """A cycle from nothing."""
        return self.decide(state.snapshot(now), now)

    def reasons(self, snapshot: Snapshot, now: float) -> Mapping[str, str]:
        """Why each job in `snapshot` waits, in words."""
        plan = decide_with(self.parts, snapshot, now)
        return {
            name: text(verdict.reason, now)
            for name, verdict in plan.verdicts.items()
            if isinstance(verdict, Wait | Refuse)
        }

    def decide(self, snapshot: Snapshot, now: float) -> Plan:
        """The scheduler's own function."""
        return decide_with(self.parts, snapshot, now)


class Shortcut(Protocol):
    """Finds the plan of some cycles without one."""

    def plan(self, state: State, now: float) -> Plan | None:
        """What a cycle would plan, or None where it takes one to find out."""
        ...


class Carrying(Naive):
    """Remembers records from cycle to cycle, and leaves out cycles that can change nothing."""

    def __init__(
        self, quota: Quota, parts: Parts | None = None, shortcut: Shortcut | None = None
    ) -> None:
        super().__init__(quota, parts)
        self._memory = Memory()
        self.shortcut = shortcut

    def needs_cycle(self, state: State, *, only_ends: bool) -> bool:
        """Not when jobs ended, none waits or was promised anything, and no class changes."""
        return not (only_ends and state.is_settled)

    def plan(self, state: State, now: float) -> Plan:
        """A cycle from what is known; where a job may be refused as it arrives, with reasons."""
        known = self.shortcut.plan(state, now) if self.shortcut is not None else None
        if known is not None:
            return known
        may_refuse = state.cluster.shrinks and now - state.last_arrival_s <= SUBMITTED_S
        return decide_with(self.parts, state.snapshot(now), now, self._memory, tells=may_refuse)

    def decide(self, snapshot: Snapshot, now: float) -> Plan:
        """The scheduler's own function, with its memory, and without reasons for waiting."""
        return decide_with(self.parts, snapshot, now, self._memory, tells=False)
