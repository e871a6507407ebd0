"""`Standstill`: jobs that stop one another again and again while none of them makes progress."""

from __future__ import annotations

from bastion.errors import BastionError
from bastion.simulator.engine.jobs.costs import Costs
from bastion.simulator.engine.jobs.life import Life

_STOPS = 500
_STOPS_A_JOB = 5
"""Allowed stops in a row for each active job, plus `_STOPS`, without anything kept."""


class Standstill:
    """
    Counts consecutive stops that kept no work.

    Without this, a simulation whose jobs lose all their work at every stop would never end.
    """

    def __init__(self, costs: Costs) -> None:
        self._costs = costs
        self._count = 0
        self._since = 0.0

    def ended(self) -> None:
        """Note that a job has ended."""
        self._count = 0

    def stopped(self, life: Life, active: int) -> None:
        """
        Note that an attempt ended early; `active` jobs have not ended.

        Raises:
            BastionError: Nothing has been kept for so long that nothing ever will be.
        """
        span = life.spans[-1]
        if span.useful_s > 0:
            self._count = 0
        elif span.end > span.start:
            self._since = self._since if self._count else span.end
            self._count += 1
            if self._count > _STOPS + _STOPS_A_JOB * active:
                raise self._error(span.end, active)

    def _error(self, now: float, active: int) -> BastionError:
        costs = self._costs
        overhead_s = costs.start_s + costs.restart_s
        saves = f"the first checkpoint comes after {costs.checkpoint_s:g} s of work"
        ways = ["--order=tiresias, whose jobs yield less often", "a longer --round", "--ideal"]
        if costs.checkpoint_s:
            ways.insert(0, "--cost=checkpoint=0 for jobs that save when they are stopped")
        return BastionError(
            f"{active} jobs stop one another for ever: {self._count:,} stops within"
            f" {(now - self._since) / 3600:.3g} hours kept no work (start and restart take"
            f" {overhead_s:g} s{', ' + saves if costs.checkpoint_s else ''})",
            hint=" | ".join(ways),
        )
