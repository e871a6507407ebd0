"""
Progress in a notebook: a bar that moves while a cell waits.

On a terminal, the command line draws its own bar. In a script nothing is drawn, since a script's
output is its own. The bar is plain HTML that replaces itself and needs no widgets.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from html import escape
from typing import Any

from bastion.client.look.watch import WaitReport, no_report


class Bar:
    """How many of all jobs have ended, as a notebook shows it."""

    def __init__(self, what: str, *, done: int, total: int) -> None:
        self._what = what
        self._done = done
        self._total = total

    def __repr__(self) -> str:
        return f"{self._what}: {self._done} of {self._total} ended"

    def _repr_html_(self) -> str:
        # Without a value, a browser draws an animated bar: nothing has ended yet.
        value = f' value="{self._done}"' if self._done else ""
        return f'<progress max="{self._total}"{value}></progress> {escape(repr(self))}'


def is_notebook() -> bool:
    """Whether this process is the kernel of a notebook."""
    return "ipykernel" in sys.modules


@contextmanager
def progress(what: str) -> Iterator[WaitReport]:
    """Return a function that draws how many of all have ended; it draws only in a notebook."""
    if not is_notebook():
        yield no_report
        return
    from IPython import display

    show: Any = display.display  # without types

    drawn: Any = None
    shown = (-1, -1)

    def draw(done: int, total: int) -> None:
        nonlocal shown, drawn
        if (done, total) == shown:
            return
        shown, bar = (done, total), Bar(what, done=done, total=total)
        if drawn is None:
            drawn = show(bar, display_id=True)
        else:
            drawn.update(bar)

    yield draw
