"""
The output of a job's processes, read from the bucket: whole, from the end, or as it comes.

The bytes are exactly those that were printed. To follow a process, the reader reads the next name,
which it derives from the offset. It finds new processes and attempts by listing. No machine, agent
or bastion needs to be running.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator
from itertools import pairwise

from bastion.client.follow.log_filter import Grep, Wanted, last_lines
from bastion.client.patience import Outage
from bastion.clock import Clock
from bastion.errors import NotFoundError, StoreError, StoreRefusedError
from bastion.logs.segments import offset_of, segment_key
from bastion.records.keys import layout
from bastion.records.keys.layout import LogStream
from bastion.store.port import Entry, ObjectStore
from bastion.value import value

_PAGE = 1000
_LOOK_FOR_NEW = 10
"""Polls of known processes per listing that may find new ones."""


@value
class Chunk:
    """Bytes that one process of a job printed, in the order in which it printed them."""

    job: str
    stream: LogStream
    offset: int
    data: bytes

    @property
    def text(self) -> str:
        """The bytes as text; invalid UTF-8 is replaced."""
        return self.data.decode(errors="replace")


class JobLog:
    """
    The log of one job.

    Args:
        store: The bucket.
        project: The job's project.
        job: The job's id.
    """

    def __init__(self, store: ObjectStore, project: str, job: str) -> None:
        self._store = store
        self._project = project
        self.job = job

    def streams(self) -> tuple[LogStream, ...]:
        """
        Return every process that printed something, attempt by attempt.

        Raises:
            StoreError: The bucket is unreachable.
        """
        found: list[LogStream] = []
        prefix, after = layout.job_logs(self._project, self.job), ""
        while page := self._store.list(prefix, start_after=after, limit=1):
            stream = layout.parse_log(page[0].key)
            after = page[0].key
            if layout.job_of_log(after) is not None:  # past its process, or the samples of a host
                after = layout.after(f"{after.rpartition('/')[0]}/")
            if stream is not None:
                found.append(stream)
        return tuple(sorted(found, key=_order))

    def read(self, wanted: Wanted) -> Iterator[Chunk]:
        """
        Yield the log as it is stored now, process by process.

        Raises:
            NotFoundError: A process's log has a gap: bytes that were never stored.
            StoreError: The bucket is unreachable.
        """
        grep = Grep(wanted.grep)
        streams = self.streams()
        for stream in wanted.chosen(streams):
            for chunk in self.begin(stream, wanted):
                yield from _filtered(grep, chunk)
            yield from _rest(grep, self.job, stream)

    def followed(self, wanted: Wanted, *, outage: Outage) -> Follower:
        """Return the same log as it grows; `tail` and `since` choose where to start."""
        return Follower(self, wanted, outage=outage)

    def begin(
        self, stream: LogStream, wanted: Wanted, *, until: float = float("inf")
    ) -> Iterator[Chunk]:
        """Yield the stored part of `stream` before the offset `until`, from `wanted`'s start."""
        segments = [each for each in self.segments(stream) if (offset_of(each.key) or 0) < until]
        if wanted.tail is None and wanted.since is None:
            self.refuse_headless(stream, segments)
        if wanted.since is not None:
            segments = [entry for entry in segments if entry.modified_at >= wanted.since]
        self.refuse_gaps(stream, segments)
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
            yield Chunk(job=self.job, stream=stream, offset=offset, data=kept)

    def refuse_gaps(self, stream: LogStream, segments: list[Entry]) -> None:
        """
        Check that nothing is missing between `segments`.

        Raises:
            NotFoundError: Bytes were never stored.
        """
        for before, after in pairwise(segments):
            end = (offset_of(before.key) or 0) + before.size
            if offset_of(after.key) != end:
                raise NotFoundError(
                    f"{self.prefix(stream)}: bytes {end} to {offset_of(after.key)} are missing"
                )

    def refuse_gap_behind(self, stream: LogStream, end: int) -> None:
        """
        Check that the log behind the offset `end` starts there and has no gap.

        Raises:
            NotFoundError: Bytes are missing.
        """
        segments = self.segments(stream)
        self.refuse_gaps(stream, segments)
        behind = [offset for each in segments if (offset := offset_of(each.key) or 0) >= end]
        if behind and behind[0] != end:
            raise NotFoundError(f"{self.prefix(stream)}: bytes {end} to {behind[0]} are missing")

    def refuse_headless(self, stream: LogStream, segments: list[Entry]) -> None:
        """
        Check that `segments` start at the first byte.

        Raises:
            NotFoundError: The beginning was deleted, for example by a lifecycle rule of the bucket.
        """
        if segments and (first := offset_of(segments[0].key)):
            raise NotFoundError(
                f"{self.prefix(stream)}: bytes 0 to {first} are missing",
                hint="its last lines are there: --tail=1000 prints as many of them",
            )

    def end(self, stream: LogStream) -> int:
        """Return the offset behind the last stored byte."""
        segments = self.segments(stream)
        return (offset_of(segments[-1].key) or 0) + segments[-1].size if segments else 0

    def first(self, stream: LogStream) -> list[Entry]:
        """Return the first stored segment of `stream`."""
        return list(self._store.list(self.prefix(stream), limit=1))

    def segments(self, stream: LogStream) -> list[Entry]:
        """Return the stored segments of `stream`, in order."""
        found: list[Entry] = []
        prefix, after = self.prefix(stream), ""
        while page := self._store.list(prefix, start_after=after, limit=_PAGE):
            found.extend(page)
            after = page[-1].key
        return found

    def prefix(self, stream: LogStream) -> str:
        """Return the prefix of the segments of `stream`."""
        return layout.log(
            self._project,
            self.job,
            stream.attempt,
            replica=stream.replica,
            host=stream.host,
            process=stream.process,
        )

    def _chunk(self, stream: LogStream, entry: Entry) -> Chunk:
        begin = offset_of(entry.key) or 0
        data = self.stored(entry.key)
        if data is None:
            raise NotFoundError(
                f"{self.prefix(stream)}: bytes {begin} to {begin + entry.size} are missing",
                hint="they were deleted while they were read, as logs are by their age",
            )
        return Chunk(job=self.job, stream=stream, offset=begin, data=data)

    def stored(self, key: str) -> bytes | None:
        """Return the segment at `key`, or None while there is none."""
        try:
            found = self._store.read(key)
        except NotFoundError:
            return None
        return None if found is None else found.data


