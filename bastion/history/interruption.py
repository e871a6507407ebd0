"""Ctrl-C while DuckDB works on a question."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from threading import current_thread, main_thread
from types import FrameType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection


@contextmanager
def interruptible(connection: DuckDBPyConnection) -> Iterator[None]:
    """
    Let SIGINT end at once what `connection` does; then its handler is called as always.

    DuckDB looks for signals, too, but only ends once its threads have done all that they were asked
    for. Nothing is changed outside the main thread, which alone gets signals, and where SIGINT has
    no handler.
    """
    before = signal.getsignal(signal.SIGINT)
    if current_thread() is not main_thread() or not callable(before):
        yield
        return

    def interrupt(number: int, frame: FrameType | None) -> None:
        connection.interrupt()
        before(number, frame)

    signal.signal(signal.SIGINT, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
