"""
The end of a log as it grows: finished lines once, and the unfinished line as it reads now.

A segment ends wherever a flush cut it: within a line, a progress bar or a character. So text is
given out line by line. What follows the last line break is shown too, as a text that the next look
replaces; a follower that comes back begins with it, and neither repeats nor skips a byte.
"""

from __future__ import annotations

from collections.abc import Iterator

from bastion.value import value
from bastion.web.reading.log_window import ProcessLog, missing, readable, split, without_cut

CHUNK_BYTES = 64 << 10
"""Finished lines that are sent at once; a longer line is sent by itself."""


@value
class Printed:
    """A piece of what a look found."""

    text: str
    """Finished lines, to be added to what is shown."""
    unfinished: str
    """The line behind them as it reads now, in place of the one that was told before."""
    at: int
    """The offset of that line: reading on from there repeats nothing and skips nothing."""


class LogTail:
    """
    Follows one log.

    Args:
        log: It.
        at: The offset to begin with, anywhere in a segment.
    """

    def __init__(self, log: ProcessLog, at: int) -> None:
        self._log = log
        self._end = at
        self._rest = b""
        self._is_at_segment = False

    def look(self) -> tuple[Printed, ...]:
        """
        Return what was printed since the last look; nothing where nothing was.

        Raises:
            StoreError: Out of reach.
        """
        begin, data = self._next()
        return tuple(self._told(begin, data)) if data else ()

    def _next(self) -> tuple[int, bytes]:
        if self._is_at_segment:
            return self._end, self._log.next(self._end)
        found = next(self._log.pieces(self._end), (self._end, b""))
        self._is_at_segment = bool(found[1])
        return found

    def _told(self, begin: int, data: bytes) -> Iterator[Printed]:
        if begin > self._end:
            lost = readable(self._rest + missing(self._end, begin))
            self._rest = b""
            yield Printed(text=lost, unfinished="", at=begin)
        data, self._end = self._rest + data, begin + len(data)
        at = self._end - len(data)
        finished, self._rest = split(data)
        for chunk in _chunks(finished):
            at += len(chunk)
            yield Printed(text=readable(chunk), unfinished="", at=at)
        unfinished = readable(without_cut(self._rest))
        yield Printed(text="", unfinished=unfinished, at=self._end - len(self._rest))


def _chunks(lines: bytes) -> Iterator[bytes]:
    """Yield `lines` in pieces of whole lines."""
    begin = 0
    while begin < len(lines):
        end = lines.rfind(b"\n", begin, begin + CHUNK_BYTES) + 1
        end = end or lines.find(b"\n", begin) + 1 or len(lines)
        yield lines[begin:end]
        begin = end
