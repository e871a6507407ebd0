"""
What the processes of a job printed, read from the bucket: whole, from the end, or as it comes.

Bytes come exactly as they were printed. A process is followed by reading the next name, which its
offset tells; new processes and attempts are found by listing. Nothing here needs the machine, the
agent or the bastion to live.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import pairwise

from bastion.client.wanted import Grep, Wanted, last_lines
from bastion.clock import Clock
from bastion.errors import NotFoundError, StoreError, StoreRefusedError
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
        """
        Every process that printed something, attempt by attempt.

        Raises:
            StoreError: Out of reach.
        """
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
        grep = Grep(wanted.grep)
        streams = self.streams()
        for stream in wanted.chosen(streams):
            for chunk in self._begin(stream, wanted):
                yield from _filtered(grep, chunk)
            yield from _rest(grep, stream)

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
            NotFoundError: A process's log has a gap: bytes that were never stored.
            StoreRefusedError: The store said no for good; while it is only out of reach, following
                goes on.
        """
        grep, positions = Grep(wanted.grep), dict[LogStream, int]()
        looks, is_first = 0, True
        while True:
            ended = has_ended()
            is_due = ended or looks % _LOOK_FOR_NEW == 0
            moved = False
            try:
                for chunk in self._look(wanted, positions, is_first=is_first, for_new=is_due):
                    moved = True
                    yield from _filtered(grep, chunk)
                if ended:
                    self._refuse_cut(positions)
                    break
                is_first = is_first and not positions
            except StoreRefusedError:
                raise
            except StoreError:
                pass  # positions stand where they stood: the next look goes on from there
            looks = looks + 1 if positions else 0
            if not moved:
                clock.sleep(poll_s)
        for stream in positions:
            yield from _rest(grep, stream)

    def _look(
        self, wanted: Wanted, positions: dict[LogStream, int], *, is_first: bool, for_new: bool
    ) -> Iterator[Chunk]:
        """One look at everything that is followed."""
        if for_new:
            for stream in wanted.chosen(self.streams(), since_attempt=_oldest(positions)):
                if stream not in positions:
                    yield from self._found(stream, wanted, positions, is_first=is_first)
        for stream in sorted(positions, key=_order):
            yield from self._next(stream, positions)

    def _found(
        self,
        stream: LogStream,
        wanted: Wanted,
        positions: dict[LogStream, int],
        *,
        is_first: bool,
    ) -> Iterator[Chunk]:
        """Begin to follow a process; tail and since are about what stood at the first look."""
        if is_first and (wanted.tail is not None or wanted.since is not None):
            end = self._end(stream)
            chunks = tuple(self._begin(stream, wanted, until=end))
            positions[stream] = end
            yield from chunks
        else:
            positions[stream] = 0

    def _next(self, stream: LogStream, positions: dict[LogStream, int]) -> Iterator[Chunk]:
        """What came after the position of `stream`, which moves on."""
        while data := self._bytes(segment_key(self._prefix(stream), positions[stream])):
            chunk = Chunk(stream=stream, offset=positions[stream], data=data)
            positions[stream] += len(data)
            yield chunk

    def _begin(
        self, stream: LogStream, wanted: Wanted, *, until: float = float("inf")
    ) -> Iterator[Chunk]:
        """What stands of `stream` before the offset `until`, from where `wanted` begins."""
        segments = [each for each in self._segments(stream) if (offset_of(each.key) or 0) < until]
        if wanted.since is not None:
            segments = [entry for entry in segments if entry.modified_at >= wanted.since]
        self._refuse_gaps(stream, segments)
        if wanted.tail is None:
            for entry in segments:
                yield self._chunk(stream, entry)
            return
        chunks: list[Chunk] = []
        lines = 0
        for entry in reversed(segments):
            if lines > wanted.tail:
                break
            chunks.insert(0, self._chunk(stream, entry))
            lines += chunks[0].data.count(b"\n")
        data = b"".join(chunk.data for chunk in chunks)
        kept = last_lines(data, wanted.tail)
        if kept:
            offset = chunks[0].offset + len(data) - len(kept)
            yield Chunk(stream=stream, offset=offset, data=kept)

    def _refuse_gaps(self, stream: LogStream, segments: list[Entry]) -> None:
        for before, after in pairwise(segments):
            end = (offset_of(before.key) or 0) + before.size
            if offset_of(after.key) != end:
                raise NotFoundError(
                    f"{self._prefix(stream)}: bytes {end} to {offset_of(after.key)} are missing"
                )

    def _refuse_cut(self, positions: dict[LogStream, int]) -> None:
        """Everything was followed up to a gap, or to the end: say so if it was a gap."""
        for stream in positions:
            self._refuse_gaps(stream, self._segments(stream))

    def _end(self, stream: LogStream) -> int:
        segments = self._segments(stream)
        return (offset_of(segments[-1].key) or 0) + segments[-1].size if segments else 0

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

    def _chunk(self, stream: LogStream, entry: Entry) -> Chunk:
        data = self._bytes(entry.key) or b""
        return Chunk(stream=stream, offset=offset_of(entry.key) or 0, data=data)

    def _bytes(self, key: str) -> bytes | None:
        try:
            found = self._store.read(key)
        except NotFoundError:
            return None
        return None if found is None else found.data


def _order(stream: LogStream) -> tuple[int, int, int, int]:
    return stream.attempt, stream.replica, stream.host, stream.process


def _oldest(positions: dict[LogStream, int]) -> int | None:
    return min((stream.attempt for stream in positions), default=None)


def _filtered(grep: Grep, chunk: Chunk) -> Iterator[Chunk]:
    data = grep.take(chunk.stream, chunk.data)
    if data:
        yield Chunk(stream=chunk.stream, offset=chunk.offset, data=data)


def _rest(grep: Grep, stream: LogStream) -> Iterator[Chunk]:
    data = grep.rest(stream)
    if data:
        yield Chunk(stream=stream, offset=0, data=data)
