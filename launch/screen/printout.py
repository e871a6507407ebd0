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
"""How long a note waits for the end of a line; a progress bar may keep its line open for hours."""


class Printout:
    """
    Bytes of jobs go to stdout unchanged; notes go to stderr, each on its own line.

    If both go to the same terminal, file or pipe, a note would break an unfinished line of a job.
    It waits at most 5 s for the end of that line.

    On a terminal, control characters of jobs are escaped, except colors and carriage returns. A
    file or a pipe gets every byte unchanged.

    Args:
        clock: Measures how long a line has been open.
        raw: Write every byte unchanged to a terminal too.
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
        Write the output of a job.

        Raises:
            BrokenPipeError: The reader of stdout has closed it.
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
        """Print a sentence; return False if it must wait for the end of a line."""
        if self._opened_at is not None and self._clock.monotonic() - self._opened_at < _OPEN_S:
            return False
        self.end_line()
        note(message, is_prose=True)
        return True

    def end_line(self) -> None:
        """End an open line, so that the next note has its own line."""
        if self._terminal is not None and (rest := self._terminal.safe(b"", final=True)):
            sys.stdout.buffer.write(rest)
            sys.stdout.buffer.flush()
        if self._opened_at is not None:
            self._opened_at = None
            note("")
