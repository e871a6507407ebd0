"""
root.json: the state, and the one compare-and-swap loop.

Every commit carries a fresh `write_id`, the previous `write_id`, the leader's epoch and `seq + 1`.
After a failed write the loop reads root back. If it finds its own `write_id`, the write was stored.
If it finds the previous commit, it sends the identical bytes again. If it finds the commit of
another bastion, this one is fenced.
"""

from __future__ import annotations

import gzip
import json
import time
import zlib
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import field
from typing import Literal

from bastion.array import ArrayRecord
from bastion.clock import Clock
from bastion.errors import (
    BastionError,
    ConflictError,
    FencedError,
    NotFoundError,
    OutdatedError,
    RecordError,
    StoreError,
    StoreRefusedError,
)
from bastion.job import JobRecord
from bastion.machine import Machine, Warm
from bastion.records.coding import migrate
from bastion.records.coding.codec import decode, plain
from bastion.records.encoded_records import EncodedList, EncodedMap
from bastion.records.keys import layout
from bastion.records.register import create_same
from bastion.records.reports.history import HistoryRecord
from bastion.records.requests.answer import Answer
from bastion.records.settings.notification import Notification
from bastion.scheduler.promise import PlannedStart, Promise
from bastion.scheduler.runs import Runs
from bastion.store import ObjectStore, Version
from bastion.value import replace, value
from quota.budget import Spending

MAX_ACTIVE_JOBS = 30_000
"""Maximum number of jobs in root. Root is one object, and more would slow down every commit."""
BACKOFF_S = 1.1
"""Google Cloud Storage allows one write per second to one object; concurrent writers get 429."""
MAX_PAUSE_S = 10.0
"""Longest pause for a store that asks for one: a third of a cloud's lease."""
AHEAD_RATE = 0.9
"""How fast a time that is ahead of the store's moves on."""
SLICE_S = 0.2
"""Longest sleep between two checks of the deadline."""
_GZIP = b"\x1f\x8b"
_WAY_BACK = "bastion restore brings a copy back"


@value
class Leader:
    """The bastion that leads, and the start of its term."""

    holder: str
    """The bastion's name; a bastion with the same name on the same host leads soon after a boot."""
    host: str
    boot: str
    """The boot id of the host's kernel, and the namespace of `pid`."""
    pid: int
    pid_started: float
    """Its start, in ticks since the boot; with `pid` and `boot` it identifies the process."""
    since: float
    """Store's seconds. The commit that took the lead has the time of the previous commit."""
    ttl_s: float


@value
class Event:
    """One line of the history of a job or of the bastion."""

    n: int
    at: float
    job: str = ""
    project: str = ""
    what: str
    text: str = ""
    record: HistoryRecord | None = None
    """The job or attempt that it ended, in full: a row of the history."""
    cycles: tuple[float, ...] = ()
    """When the scheduler decided since the previous event, in turns without events."""


@value
class Segment:
    """A sealed range of events, `[first, after)`; it leaves root after it is written."""

    first: int
    events: tuple[Event, ...]


@value
class Root:
    """The whole state as of one commit, with active jobs and machines only."""

    schema: Literal[4] = 4
    bucket: str = ""
    """The bucket's own name; empty only in an uncommitted root of an older schema."""
    address: str = ""
    """Where it was last led: the bucket to which its machines report. Empty: not known yet."""
    build: str = ""
    """The build of Bastion that leads, or led last: another build may not be able to read it."""
    epoch: int
    seq: int
    now: float
    """Store's seconds; never goes back."""
    write_id: str
    prev_write_id: str = ""
    leader: Leader | None = None
    """None after a graceful stop."""
    quota_text: str = ""
    """The last valid quota file: an invalid one never replaces it, under any leader."""
    config_text: str = ""
    """The last valid `config/bastion.toml`, for the same reason."""
    jobs: Mapping[str, JobRecord] = field(default_factory=dict)
    """Active jobs. Tasks of arrays are here from admission until their final record is written."""
    gangs: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """
    Only in the bytes: the jobs of each gang, by the first of them. There, its jobs name only that
    first one, because each of a thousand jobs would name a thousand.
    """
    arrays: Mapping[str, ArrayRecord] = field(default_factory=dict)
    machines: Mapping[str, Machine] = field(default_factory=dict)
    warm: Mapping[str, Warm] = field(default_factory=dict)
    """By pool: how many of its machines an admin keeps ready."""
    promises: tuple[Promise, ...] = ()
    planned: tuple[PlannedStart, ...] = ()
    answers: Mapping[str, Answer] = field(default_factory=dict)
    """By `<project>/<user>/<ulid>`; an answer leaves root once it is written."""
    outbox: tuple[Notification, ...] = ()
    """Notifications that their webhooks have not accepted yet, oldest first."""
    events: tuple[Event, ...] = ()
    """Events that are not sealed yet."""
    sealed: tuple[Segment, ...] = ()
    next_event: int = 0
    decayed: Mapping[str, float] = field(default_factory=dict)
    decayed_by_user: Mapping[str, float] = field(default_factory=dict)
    """By `<project>/<user>`."""
    decayed_at: float = 0.0
    spent: Mapping[str, Spending] = field(default_factory=dict)
    """By project or group with a budget: what it has used of the budget."""
    runs: Mapping[str, Runs] = field(default_factory=dict)
    """How long the latest runs took, by kind of job."""

    @property
    def first_unwritten(self) -> int:
        """The number of the first event that the log may lack; it has all earlier ones."""
        if self.sealed:
            return self.sealed[0].first
        return self.events[0].n if self.events else self.next_event


