"""The filter of a log: which processes, from where, which lines. Pure functions of bytes."""

from __future__ import annotations

import re
from collections.abc import Sequence

from bastion.errors import SpecError
from bastion.records.keys.layout import LogStream
from bastion.spec.values.typed import check_types
from bastion.value import value


@value
class Wanted:
    """The requested part of a job's log; None means all."""

    replica: int | None = None
    process: int | None = None
    attempt: int | None = None
    """None: the newest attempt, and when following also later ones. 0: all attempts."""
    tail: int | None = None
    """Only the last `tail` lines of each process."""
    since: float | None = None
    """Only whole segments stored at or after this time, by the store's clock."""
    grep: str = ""
    """Only lines that match this regular expression."""

    def __post_init__(self) -> None:
        check_types(self)
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
        Return the requested ones of `streams`.

        Args:
            streams: Every process that printed something.
            since_attempt: The first attempt that was shown, if later ones are followed.
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
    Keeps the lines of each process that match a pattern; keeps everything if it is empty.

    A line that arrives in several pieces is joined before it is matched.
    """

    def __init__(self, pattern: str) -> None:
        self._search = re.compile(pattern.encode()).search if pattern else None
        self._open: dict[LogStream, list[bytes]] = {}
        """The parts of the unfinished line: they are joined only once, even if there are many."""

    def take(self, stream: LogStream, data: bytes) -> bytes:
        """Return what to show of `data`, the next bytes of `stream`."""
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
        """Return what to show of the unfinished last line when nothing more comes."""
        line = b"".join(self._open.pop(stream, ()))
        return line if self._search is not None and line and self._search(line) else b""


def last_lines(data: bytes, count: int) -> bytes:
    """Return the last `count` lines of `data`; an unfinished line counts as one."""
    at = len(data) - 1 if data.endswith(b"\n") else len(data)
    for _ in range(count):
        at = data.rfind(b"\n", 0, at)
        if at < 0:
            return data
    return data[at + 1 :] if count else b""
