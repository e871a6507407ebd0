"""
Progress in a notebook: a bar that moves while a cell waits.

A terminal has its own bar on the command line; in a script nothing is drawn, since what a script
prints is its own.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager

from bastion.client.look.watch import WaitReport, no_report


def is_notebook() -> bool:
    """Whether this process is the kernel of a notebook."""
    return "ipykernel" in sys.modules


@contextmanager
def progress(what: str) -> Iterator[WaitReport]:
    """Return a function that draws how many of all have ended, where there is a notebook."""
    if not is_notebook():
        yield no_report
        return
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (TextColumn(what), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns) as drawn:
        task = drawn.add_task(what)
        yield lambda done, total: drawn.update(task, completed=done, total=total)