@value
class Held:
    """A root, and the version of the object that it was read from or written as."""

    root: Root
    version: Version
    modified_at: float
    data: bytes = field(default=b"", repr=False, compare=False)
    """What was read; empty if it was committed here."""

    def time_after(self, passed_s: float) -> float:
        """
        Return the store's time `passed_s` after this commit; never before root's.

        If root's time is ahead, because the store's clock was set back, time moves a little slower
        until that clock has caught up: if it stood still, no limit would end for that long.
        """
        return max(self.modified_at + passed_s, self.root.now + AHEAD_RATE * passed_s)


class RootWriter:
    """
    Reads and commits root.

    The bytes of unchanged jobs and machines are kept, so a commit encodes only what changed; it
    still writes all of root. For stores that bill by the byte, the object is gzipped.

    Args:
        is_over: Whether the deadline has passed: a commit in doubt is then given up. None: no
            deadline.
        when_in_doubt: Called with each failure of a commit that takes longer than `BACKOFF_S`: the
            store may fail for hours, and `commit` returns only when it answers.
    """

    def __init__(
        self,
        store: ObjectStore,
        clock: Clock,
        *,
        compress: bool = False,
        is_over: Callable[[], bool] | None = None,
        when_in_doubt: Callable[[BastionError], None] = lambda _: None,
    ) -> None:
        self._store = store
        self._clock = clock
        self._compress = compress
        self._is_over = is_over
        self._when_in_doubt = when_in_doubt
        self._began_at = 0.0
        """When the commit under way began, on our own clock."""
        self._machines, self._arrays = EncodedMap(), EncodedMap()
        self._runs, self._jobs = EncodedMap(), EncodedMap(as_kept)
        self._events, self._sealed = EncodedList(), EncodedList()
        self._gangs: tuple[Mapping[str, JobRecord], Mapping[str, tuple[str, ...]]] = {}, {}
        """Jobs, and the gangs among them."""

    def read(self, *, unless: Version | None = None) -> Held | None:
        """
        Read root; None if its version is still `unless`.

        Raises:
            NotFoundError: This bucket has no root yet.
            RecordError: It cannot be decoded.
            StoreError: The bucket is out of reach.
        """
        found = self._store.read(layout.ROOT, unless=unless)
        if found is None:
            return None
        try:
            root = decode_root(found.data)
        except RecordError as error:
            raise _with_build(error, found.data) from error
        return Held(
            root=root, version=found.version, modified_at=found.modified_at, data=found.data
        )

    def keep_as_read(self, held: Held) -> None:
        """
        Keep a copy of root as it was read, so that the build that wrote it can restore it.

        Raises:
            StoreError: The bucket is unreachable, or the write is in doubt.
        """
        date = time.strftime("%Y-%m-%d", time.gmtime(held.root.now))
        with suppress(ConflictError):  # The hourly copy of this very commit.
            create_same(self._store, layout.snapshot(date, held.root.seq), held.data)

    def a_trace(self) -> str:
        """
        Return the key of any object that only a bastion writes; empty if no bastion ever led here.

        Raises:
            StoreError: The bucket is out of reach.
        """
        for prefix in layout.TRACES:
            for entry in self._store.list(prefix, limit=1):
                return entry.key
        return ""

    def commit(self, root: Root, *, over: Held | None) -> Held:
        """
        Replace `over` (None: there is no root yet) with `root`.

        Return only once it is known to be stored.

        Raises:
            FencedError: Another bastion committed: stop immediately.
            RecordError: Root was deleted, or is no longer a valid root.
            StoreRefusedError: The store refuses the write, and it was not stored.
            StoreError: The deadline passed and the commit is in doubt: commit nothing else.
        """
        data = self.encoded(root)
        version = over.version if over is not None else None
        self._began_at = self._clock.monotonic()
        while True:
            try:
                if version is None:
                    written = self._store.create(layout.ROOT, data)
                else:
                    written = self._store.swap(layout.ROOT, data, if_version=version)
            except (ConflictError, StoreError) as failure:
                standing = self._read_back(root, over)
                if isinstance(standing, Held):
                    return standing
                if isinstance(failure, StoreRefusedError):
                    raise
                self._pause(failure)
                version = standing
            else:
                return Held(root=root, version=written.version, modified_at=written.modified_at)

    def _read_back(self, root: Root, over: Held | None) -> Held | Version | None:
        """
        Return our own commit if it was stored, else the version that the next try must replace.

        The store may have returned a different version for the previous commit. That commit is
        known by its `write_id`, so it can still be replaced. Raise if another bastion's commit is
        there.
        """
        while True:
            try:
                found = self._store.read(layout.ROOT)
            except NotFoundError as error:
                if over is None:
                    return None
                raise lost_root() from error
            except StoreError as failure:
                self._pause(failure)
                continue
            assert found is not None
            if over is not None and found.version == over.version:
                return found.version
            standing = _head(found.data)
            if standing["write_id"] == root.write_id:
                return Held(root=root, version=found.version, modified_at=found.modified_at)
            if over is not None and standing["write_id"] == over.root.write_id:
                return found.version
            raise FencedError(ours=root.epoch, theirs=int(standing["epoch"]))

    def _pause(self, failure: BastionError) -> None:
        """Wait as long as the store asks; raise if the deadline has passed."""
        if self._clock.monotonic() - self._began_at >= BACKOFF_S:
            self._when_in_doubt(failure)
        pause_s = min(max(BACKOFF_S, getattr(failure, "retry_after_s", 0.0)), MAX_PAUSE_S)
        if self._is_over is None:
            self._clock.sleep(pause_s)
            return
        until = self._clock.monotonic() + pause_s
        while not self._is_over():
            left = until - self._clock.monotonic()
            if left <= 0:
                return
            self._clock.sleep(min(left, SLICE_S))
        raise StoreError(f"in doubt whether the last commit landed: {failure}") from failure

    def overtaken(self, held: Held, *, by: str) -> FencedError | OutdatedError:
        """
        Return the error for a machine `by` that a commit later than `held` must have named.

        Either another bastion made that commit, or root is older than the machines.

        Raises:
            RecordError: Root was deleted, or is no longer a valid root.
            StoreError: The bucket is out of reach.
        """
        try:
            found = self._store.read(layout.ROOT, unless=held.version)
        except NotFoundError as error:
            raise lost_root() from error
        if found is None:
            return OutdatedError(
                f"{layout.ROOT}, of commit {held.root.seq}, is older than machine {by}",
                hint="restore copies only with bastion restore; a new bucket waits until the"
                " machines of the previous one are deleted",
            )
        return FencedError(ours=held.root.epoch, theirs=int(_head(found.data)["epoch"]))

    def encoded(self, root: Root) -> bytes:
        """Return `root` encoded; only for the thread that commits."""
        if root.jobs is not self._gangs[0]:
            gangs = {job.gang[0]: job.gang for job in root.jobs.values() if job.gang}
            self._gangs = root.jobs, gangs
        fields = plain(replace(_without_many(root), gangs=self._gangs[1]))
        head = json.dumps(fields, separators=(",", ":"), ensure_ascii=False)
        parts = [head[:-1].encode()]
        if root.events:
            parts += [b',"events":', self._events.of(root.events)]
        if root.sealed:
            parts += [b',"sealed":', self._sealed.of(root.sealed)]
        parts += [b',"machines":', self._machines.of(root.machines)]
        if root.arrays:
            parts += [b',"arrays":', self._arrays.of(root.arrays)]
        if root.runs:
            parts += [b',"runs":', self._runs.of(root.runs)]
        parts += [b',"jobs":', self._jobs.of(root.jobs), b"}\n"]
        data = b"".join(parts)
        return gzip.compress(data, 1, mtime=0) if self._compress else data


