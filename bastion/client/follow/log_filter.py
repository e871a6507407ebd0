"""The filter of a log: which processes, from where, which lines. Pure functions of bytes."""

from __future__ import annotations

import re
from collections.abc import Sequence

from bastion.errors import SpecError
from bastion.records.keys.layout import LogStream
from bastion.value import value


@value
class Wanted:
    """Which bytes of a job's log; None stands for all."""

    replica: int | None = None
    process: int | None = None
    attempt: int | None = None
    """None: the newest attempt; when following, also those that come after it. 0: all attempts."""
    tail: int | None = None
    """Only the last so many lines of each process."""
    since: float | None = None
    """Only what was stored at this time of the store or later, whole segments."""
    grep: str = ""
    """Only lines in which this regular expression is found."""

    def __post_init__(self) -> None:
        if self.tail is not None and self.tail < 0:
            raise SpecError(f"tail: {self.tail} is not allowed; 0 or more lines")
        try:
            re.compile(self.grep.encode())
        except re.error as error:
            raise SpecError(f"grep: {self.grep!r} is not a regular expression: {error}") from None

    def chosen(
        self, streams: Sequence[LogStream], *, since_attempt: int | None = None
    ) -> list[LogStream]:
        """
        Those of `streams` that are wanted.

        Args:
            streams: Every process that printed something.
            since_attempt: The first attempt that was shown, when it is followed by others.
        """
        newest = max((stream.attempt for stream in streams), default=0)
        first = newest if since_attempt is None else since_attempt
        return [
            stream
            for stream in streams
            if self.replica in (None, stream.replica)
            and self.process in (None, stream.process)
            and (stream.attempt >= first if self.attempt is None else True)
            and self.attempt in (None, 0, stream.attempt)
        ]


class Grep:
    """
    Keeps the lines of each process in which a pattern is found; everything when it is empty.

    A line that comes in two pieces is put together before it is looked at.
    """

    def __init__(self, pattern: str) -> None:
        self._search = re.compile(pattern.encode()).search if pattern else None
        self._open: dict[LogStream, list[bytes]] = {}
        """The parts of the line that has no end yet: they are joined once, however many come."""

    def take(self, stream: LogStream, data: bytes) -> bytes:
        """What to show of `data`, the next bytes of `stream`."""
        if self._search is None:
            return data
        parts = self._open.setdefault(stream, [])
        first, *others = data.split(b"\n")
        parts.append(first)
        if not others:
            return b""
        self._open[stream] = [others.pop()]
        lines = (b"".join(parts), *others)
        return b"".join(line + b"\n" for line in lines if self._search(line))

    def rest(self, stream: LogStream) -> bytes:
        """What to show of the last line, which has no end, when nothing more comes."""
        line = b"".join(self._open.pop(stream, ()))
        return line if self._search is not None and line and self._search(line) else b""


def last_lines(data: bytes, count: int) -> bytes:
    """The last `count` lines of `data`; a line without an end counts as one."""
    at = len(data) - 1 if data.endswith(b"\n") else len(data)
    for _ in range(count):
        at = data.rfind(b"\n", 0, at)
        if at < 0:
            return data
    return data[at + 1 :] if count else b""
