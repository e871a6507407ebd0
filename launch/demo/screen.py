"""The output of the demo: a line per change, and a live table on a terminal."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from launch.screen.job_table import why_of
from launch.screen.render import STATE_COLORS, Output, amounts

if TYPE_CHECKING:
    from bastion.client import JobView
    from bastion.clock import Clock

_RICH_COLORS = {"orange": "dark_orange", "grey": "bright_black"}


class Screen:
    """
    Prints the demo.

    Args:
        out: The output of this command.
        clock: The clock for the times in the lines.
    """

    def __init__(self, out: Output, clock: Clock) -> None:
        self._out = out
        self._clock = clock
        self._began = clock.monotonic()
        self._live: Any = None
        self._shown: tuple[JobView, ...] = ()
        self._told: dict[str, str] = {}

    @contextmanager
    def open(self) -> Iterator[Screen]:
        """On a terminal, draw the table below the lines while inside."""
        if not self._out.terminal:
            yield self
            return
        from rich.live import Live

        with Live(refresh_per_second=8, get_renderable=self._table) as self._live:
            yield self
        self._live = None

    def say(self, text: str, *, color: str = "") -> None:
        """Print a line with the seconds since the demo began."""
        line = f"{self._clock.monotonic() - self._began:5.1f}s  {self._out.paint(text, color)}"
        if self._live is not None:
            from rich.text import Text

            self._live.console.print(Text.from_ansi(line))
        else:
            print(line, flush=True)

    def tell(self, text: str) -> None:
        """Print a line that explains what happens now."""
        self.say(text, color="bold")

    def jobs(self, jobs: Sequence[JobView]) -> None:
        """Update the table, and print a line for every changed state, with its reason."""
        for job in jobs:
            is_judged = job.text or job.state != "queued"  # the next cycle says why it waits
            if is_judged and self._told.get(job.id) != job.state:
                self._told[job.id] = job.state
                self.say(f"{job.name:<8} {self._out.state(f'{job.state:<10}')} {why_of(job)}")
        self._shown = tuple(jobs)

    def _table(self) -> Any:
        from rich.table import Table
        from rich.text import Text

        table = Table(box=None, pad_edge=False)
        for title in ("JOB", "PROJECT", "RESOURCES", "STATE", "CLASS", "ATTEMPT", "MACHINES"):
            table.add_column(title, no_wrap=True)
        table.add_column("WHY")  # the only column that shrinks on a narrow terminal
        for job in self._shown:
            color = STATE_COLORS.get(job.state, "")
            table.add_row(
                job.name,
                job.project,
                amounts(job.units),
                Text(job.state, style=_RICH_COLORS.get(color, color)),
                job.job_class,
                str(job.attempt),
                ",".join(job.machines),
                Text(why_of(job), no_wrap=True, overflow="ellipsis"),
            )
        return table
