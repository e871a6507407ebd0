"""
Restore a copy of root: list the copies, show what a restore would change, and commit it.

It is for a root that was deleted, damaged or edited manually. It resets no number (see
`bastion.service.repair.restored_root`), keeps what it replaces, and refuses while a bastion leads.
"""

from __future__ import annotations

import json
import secrets
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from hashlib import sha256
from typing import TypeVar

from bastion.clock import Clock
from bastion.errors import (
    ConflictError,
    FencedError,
    ForeignRecordError,
    LeaseHeldError,
    NotFoundError,
    RecordError,
)
from bastion.history.coverage import stored_files
from bastion.job import Outcome, OutcomeKind
from bastion.lifecycle.dependencies import Ended
from bastion.machine import Batch, Start
from bastion.records.coding.codec import decode
from bastion.records.keys import layout
from bastion.records.register import create_same
from bastion.records.reports.registers import LifeRegister
from bastion.records.requests.answer import Answer
from bastion.records.requests.launch_request import SpecRecord
from bastion.records.requests.result import Result
from bastion.records.requests.targets import look_up
from bastion.records.root import Held, Root, RootWriter, decode_root
from bastion.service.config.settings import CLOUD
from bastion.service.repair.restored_root import (
    LaterObjects,
    LaterStart,
    RestoredRoot,
    restored_root,
)
from bastion.service.repair.unstarted_launches import never_begun
from bastion.service.run.election import PATIENCE
from bastion.spec import job_ids, tasks_of_id
from bastion.store import Entry, ObjectStore
from bastion.store.port import Object
from bastion.value import value

_T = TypeVar("_T")

SLACK_S = 60.0
"""
How long before the copy an object may have been written and still count as later. A commit's time
is the store's time carried forward, so an object written after it can have a slightly older time.
Reading an earlier object does no harm, because the copy knows it.
"""


def _nonce() -> str:
    return secrets.token_hex(8)


@value
class Copy:
    """One copy of root in the bucket."""

    key: str
    seq: int
    """The commit that it is a copy of."""
    written_at: float
    size_bytes: int


class Restore:
    """
    A root, a copy of it, and the changes that restoring the copy would make.

    Args:
        key: The copy; empty for the one of the latest commit that can be decoded.

    Raises:
        NotFoundError: There is no such copy, or none at all.
        RecordError: The copy cannot be decoded, or none of them can, or a newer version of Bastion
            wrote a record after it.
        StoreError: Out of reach.
    """

    def __init__(
        self, store: ObjectStore, clock: Clock, *, key: str = "", nonce: Callable[[], str] = _nonce
    ) -> None:
        self._store = store
        self._clock = clock
        self._writer = RootWriter(store, clock)
        self.copies = tuple(_copies(store))
        self.copy, root, self.damaged = _chosen(store, self.copies, key)
        self._found = _object(store, layout.ROOT)
        self._replaced = _held(self._found)
        later = _later_objects(store, root, self.copies)
        replaced = self._replaced.root if self._replaced is not None else None
        self.restored: RestoredRoot = restored_root(
            root, later, replaced=replaced, write_id=nonce()
        )

    @property
    def is_root_readable(self) -> bool:
        """Whether the root that would be replaced exists and can be decoded."""
        return self._replaced is not None

    @property
    def patience_s(self) -> float:
        """
        How long `commit` watches for a leader; 0 if there can be none.

        A root that cannot be decoded may belong to a newer version with a cloud's lease.
        """
        if self._found is None:
            return 0.0
        if self._replaced is None:
            return PATIENCE * CLOUD.ttl_s
        leader = self._replaced.root.leader
        return PATIENCE * leader.ttl_s if leader is not None else 0.0

    def commit(self) -> Root:
        """
        Commit the restored root, and keep the one that it replaces.

        Raises:
            LeaseHeldError: A bastion leads here.
            StoreError: Out of reach; nothing is lost, try again.
        """
        self._refuse_if_led()
        self._keep()
        root, found, over = self.restored.root, self._found, self._replaced
        if over is None and found is not None:
            over = Held(root=root, version=found.version, modified_at=found.modified_at)
        try:
            return self._writer.commit(root, over=over).root
        except (FencedError, RecordError) as error:
            raise LeaseHeldError(
                "root was changed meanwhile", hint="stop every bastion, and run restore again"
            ) from error

    def _refuse_if_led(self) -> None:
        """
        Raise if a bastion leads.

        Root then changes within the time after which a standby would take over.
        """
        if self._found is None or not self.patience_s:
            return
        self._clock.sleep(self.patience_s)
        found = _object(self._store, layout.ROOT)
        if found is None or found.version != self._found.version:
            leader = self._replaced.root.leader if self._replaced is not None else None
            owner = f"{leader.holder} on {leader.host} (process {leader.pid})" if leader else ""
            raise LeaseHeldError(
                owner or "its root cannot be decoded",
                hint="stop it first: restore does not replace the root of a leader",
            )

    def _keep(self) -> None:
        """Store the bytes of the replaced root: as another copy, or under `state/aside/`."""
        if self._found is None:
            return
        data = self._found.data
        if self._replaced is not None:
            root = self._replaced.root
            date = time.strftime("%Y-%m-%d", time.gmtime(root.now))
            key = layout.snapshot(date, root.seq)
        else:
            key = layout.aside(f"{layout.ROOT}-{sha256(data).hexdigest()[:12]}")
        try:
            create_same(self._store, key, data)
        except ConflictError:
            return  # The hourly copy of this same commit exists, compressed differently.


