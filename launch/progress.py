"""A progress bar on stderr for what takes longer than a second, on a terminal."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from bundler.progress import Progress

_AFTER_S = 1.0


@contextmanager
def bar(what: str, *, shown: bool) -> Iterator[Callable[[Progress], None]]:
    """
    A function that draws how far `what` has come, once it has taken a second.

    Args:
        what: The first word on the line.
        shown: Draw at all; nothing is drawn where stderr is no terminal.
    """
    if not (shown and sys.stderr.isatty()):
        yield lambda _: None
        return
    from bastion.clock import SystemClock

    clock = SystemClock()
    began = clock.monotonic()
    drawn: list[Any] = []

    def report(progress: Progress) -> None:
        if clock.monotonic() - began < _AFTER_S:
            return
        if not drawn:
            drawn.extend(_begin(what))
        drawn[0].update(
            drawn[1],
            description=f"{what}: {progress.step}",
            completed=progress.done,
            total=progress.total or None,
        )

    try:
        yield report
    finally:
        if drawn:
            drawn[0].stop()


def _begin(what: str) -> tuple[object, object]:
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn

    drawing = Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        DownloadColumn(),
        console=Console(stderr=True),
        transient=True,
    )
    drawing.start()
    return drawing, drawing.add_task(what)