def lost_root(trace: str = "") -> RecordError:
    """Return the error for a root that existed, as `trace` proves: it is never created again."""
    seen = f" ({trace} shows that there was one)" if trace else ""
    return RecordError(
        f"{layout.ROOT} is gone: it was deleted{seen}",
        hint=f"{_WAY_BACK}; to start over, use an empty folder",
    )


def decode_root(
    data: bytes, *, key: str = layout.ROOT, schema: migrate.Schema = migrate.ROOT
) -> Root:
    """
    Decode a root from `data`, read at `key`: gzipped or not, of the current schema or an older one.

    Raises:
        RecordError: It is malformed, or of a schema that this Bastion does not know.
    """
    try:
        plain_data = _plain_bytes(data)
    except (OSError, EOFError) as error:
        raise RecordError(f"{key}: cannot be unpacked: {error}") from error
    root = decode(Root, schema.current_bytes(plain_data, key=key), key=key)
    if not any(len(job.gang) == 1 for job in root.jobs.values()):
        return root
    jobs = {name: _with_gang(job, root.gangs, key=key) for name, job in root.jobs.items()}
    return replace(root, jobs=jobs, gangs={})


def as_kept(job: JobRecord) -> JobRecord:
    """Return `job` as it is in the bytes of root: of its gang it names only the first job."""
    return replace(job, gang=job.gang[:1]) if job.gang else job