def _held(found: Object | None) -> Held | None:
    """Decode the root that was read; return None if there is none or it cannot be decoded."""
    if found is None:
        return None
    try:
        root = decode_root(found.data)
    except RecordError:
        return None
    return Held(root=root, version=found.version, modified_at=found.modified_at)


def _copies(store: ObjectStore) -> Iterator[Copy]:
    """
    Yield every copy of root, that of the latest commit first.

    Their times mean nothing in a bucket whose objects were copied from another place.
    """
    entries = _all(store, layout.SNAPSHOTS)
    named = [(name, entry) for entry in entries if (name := layout.parse_snapshot(entry.key))]
    for (_, seq), entry in sorted(named, key=lambda each: (each[0][1], each[1].key), reverse=True):
        yield Copy(key=entry.key, seq=seq, written_at=entry.modified_at, size_bytes=entry.size)


def _chosen(
    store: ObjectStore, copies: tuple[Copy, ...], key: str
) -> tuple[Copy, Root, dict[str, str]]:
    """
    Return the copy at `key`, or the newest that can be decoded, and its root.

    With them come the newer copies that were skipped: by key, what is wrong with each.
    """
    if not copies:
        raise NotFoundError(
            f"there is no copy of root under {layout.SNAPSHOTS}",
            hint="a bastion makes one when it takes the lead, and one per hour; if all are lost,"
            " delete the machines and start over: bastion help recover-a-bucket",
        )
    wanted = [copy for copy in copies if not key or copy.key == key]
    if not wanted:
        raise NotFoundError(f"there is no copy at {key!r}", hint=f"the newest is {copies[0].key}")
    damaged: dict[str, str] = {}
    for copy in wanted:
        try:
            return copy, _root_of(store, copy.key), damaged
        except RecordError as error:
            if key:
                raise
            if error.hint:  # A newer version wrote it.
                raise _with_way_back(store, wanted, error) from error
            damaged[copy.key] = error.message.removeprefix(f"{copy.key}: ")
    listed = "; ".join(f"{name}: {why}" for name, why in damaged.items())
    raise RecordError(f"no copy of root can be decoded: {listed}")


def _with_way_back(store: ObjectStore, copies: Sequence[Copy], error: RecordError) -> RecordError:
    """Return `error` of a copy from a newer version, with the newest copy this one can read."""
    for copy in copies:
        with suppress(RecordError):
            _root_of(store, copy.key)
            back = f"to go back to this version: bastion restore --snapshot={copy.key}"
            return RecordError(error.message, hint=f"{error.hint}; {back}")
    return error


def _root_of(store: ObjectStore, key: str) -> Root:
    data = _bytes(store, key)
    if data is None:
        raise RecordError(f"{key}: was deleted a moment ago")
    return decode_root(data, key=key)


