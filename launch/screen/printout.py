"""The output of followed jobs and the notes about them, on one screen."""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from typing import TYPE_CHECKING

from launch.screen.notes import note
from launch.screen.visible import TerminalBytes

if TYPE_CHECKING:
    from bastion.clock import Clock

_OPEN_S = 5.0
"""How long a note waits for the end of a line: a progress bar may not end its line for hours."""


class Printout:
    """
    Bytes of jobs go to stdout exactly; notes go to stderr, each on a line of its own.

    If both go to one terminal, file or pipe, a note would break a line that a job has begun. It
    waits for the end of that line, at most 5 s.

    On a terminal, control characters of jobs are escaped, except for colours and carriage returns.
    A file or a pipe gets every byte unchanged.

    Args:
        clock: Says for how long a line has been open.
        raw: Send every byte unchanged to a terminal too.
    """

    def __init__(self, clock: Clock, *, raw: bool = False) -> None:
        self._terminal = None if raw or not sys.stdout.isatty() else TerminalBytes()
        self._clock = clock
        self._opened_at: float | None = None
        self._is_shared = False
        self.is_empty = True
        """Whether no byte was written."""
        with suppress(OSError, ValueError):
            self._is_shared = os.path.sameopenfile(sys.stdout.fileno(), sys.stderr.fileno())

    def write(self, data: bytes) -> None:
        """
        Write what a job printed.

        Raises:
            BrokenPipeError: Its reader is gone.
        """
        sys.stdout.buffer.write(data if self._terminal is None else self._terminal.safe(data))
        sys.stdout.buffer.flush()
        self.is_empty = self.is_empty and not data
        if not data or not self._is_shared:
            return
        if data.endswith(b"\n"):
            self._opened_at = None
        elif self._opened_at is None or b"\n" in data:
            self._opened_at = self._clock.monotonic()

    def note(self, message: str) -> bool:
        """Print a sentence; return False without printing if it must wait for the end of a line."""
        if self._opened_at is not None and self._clock.monotonic() - self._opened_at < _OPEN_S:
            return False
        self.end_line()
        note(message, is_prose=True)
        return True

    def end_line(self) -> None:
        """End an open line, so that the next note has a line of its own."""
        if self._terminal is not None and (rest := self._terminal.safe(b"", final=True)):
            sys.stdout.buffer.write(rest)
            sys.stdout.buffer.flush()
        if self._opened_at is not None:
            self._opened_at = None
            note("")
