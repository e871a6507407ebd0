"""Ctrl-C while DuckDB runs a query."""

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
    Let SIGINT immediately end what `connection` does; then its handler is called as usual.

    DuckDB also checks for signals, but ends only after its threads have completed all their work.
    Nothing changes outside the main thread, which alone gets signals, or if SIGINT has no handler.
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