def _later_objects(store: ObjectStore, copy: Root, copies: tuple[Copy, ...]) -> LaterObjects:
    instructions = _all(store, layout.INSTRUCTIONS)
    batches: dict[tuple[str, int], int] = {}
    for entry in instructions:
        if (batch := layout.parse_instructions(entry.key)) is not None:
            batches[batch[:2]] = max(batch[2], batches.get(batch[:2], 0))
    names = (layout.parse_result(entry.key) for entry in _all(store, layout.RESULTS))
    results = frozenset(name for name in names if name is not None)
    answers = dict(_fresh(store, layout.ANSWERS, Answer, copy.now))
    specs = tuple(_specs(store, answers.values(), results, copy.now))
    starts = tuple(_starts(store, instructions, copy, results))
    cancelled = frozenset(
        job
        for answer in answers.values()
        if answer.accepted and answer.verb == "cancel"
        for job in answer.jobs
    )
    begun = {each.start.job for each in starts} | {job for _, job in results}
    begun |= _registered(store)
    return LaterObjects(
        seq=max([*(each.seq for each in copies), *_named_in_views(store, "seq")]),
        epoch=max([_epoch_of_newest(store, copies), *_named_in_views(store, "epoch")]),
        next_event=_next_event(store),
        results=results,
        lives=_later_lives(store, copy),
        batches=batches,
        starts=starts,
        cancelled=cancelled,
        submitted=frozenset(_submitted(specs, answers, results)),
        accepted=never_begun(store, specs, answers, begun=begun, cancelled=cancelled),
        ended=tuple(_ended(store, copy, results)),
        outcomes=dict(_outcomes(store, copy, results)),
    )


def _later_lives(store: ObjectStore, copy: Root) -> dict[str, int]:
    """
    Return the newest keeper life of each machine that has begun one since `copy`.

    A register that cannot be read is no life: instructions to it would reach nobody.
    """
    lives = {name: machine.life for name, machine in copy.machines.items()}
    for entry in _all(store, layout.MACHINES):
        found = layout.parse_life(entry.key)
        if found is None or found[1] <= lives.get(found[0], found[1]):
            continue
        if _is_readable(store, entry.key):
            lives[found[0]] = found[1]
    return lives


def _is_readable(store: ObjectStore, key: str) -> bool:
    try:
        decode(LifeRegister, _bytes(store, key) or b"", key=key)
    except ForeignRecordError:
        raise
    except RecordError:
        return False
    return True


def _ended(store: ObjectStore, copy: Root, results: frozenset[tuple[str, str]]) -> Iterator[Ended]:
    """Yield how jobs of `copy` ended, if any job of it waits for others."""
    every = [*copy.jobs.values(), *(array.each for array in copy.arrays.values())]
    if not any(job.after for job in every):
        return
    for job in every:
        if (job.project, job.id) in results:
            for found in look_up(store, job.project, [job.id]).values():
                yield from found


def _outcomes(
    store: ObjectStore, copy: Root, results: frozenset[tuple[str, str]]
) -> Iterator[tuple[str, Outcome]]:
    """Yield (task, outcome) of every task that has a final record and has not ended in `copy`."""
    for project, job in sorted(results):
        named = tasks_of_id(job)
        array = copy.arrays.get(named[0]) if named is not None else None
        if named is None or array is None or array.project != project:
            continue
        if not named[1] & array.all_ended:
            yield job, _outcome(store, layout.result(project, job))


def _outcome(store: ObjectStore, key: str) -> Outcome:
    """Return the outcome in the final record of a task at `key`, which may be damaged."""
    try:
        found = decode(Result, _bytes(store, key) or b"", key=key)
        return Outcome(kind=OutcomeKind(found.outcome), text=found.text, code=found.code)
    except ForeignRecordError:
        raise
    except (RecordError, ValueError):
        return Outcome(kind=OutcomeKind.FAILED, text="its final record cannot be read")


def _epoch_of_newest(store: ObjectStore, copies: Sequence[Copy]) -> int:
    """Return the epoch of the newest copy that can be decoded; every leader begins with a copy."""
    for copy in copies:
        with suppress(RecordError):
            return _root_of(store, copy.key).epoch
    return 0


def _named_in_views(store: ObjectStore, number: str) -> Iterator[int]:
    for entry in _all(store, layout.VIEWS):
        try:
            yield int(json.loads(_bytes(store, entry.key) or b"")[number])
        except (ValueError, KeyError, TypeError):
            continue


def _next_event(store: ObjectStore) -> int:
    keys = [entry.key for entry in _all(store, layout.EVENTS)]
    last = max(keys, key=lambda key: layout.parse_events(key) or 0, default="")
    first = layout.parse_events(last)
    recorded = max((file.name.after for file in stored_files(store)), default=0)
    if first is None:
        return recorded
    return max(recorded, first + len((_bytes(store, last) or b"").splitlines()))


