"""What jobs print while they are followed, and the notes about them, on one screen."""

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
"""How long a note waits for the end of a line: a progress bar does not end its own for hours."""


class Printout:
    """
    Bytes of jobs go to stdout exactly; notes go to stderr, each on a line of its own.

    Where both are one terminal, file or pipe, a note would stand in the middle of a line that a
    job has begun: it waits for the end of that line, and after 5 s breaks it.

    On a terminal control characters of jobs are shown, colours and carriage returns but for; a file
    or a pipe gets every byte as it is.

    Args:
        clock: Says for how long a line has been open.
        raw: Send a terminal every byte as it is, too.
    """

    def __init__(self, clock: Clock, *, raw: bool = False) -> None:
        self._terminal = None if raw or not sys.stdout.isatty() else TerminalBytes()
        self._clock = clock
        self._opened_at: float | None = None
        self._is_shared = False
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
        if not data or not self._is_shared:
            return
        if data.endswith(b"\n"):
            self._opened_at = None
        elif self._opened_at is None or b"\n" in data:
            self._opened_at = self._clock.monotonic()

    def note(self, message: str) -> bool:
        """Print a note; False, and nothing, while it has to wait for the end of a line."""
        if self._opened_at is not None and self._clock.monotonic() - self._opened_at < _OPEN_S:
            return False
        self.end_line()
        note(message)
        return True

    def end_line(self) -> None:
        """Let whatever stderr says next begin on a line of its own."""
        if self._terminal is not None and (rest := self._terminal.safe(b"", final=True)):
            sys.stdout.buffer.write(rest)
            sys.stdout.buffer.flush()
        if self._opened_at is not None:
            self._opened_at = None
            note("")
