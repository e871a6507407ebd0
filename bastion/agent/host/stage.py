"""The stages of one host of one attempt, and the results that its parts report."""

from __future__ import annotations

from enum import Enum
from typing import Protocol

from bastion.agent.keeper.port import AttemptStart
from bastion.agent.usage.series import Holding
from bastion.job import End


class Stage(Enum):
    """
    The stage of a host.

    The moves between stages are drawn in `bastion.agent.host.host`.
    """

    CLAIMING = "claiming"
    ASKING = "asking"
    SETTING_UP = "setting up"
    AT_BARRIER = "at the barrier"
    RUNNING = "running"
    HOLDING = "holding"
    ENDING = "ending"
    GONE = "gone"


class Progress(Protocol):
    """What the start of a host reports to the host."""

    stage: Stage

    def conclude_if_stopped(self) -> bool:
        """End the host if a stop came before its start; return whether one did."""
        ...

    def conclude(self, end: End) -> None:
        """End the host, which has not run."""
        ...

    def end_exists(self, end: End) -> None:
        """Record that the register already holds `end`."""
        ...

    def fail(self, error: Exception) -> None:
        """End the host, which cannot start because of `error`."""
        ...

    def leave(self, *, is_settled: bool = True) -> None:
        """Do nothing more for the host."""
        ...

    def adopt_started(self, now: float) -> None:
        """Adopt an attempt that an earlier agent started under the same key."""
        ...

    def run(
        self,
        processes: int,
        started_at: float,
        *,
        is_new: bool,
        secrets: tuple[str, ...] | None,
        attempt: AttemptStart | None = None,
        holding: Holding | None = None,
    ) -> None:
        """Record that the keeper has the processes, and what is known of their start."""
        ...
