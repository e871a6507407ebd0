"""The progress of a study's simulations and the estimated time left, on stderr."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any

from launch.screen.notes import note

if TYPE_CHECKING:
    from bastion.clock import Clock

_FIRST_S, _EVERY_S = 5.0, 15.0
"""If stderr is not a terminal: the time of the first line, and the interval of the others."""


class StudyProgress:
    """
    A bar on a terminal; a line every few seconds elsewhere.

    Args:
        quiet: Whether to print nothing.
        clock: The clock of this machine.
    """

    def __init__(self, *, quiet: bool, clock: Clock | None = None) -> None:
        from bastion.clock import SystemClock

        self._clock = clock or SystemClock()
        self._quiet = quiet
        self._began = self._clock.monotonic()
        self._next = self._began + _FIRST_S
        self._bar: Any = None

    def __enter__(self) -> StudyProgress:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._bar is not None:
            self._bar.stop()

    def tell(self, done: Sequence[float]) -> None:
        """Show progress: `done` is the fraction of ended jobs of each simulation."""
        if self._quiet:
            return
        part = sum(done) / len(done)
        if sys.stderr.isatty():
            self._draw(part)
            return
        now = self._clock.monotonic()
        if now >= self._next:
            self._next = now + _EVERY_S
            note(f"{100 * part:.0f} % of the jobs have ended; {_left(part, now - self._began)}")

    def _draw(self, part: float) -> None:
        if self._bar is None:
            from rich.console import Console
            from rich.progress import BarColumn, Progress, TaskProgressColumn, TimeRemainingColumn

            console = Console(stderr=True)
            columns = (BarColumn(), TaskProgressColumn(), TimeRemainingColumn())
            self._bar = Progress(*columns, console=console, transient=True)
            self._bar.add_task("", total=1.0)
            self._bar.start()
        self._bar.update(self._bar.task_ids[0], completed=part)


def _left(part: float, passed_s: float) -> str:
    from bastion.simulator.report.words import duration

    return f"about {duration(passed_s * (1 - part) / part)} left" if part > 0 else "no estimate yet"