def _with_gang(job: JobRecord, gangs: Mapping[str, tuple[str, ...]], *, key: str) -> JobRecord:
    if len(job.gang) != 1:
        return job
    gang = gangs.get(job.gang[0])
    if gang is None:
        raise RecordError(f"{key}: jobs.{job.id}.gang: {job.gang[0]} is not among the gangs")
    return replace(job, gang=gang)


def quota_text_in(data: bytes) -> str:
    """
    Return the quota file in force from the bytes of a root; empty if there is none.

    The thousands of jobs are not parsed: within a text, a quotation mark is escaped.
    """
    text, key, at = _plain_bytes(data).decode(errors="replace"), '"quota_text":', 0
    while (at := text.find(key, at)) >= 0 and text[at - 1 : at] == "\\":
        at += len(key)
    if at < 0:
        return ""
    begins = at + len(key)
    begins += len(text[begins : begins + 1]) - len(text[begins : begins + 1].lstrip())
    found: str = json.JSONDecoder().raw_decode(text, begins)[0]
    return found


def _plain_bytes(data: bytes) -> bytes:
    if not data.startswith(_GZIP):
        return data
    try:
        return gzip.decompress(data)
    except zlib.error as error:  # the one error about damaged bytes that is no `OSError`
        raise gzip.BadGzipFile(f"{error}") from error


def _head(data: bytes) -> dict[str, str]:
    try:
        head: dict[str, str] = json.loads(_plain_bytes(data))
        return {"write_id": head["write_id"], "epoch": head["epoch"]}
    except (ValueError, KeyError, TypeError, OSError, EOFError) as error:
        why = f"{error} is missing" if isinstance(error, KeyError) else f"{error}"
        raise RecordError(f"{layout.ROOT}: not a root: {why}", hint=_WAY_BACK) from error


def _with_build(error: RecordError, data: bytes) -> RecordError:
    """Return `error` of the root in `data` with the build that led last, and what to do."""
    build = ""
    with suppress(ValueError, TypeError, AttributeError, OSError, EOFError):
        build = str(json.loads(_plain_bytes(data)).get("build", ""))[:12]
    if not build:
        return type(error)(error.message, hint=error.hint or _WAY_BACK)
    hint = f"if that is a newer build, run it or a later one here; otherwise {_WAY_BACK}"
    if error.hint:
        hint = f"{error.hint}; to go back to this version: bastion restore"
    return type(error)(f"{error.message}; build {build} led last", hint=hint)


def _without_many(root: Root) -> Root:
    return replace(root, jobs={}, arrays={}, machines={}, runs={}, events=(), sealed=())