class Follower:
    """
    The log of one job as it grows, poll by poll.

    Args:
        log: The log.
        wanted: The part of it; `tail` and `since` apply to what is stored at the first poll.
        outage: Records whether the store answers.
    """

    def __init__(self, log: JobLog, wanted: Wanted, *, outage: Outage) -> None:
        self._log = log
        self._outage = outage
        self._wanted = wanted
        self._grep = Grep(wanted.grep)
        self._positions: dict[LogStream, int] = {}
        self._looks = 0
        self._is_first = True
        self.job = log.job
        self.is_done = False
        """Whether all of it was shown, and nothing more can come."""

    def look(self, *, ended: bool) -> Iterator[Chunk]:
        """
        Yield what came since the last poll.

        Failures and short refusals of the store only delay it: the next poll continues from there.

        Args:
            ended: Whether the job prints nothing more.

        Raises:
            NotFoundError: A process's log has a gap: bytes that were never stored.
            StoreRefusedError: The store has refused this log for a minute, and serves the rest.
        """
        is_due = ended or self._looks % _LOOK_FOR_NEW == 0
        try:
            if is_due:
                yield from self._new()
            for stream in sorted(self._positions, key=_order):
                yield from self._next(stream)
            if ended:
                for stream, end in self._positions.items():
                    self._log.refuse_gap_behind(stream, end)
            self._is_first = self._is_first and not self._positions
            self._outage.over(of=self.job)
        except StoreError as error:
            self._outage.met(error, of=self.job)
            ended = False
        self._looks = self._looks + 1 if self._positions else 0
        if ended:
            self.is_done = True
            for stream in self._positions:
                yield from _rest(self._grep, self.job, stream)

    def _new(self) -> Iterator[Chunk]:
        """Start to follow processes that are not followed yet."""
        oldest = min((stream.attempt for stream in self._positions), default=None)
        for stream in self._wanted.chosen(self._log.streams(), since_attempt=oldest):
            if stream not in self._positions:
                yield from self._found(stream)

    def _found(self, stream: LogStream) -> Iterator[Chunk]:
        wanted = self._wanted
        if not self._is_first or (wanted.tail is None and wanted.since is None):
            self._log.refuse_headless(stream, self._log.first(stream))
            self._positions[stream] = 0
            return
        end = self._log.end(stream)
        chunks = tuple(self._log.begin(stream, wanted, until=end))
        self._positions[stream] = end
        for chunk in chunks:
            yield from _filtered(self._grep, chunk)

    def _next(self, stream: LogStream) -> Iterator[Chunk]:
        """Yield what came after the position of `stream`, and advance it."""
        prefix = self._log.prefix(stream)
        while data := self._log.stored(segment_key(prefix, self._positions[stream])):
            offset = self._positions[stream]
            self._positions[stream] += len(data)
            chunk = Chunk(job=self.job, stream=stream, offset=offset, data=data)
            yield from _filtered(self._grep, chunk)


def follow(
    followers: Iterable[Follower],
    ended: Callable[[], Container[str]],
    clock: Clock,
    *,
    poll_s: float,
) -> Iterator[Chunk]:
    """
    Yield new output of several logs until all of each was shown.

    A log that is refused for a minute stops no other: its error is raised when the others end.

    Args:
        followers: One per job.
        ended: The ids of the jobs that print nothing more.
        clock: Used for waiting.
        poll_s: Seconds between two polls while there is no new output.

    Raises:
        NotFoundError: A process's log has a gap: bytes that were never stored.
        StoreRefusedError: The store refuses a log for a minute, and serves the rest of the bucket.
    """
    left = list(followers)
    refusal: StoreRefusedError | None = None
    while True:
        over, moved = ended(), False
        for each in left:
            try:
                for chunk in each.look(ended=each.job in over):
                    moved = True
                    yield chunk
            except StoreRefusedError as error:
                refusal = error
                each.is_done = True
        left = [each for each in left if not each.is_done]
        if not left:
            if refusal is not None:
                raise refusal
            return
        if not moved:
            clock.sleep(poll_s)


def _order(stream: LogStream) -> tuple[int, int, int, int]:
    return stream.attempt, stream.replica, stream.host, stream.process


def _filtered(grep: Grep, chunk: Chunk) -> Iterator[Chunk]:
    data = grep.take(chunk.stream, chunk.data)
    if data:
        yield Chunk(job=chunk.job, stream=chunk.stream, offset=chunk.offset, data=data)


def _rest(grep: Grep, job: str, stream: LogStream) -> Iterator[Chunk]:
    data = grep.rest(stream)
    if data:
        yield Chunk(job=job, stream=stream, offset=0, data=data)