def _starts(
    store: ObjectStore,
    instructions: tuple[Entry, ...],
    copy: Root,
    results: frozenset[tuple[str, str]],
) -> Iterator[LaterStart]:
    """Yield the start instructions since `copy` for jobs without a final record."""
    for entry in instructions:
        name = layout.parse_instructions(entry.key)
        if name is None or entry.modified_at < copy.now - SLACK_S:
            continue
        try:
            batch = decode(Batch, _bytes(store, entry.key) or b"", key=entry.key)
        except ForeignRecordError:
            raise
        except RecordError:
            continue  # The agent cannot decode it either.
        for start in batch.instructions:
            if isinstance(start, Start) and (start.project, start.job) not in results:
                end = layout.end(
                    start.project, start.job, start.attempt, start.nonce,
                    replica=start.replica, host=start.host, machine=name[0],
                )  # fmt: skip
                is_over = _bytes(store, end) is not None
                yield LaterStart(machine=name[0], life=name[1], start=start, is_over=is_over)


def _registered(store: ObjectStore) -> set[str]:
    """Return every job and task that a register names."""
    entries = (*_all(store, layout.RUNS), *_all(store, layout.BARRIERS))
    names = (layout.parse_register(entry.key) for entry in entries)
    return {name.job for name in names if name is not None}


def _submitted(
    specs: Iterable[SpecRecord],
    answers: dict[str, Answer],
    results: frozenset[tuple[str, str]],
) -> Iterator[str]:
    """Yield jobs of specs written since the copy that were not refused and have not ended."""
    for spec in specs:
        answer = answers.get(layout.answer(spec.project, spec.user, spec.ulid))
        if answer is not None and not answer.accepted:
            continue
        for job in job_ids(spec.launch, spec.ulid):
            if (spec.project, job) not in results:
                yield job


def _specs(
    store: ObjectStore,
    answers: Iterable[Answer],
    results: frozenset[tuple[str, str]],
    since: float,
) -> Iterator[SpecRecord]:
    """
    Yield the specs that were written at `since` or later.

    Those that only a newer version can decode are left out once all of their jobs have ended.

    Raises:
        ForeignRecordError: A job of a spec that cannot be decoded may still run.
    """
    jobs = {answer.launch: answer.jobs for answer in answers if answer.accepted and answer.launch}
    for key, data in _since(store, layout.SPECS, since):
        try:
            yield decode(SpecRecord, data, key=key)
        except ForeignRecordError as error:
            project, launch = layout.parse_spec(key) or ("", "")
            if launch in jobs and results.issuperset((project, job) for job in jobs[launch]):
                continue
            hint = f"first, under the newer version, let {launch} end, or bastion cancel {launch}"
            raise ForeignRecordError(error.message, hint=hint) from error
        except RecordError:
            continue


def _fresh(
    store: ObjectStore, prefix: str, kind: type[_T], since: float
) -> Iterator[tuple[str, _T]]:
    """Yield (key, record) of the objects below `prefix` that were written at `since` or later."""
    for key, data in _since(store, prefix, since):
        try:
            yield key, decode(kind, data, key=key)
        except ForeignRecordError:
            raise
        except RecordError:
            continue


def _since(store: ObjectStore, prefix: str, since: float) -> Iterator[tuple[str, bytes]]:
    """Yield (key, bytes) of the objects below `prefix` that were written at `since` or later."""
    for entry in _all(store, prefix):
        data = _bytes(store, entry.key) if entry.modified_at >= since - SLACK_S else None
        if data is not None:
            yield entry.key, data


def _all(store: ObjectStore, prefix: str) -> tuple[Entry, ...]:
    found: list[Entry] = []
    while page := store.list(prefix, start_after=found[-1].key if found else ""):
        found += page
    return tuple(found)


def _object(store: ObjectStore, key: str) -> Object | None:
    """Return the object at `key`, or None if there is none."""
    try:
        return store.read(key)
    except NotFoundError:
        return None


def _bytes(store: ObjectStore, key: str) -> bytes | None:
    """Return the bytes of the object at `key`, or None if there is none."""
    found = _object(store, key)
    return None if found is None else found.data
