"""A progress bar on stderr for steps longer than a second, on a terminal."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

Draw = Callable[[str, int, int], None]
"""The name of the step, the amount done, and the total (0: unknown)."""

_AFTER_S = 1.0


@contextmanager
def bar(*, shown: bool, is_bytes: bool = False) -> Iterator[Draw]:
    """
    Provide a function that draws the progress once the step has taken one second.

    Args:
        shown: Whether to draw; nothing is drawn if stderr is not a terminal.
        is_bytes: Whether the amounts are bytes.
    """
    if not (shown and sys.stderr.isatty()):
        yield lambda _what, _done, _total: None
        return
    from bastion.clock import SystemClock

    clock = SystemClock()
    began = clock.monotonic()
    drawn: list[Any] = []

    def draw(what: str, done: int, total: int) -> None:
        if clock.monotonic() - began < _AFTER_S:
            return
        if not drawn:
            drawing = _drawing(is_bytes=is_bytes)
            drawn.extend((drawing, drawing.add_task(what, completed=done, total=total or None)))
            drawing.start()
        drawn[0].update(drawn[1], description=what, completed=done, total=total or None)

    try:
        yield draw
    finally:
        if drawn:
            drawn[0].stop()


def _drawing(*, is_bytes: bool) -> Any:
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        DownloadColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeElapsedColumn,
    )

    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        DownloadColumn() if is_bytes else MofNCompleteColumn(),
        TimeElapsedColumn(),
        console=Console(stderr=True),
        transient=True,
    )
