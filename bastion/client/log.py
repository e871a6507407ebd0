"""
What the processes of a job printed, read from the bucket: whole, from the end, or as it comes.

Bytes come exactly as they were printed. A process is followed by reading the next name, which its
offset tells; new processes and attempts are found by listing. Nothing here needs the machine, the
agent or the bastion to live.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

from bastion.clock import Clock
from bastion.errors import NotFoundError, SpecError
from bastion.logs.segments import offset_of, segment_key
from bastion.records import layout
from bastion.records.layout import LogStream
from bastion.store.port import Entry, ObjectStore
from bastion.value import value

_PAGE = 1000
_LOOK_FOR_NEW = 10
"""Looks at known processes for each list that may find new ones."""


@value
class Chunk:
    """Bytes that one process printed, in the order it printed them."""

    stream: LogStream
    offset: int
    data: bytes


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

    def has(self, stream: LogStream, *, newest: int) -> bool:
        """Whether `stream` is wanted, when `newest` is the first attempt to be shown."""
        chosen = stream.attempt >= newest if self.attempt is None else True
        return (
            chosen
            and self.attempt in (None, 0, stream.attempt)
            and self.replica in (None, stream.replica)
            and self.process in (None, stream.process)
        )


class JobLog:
    """
    The log of one job.

    Args:
        store: The bucket.
        project: Of the job.
        job: Its id.
    """

    def __init__(self, store: ObjectStore, project: str, job: str) -> None:
        self._store = store
        self._project = project
        self._job = job

    def streams(self) -> tuple[LogStream, ...]:
        """Every process that printed something, attempt by attempt."""
        found: list[LogStream] = []
        prefix, after = layout.job_logs(self._project, self._job), ""
        while page := self._store.list(prefix, start_after=after, limit=1):
            stream = layout.parse_log(page[0].key)
            after = page[0].key
            if stream is not None:
                found.append(stream)
                after = layout.after(self._prefix(stream))
        return tuple(sorted(found, key=_order))

    def read(self, wanted: Wanted) -> Iterator[Chunk]:
        """
        What is there now, process by process.

        Raises:
            NotFoundError: A process's log has a gap: bytes that were never stored.
            StoreError: Out of reach.
        """
        streams = self.streams()
        newest = max((stream.attempt for stream in streams), default=0)
        for stream in streams:
            if wanted.has(stream, newest=newest):
                yield from _grepped(self._chosen(stream, wanted), wanted.grep)

    def follow(
        self, wanted: Wanted, clock: Clock, *, poll_s: float, has_ended: Callable[[], bool]
    ) -> Iterator[Chunk]:
        """
        What is there and what comes, until the job has ended and all of it was shown.

        Args:
            wanted: Which bytes; `tail` and `since` choose where to begin.
            clock: For waiting.
            poll_s: Between two looks while nothing comes.
            has_ended: Whether the job's final record is written; nothing is printed after that.

        Raises:
            StoreError: Out of reach.
        """
        positions: dict[LogStream, int] = {}
        newest, looks = -1, 0
        while True:
            ended = has_ended()
            if ended or looks % _LOOK_FOR_NEW == 0 or not positions:
                streams = self.streams()
                if newest < 0 and streams:
                    newest = max(stream.attempt for stream in streams)
                    yield from self._begin(streams, newest, wanted, positions)
                for stream in streams:
                    if wanted.has(stream, newest=newest):
                        positions.setdefault(stream, 0)
            looks += 1
            moved = False
            for stream in sorted(positions, key=_order):
                for chunk in self._next(stream, positions[stream]):
                    moved = True
                    positions[stream] = chunk.offset + len(chunk.data)
                    yield from _grepped(iter((chunk,)), wanted.grep)
            if ended:
                return
            if not moved:
                clock.sleep(poll_s)

    def _begin(
        self,
        streams: tuple[LogStream, ...],
        newest: int,
        wanted: Wanted,
        positions: dict[LogStream, int],
    ) -> Iterator[Chunk]:
        """What is there at the first look."""
        for stream in streams:
            if wanted.has(stream, newest=newest):
                positions[stream] = self._end(stream) if wanted.tail == 0 else 0
                for chunk in self._chosen(stream, wanted):
                    positions[stream] = chunk.offset + len(chunk.data)
                    yield from _grepped(iter((chunk,)), wanted.grep)

    def _chosen(self, stream: LogStream, wanted: Wanted) -> Iterator[Chunk]:
        segments = self._segments(stream)
        if wanted.since is not None:
            segments = [entry for entry in segments if entry.modified_at >= wanted.since]
        if wanted.tail is None:
            return self._stored(stream, segments)
        return iter(_tail(list(self._last(stream, segments, wanted.tail)), wanted.tail))

    def _stored(self, stream: LogStream, segments: list[Entry]) -> Iterator[Chunk]:
        expected: int | None = None
        for entry in segments:
            offset = offset_of(entry.key) or 0
            if expected is not None and offset != expected:
                raise NotFoundError(
                    f"{self._prefix(stream)}: bytes {expected} to {offset} are missing"
                )
            expected = offset + entry.size
            yield Chunk(stream=stream, offset=offset, data=self._bytes(entry.key) or b"")

    def _last(self, stream: LogStream, segments: list[Entry], lines: int) -> Iterator[Chunk]:
        """Whole segments from the end that hold at least `lines` lines, in order."""
        chunks: list[Chunk] = []
        seen = 0
        for entry in reversed(segments):
            if seen > lines:
                break
            data = self._bytes(entry.key) or b""
            seen += data.count(b"\n")
            chunks.append(Chunk(stream=stream, offset=offset_of(entry.key) or 0, data=data))
        return reversed(chunks)

    def _next(self, stream: LogStream, offset: int) -> Iterator[Chunk]:
        while data := self._bytes(segment_key(self._prefix(stream), offset)):
            yield Chunk(stream=stream, offset=offset, data=data)
            offset += len(data)

    def _end(self, stream: LogStream) -> int:
        last = self._segments(stream)[-1]
        return (offset_of(last.key) or 0) + last.size

    def _segments(self, stream: LogStream) -> list[Entry]:
        found: list[Entry] = []
        prefix, after = self._prefix(stream), ""
        while page := self._store.list(prefix, start_after=after, limit=_PAGE):
            found.extend(page)
            after = page[-1].key
        return found

    def _prefix(self, stream: LogStream) -> str:
        return layout.log(
            self._project,
            self._job,
            stream.attempt,
            replica=stream.replica,
            host=stream.host,
            process=stream.process,
        )

    def _bytes(self, key: str) -> bytes | None:
        try:
            found = self._store.read(key)
        except NotFoundError:
            return None
        return None if found is None else found.data


def _order(stream: LogStream) -> tuple[int, int, int, int]:
    return stream.attempt, stream.replica, stream.host, stream.process


def _tail(chunks: list[Chunk], lines: int) -> list[Chunk]:
    """The end of `chunks` that holds `lines` lines; a line without an end counts as one."""
    kept: list[Chunk] = []
    left = lines + (0 if chunks and not chunks[-1].data.endswith(b"\n") else 1)
    for chunk in reversed(chunks):
        at = len(chunk.data)
        while left and (at := chunk.data.rfind(b"\n", 0, at)) >= 0:
            left -= 1
        start = at + 1 if not left else 0
        kept.append(
            Chunk(stream=chunk.stream, offset=chunk.offset + start, data=chunk.data[start:])
        )
        if not left:
            break
    return [chunk for chunk in reversed(kept) if chunk.data]


def _grepped(chunks: Iterator[Chunk], pattern: str) -> Iterator[Chunk]:
    """Only the lines that match; a line that two segments share is put together first."""
    if not pattern:
        yield from chunks
        return
    search = re.compile(pattern.encode()).search
    rest, last = b"", None
    for chunk in chunks:
        last = chunk
        *lines, rest = (rest + chunk.data).split(b"\n")
        found = b"".join(line + b"\n" for line in lines if search(line))
        if found:
            yield Chunk(stream=chunk.stream, offset=chunk.offset, data=found)
    if last is not None and rest and search(rest):
        yield Chunk(stream=last.stream, offset=last.offset, data=rest)
