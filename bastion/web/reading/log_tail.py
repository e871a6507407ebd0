"""
The end of a growing log: each finished line once, and the current unfinished line.

A segment ends where a flush cut it: within a line, a progress bar or a character. The output is
therefore delivered line by line. Text after the last line break is shown too, and the next look
replaces it. A reconnecting follower begins with that line, and neither repeats nor skips a byte.
"""

from __future__ import annotations

from collections.abc import Iterator

from bastion.value import value
from bastion.web.reading.log_window import ProcessLog, missing, readable, split, without_cut

CHUNK_BYTES = 64 << 10
"""Size of finished lines that are sent together; a longer line is sent alone."""


@value
class Printed:
    """Part of the output found by one look."""

    text: str
    """Finished lines, to be appended to the shown text."""
    unfinished: str
    """The current unfinished line, which replaces the previous one."""
    at: int
    """The offset of that line: continuing from there repeats nothing and skips nothing."""


class LogTail:
    """
    Follows one log.

    Args:
        log: The log.
        at: The offset to begin with, anywhere in a segment.
    """

    def __init__(self, log: ProcessLog, at: int) -> None:
        self._log = log
        self._end = at
        self._rest = b""
        self._is_at_segment = False

    def look(self) -> tuple[Printed, ...]:
        """
        Return what was printed since the last look; nothing if there is no output.

        Raises:
            StoreError: Unreachable.
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
