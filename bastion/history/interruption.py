"""Signals while DuckDB runs a query: Ctrl-C, SIGTERM and SIGHUP."""

from __future__ import annotations

import signal
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from threading import current_thread, main_thread
from types import FrameType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

_ENDING = (signal.SIGTERM, signal.SIGHUP)


@contextmanager
def interruptible(connection: DuckDBPyConnection) -> Iterator[None]:
    """
    Let SIGINT, SIGTERM and SIGHUP immediately end what `connection` does.

    The signal's handler is then called as usual. DuckDB also checks for signals, but ends only
    after its threads have completed all their work. Nothing changes outside the main thread, which
    alone gets signals, or for a signal without a handler.
    """
    with ExitStack() as handlers:
        if current_thread() is main_thread():
            for number in (signal.SIGINT, *_ENDING):
                handlers.enter_context(_interrupting(connection, number))
        yield


@contextmanager
def _interrupting(connection: DuckDBPyConnection, number: int) -> Iterator[None]:
    before = signal.getsignal(number)
    if not callable(before):
        yield
        return

    def interrupt(number: int, frame: FrameType | None) -> None:
        connection.interrupt()
        before(number, frame)

    signal.signal(number, interrupt)
    try:
        yield
    finally:
        signal.signal(number, before)


@contextmanager
def temporary_folder(prefix: str) -> Iterator[Path]:
    """
    A temporary folder that is also removed if SIGTERM or SIGHUP ends the process.

    The signal is raised as KeyboardInterrupt, and ends the process once the folder is gone; a
    second one ends it immediately. Nothing changes outside the main thread, or for a signal that
    has a handler or is ignored.
    """
    told: list[int] = []

    def end(number: int, _: FrameType | None) -> None:
        signal.signal(number, signal.SIG_DFL)
        told.append(number)
        raise KeyboardInterrupt

    is_main = current_thread() is main_thread()
    ours = [each for each in _ENDING if is_main and signal.getsignal(each) is signal.SIG_DFL]
    try:
        for number in ours:
            signal.signal(number, end)
        with tempfile.TemporaryDirectory(prefix=prefix) as name:
            yield Path(name)
    finally:
        for number in ours:
            signal.signal(number, signal.SIG_DFL)
        for ending in told[:1]:
            signal.raise_signal(ending)
