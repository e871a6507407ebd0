"""
Garbage collection of the bucket: deletes old objects, a few at a time.

It deletes the following objects by age (a difference of the store's own times):

* the registers of an attempt, 30 days after the final record of their job was written, if the job
  is not in root;
* a batch of instructions, 30 days after it was written and 30 days after the final record of every
  job that it names. In a keeper life that has not ended, only the oldest batch is deleted, and only
  if there is a newer one. So an agent that reads its instructions again finds no gap, and no number
  is allocated twice;
* the outcome of a check of a machine, and a long command, after 30 days;
* an older life of a machine, after 30 days. The newest is kept permanently, so that no number is
  allocated twice;
* an answer, after 30 days, once its request has left the inbox;
* objects below `state/aside/`, after 30 days;
* copies of root: all of them are kept for 2 days, the first of each day for 30;
* the use of a machine, a day after it was last replaced, if the machine is not in root;
* objects of probes, after a day;
* logs and samples of a job, and then its final record, at the ages that the admins configured,
  counted from when the final record was written, or from the end in it if that is later. Without
  such an age they stay permanently.

Nothing that can still fence is deleted: agents refuse instructions older than 7 days, requests
whose name is more than 7 days from the store's time are refused, and a final record is kept for at
least 60 days. Final records come last in a round: what depends on them has been deleted by then,
and anything that the round missed is deleted by its own age. Specs, events, the record, outputs of
jobs and bundles are never deleted here.

One step is one list and at most `DELETES` deletions. Steps are a minute apart, and an hour apart
after a full round. A new leader waits ten minutes before its first step. Two bastions that collect
at the same time delete the same objects.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence

from bastion.errors import (
    BastionError,
    NotFoundError,
    OversizeError,
    RecordError,
    StoreRefusedError,
)
from bastion.machine import Batch, Check, Leave, Upgrade
from bastion.records.coding.codec import decode
from bastion.records.coding.limits import BATCH_BYTES, RECORD_BYTES
from bastion.records.keys import layout
from bastion.records.requests.result import Result
from bastion.records.root import Root
from bastion.records.settings.keep import Keep
from bastion.service.act.actions import DraftUpdate, Work
from bastion.spec.arrays.task import tasks_of_id
from bastion.store import Entry, ObjectStore
from bastion.value import value

DAY_S = 86400.0
FOR_EVER = Keep()
_OF_NO_JOB = (Check, Upgrade, Leave)
KEEP_S = 30 * DAY_S
"""Four times the 7 days after which late instructions and late requests are refused."""
HOURLY_S = 2 * DAY_S
"""How long every copy of root is kept."""
PAGE = 1000
"""Objects that one step lists: the largest page of a store."""
DELETES = 200
"""Maximum objects that one step deletes: a few seconds of one thread's time."""
REFUSALS = 10
"""Maximum failed deletions in one step: each costs money."""
STEP_S = 60.0
"""Between two steps: 1.5 million objects per day, for 20 cents a month on a cloud store."""
PAUSE_S = 3600.0
"""Pause after the last step of a round."""
FIRST_S = 600.0
"""Pause before the first step of a new leader."""

ROUND = (
    layout.RUNS,
    layout.BARRIERS,
    layout.MACHINES,
    layout.INSTRUCTIONS,
    layout.ANSWERS,
    layout.ASIDE,
    layout.SNAPSHOTS,
    layout.PROBES,
    layout.USAGE,
    layout.LOGS,
    layout.RESULTS,
)
"""The prefixes of a round, in order. Below other prefixes nothing is ever deleted."""


@value
class Position:
    """The progress of a round: the index of its prefix, and the last key that was checked."""

    prefix: int = 0
    after: str = ""


class GarbageCollector:
    """Collects the garbage of a bucket in rounds, a step at a time."""

    def __init__(self, store: ObjectStore) -> None:
        self._store = store
        self._position = Position()
        self._next_at: float | None = None

    def work(self, root: Root, keep: Keep) -> Work | None:
        """
        Return the work of the next step, as of the committed `root`; None if it is not due.

        `keep` says how long logs and final records stay.
        """
        if self._next_at is None:
            self._next_at = root.now + FIRST_S
        if root.now < self._next_at:
            return None
        self._next_at = root.now + STEP_S
        position = self._position

        def work() -> DraftUpdate:
            refused: dict[str, str] = {}
            next_position = collect(self._store, root, position, keep=keep, refused=refused)
            return lambda _: self._move(next_position, root.now, refused)

        return work

    def _move(self, position: Position, now: float, refused: Mapping[str, str]) -> None:
        """
        Continue at `position`.

        Raises:
            BastionError: The store refused to delete some objects, which stay.
        """
        if position == Position():
            self._next_at = now + PAUSE_S
        self._position = position
        if refused:
            key, why = next(iter(refused.items()))
            more = f", and {len(refused) - 1} more like it" if len(refused) > 1 else ""
            raise BastionError(f"{key} is not deleted{more}: {why}")


def collect(
    store: ObjectStore,
    root: Root,
    position: Position,
    *,
    keep: Keep = FOR_EVER,
    page: int = PAGE,
    deletes: int = DELETES,
    refused: dict[str, str] | None = None,
) -> Position:
    """
    Delete the garbage on one page of the bucket: one step of a round.

    It lists at most `page` objects and deletes at most `deletes` of them. An object that cannot be
    deleted, such as one under a hold, or whose record cannot be read, is skipped and added to
    `refused` with the reason; a step ends at the `REFUSALS`th.

    Returns:
        The position of the next step; `Position()` after the last step of a round.

    Raises:
        StoreError: Out of reach; the same step can be repeated.
    """
    prefix = ROUND[position.prefix]
    if (keep.logs_s is None and prefix == layout.LOGS) or (
        keep.results_s is None and prefix == layout.RESULTS
    ):
        return Position(prefix=(position.prefix + 1) % len(ROUND))
    entries = store.list(prefix, start_after=position.after, limit=page)
    is_garbage = _criterion(prefix, Expiry(store, root, keep, [each.key for each in entries]))
    before, deleted = position.after, 0
    refused = {} if refused is None else refused
    for entry in entries:
        try:
            if is_garbage(entry, before):
                store.delete(entry.key)
                deleted += 1
        except StoreRefusedError as refusal:
            refused[entry.key] = refusal.message
        before = entry.key
        if deleted == deletes or len(refused) == REFUSALS:
            return Position(prefix=position.prefix, after=before)
    if len(entries) == page:
        return Position(prefix=position.prefix, after=before)
    return Position(prefix=(position.prefix + 1) % len(ROUND))


Criterion = Callable[[Entry, str], bool]
"""Whether an object is garbage, given its entry and the key listed before it."""


def _criterion(prefix: str, expiry: Expiry) -> Criterion:
    criteria: dict[str, Criterion] = {
        layout.RUNS: lambda entry, _: expiry.is_register_expired(entry),
        layout.BARRIERS: lambda entry, _: expiry.is_register_expired(entry),
        layout.MACHINES: lambda entry, _: expiry.is_life_expired(entry),
        layout.INSTRUCTIONS: lambda entry, _: expiry.is_batch_expired(entry),
        layout.ANSWERS: lambda entry, _: expiry.is_answer_expired(entry),
        layout.ASIDE: lambda entry, _: expiry.is_old(entry),
        layout.SNAPSHOTS: expiry.is_copy_expired,
        layout.PROBES: lambda entry, _: expiry.is_probe_expired(entry),
        layout.USAGE: lambda entry, _: expiry.is_use_expired(entry),
        layout.LOGS: lambda entry, _: expiry.is_log_expired(entry),
        layout.RESULTS: lambda entry, _: expiry.is_result_expired(entry),
    }
    return criteria[prefix]


class Expiry:
    """
    Which objects have expired as of one committed root; it caches what it reads.

    Args:
        page: The keys that this step has listed, sorted.
    """

    def __init__(self, store: ObjectStore, root: Root, keep: Keep, page: Sequence[str]) -> None:
        self._store = store
        self._page = page
        self._root = root
        self._keep = keep
        self._ended: dict[tuple[str, str], float | None] = {}
        self._inboxes: dict[tuple[str, str], frozenset[str]] = {}

    def is_probe_expired(self, entry: Entry) -> bool:
        """Whether a probe left this object because it was killed or its delete failed."""
        return self._root.now - entry.modified_at >= DAY_S

    def is_use_expired(self, entry: Entry) -> bool:
        """Whether this is the use of a machine that has been gone for a day."""
        machine = layout.parse_machine_use(entry.key)
        is_gone = machine is not None and machine not in self._root.machines
        return is_gone and self._root.now - entry.modified_at >= DAY_S

    def is_old(self, entry: Entry) -> bool:
        """Whether `entry` was written at least `KEEP_S` ago."""
        return self._root.now - entry.modified_at >= KEEP_S

    def is_register_expired(self, entry: Entry) -> bool:
        """Whether this register is old and no longer needed as a fence."""
        name = layout.parse_register(entry.key)
        return name is not None and self.is_old(entry) and self._has_ended(name, entry)

    def is_life_expired(self, entry: Entry) -> bool:
        """Whether this is old: a check, or a keeper life whose machine has a newer one."""
        if layout.is_of_request(entry.key):
            return self.is_old(entry)
        life = layout.parse_life(entry.key)
        if life is None or not self.is_old(entry):
            return False
        lives = layout.lives(life[0])
        at = bisect_right(self._page, entry.key)
        if at < len(self._page) and not self._page[at].startswith(lives):
            return False  # the page continues after its lives: most have only one
        newer = self._store.list(lives, start_after=entry.key)
        return any(layout.parse_life(each.key) for each in newer)

    def is_batch_expired(self, entry: Entry) -> bool:
        """Whether this is old and no agent and no job needs it: a batch, or a long command."""
        if layout.is_of_request(entry.key):
            return self.is_old(entry)
        batch = layout.parse_instructions(entry.key)
        if batch is None or not self.is_old(entry):
            return False
        machine = self._root.machines.get(batch[0])
        is_current = machine is not None and batch[1] >= machine.life
        return (not is_current or self._is_first(entry.key)) and self._have_ended(entry)

    def _is_first(self, key: str) -> bool:
        """Whether this batch of instructions is the oldest of its life, but not the newest."""
        oldest = self._store.list(layout.folder_of(key), limit=2)
        return len(oldest) == 2 and oldest[0].key == key

    def is_answer_expired(self, entry: Entry) -> bool:
        """Whether this answer is old, and its request is no longer in the inbox."""
        name = layout.parse_answer(entry.key)
        if name is None or not self.is_old(entry):
            return False
        project, user, ulid = name
        waiting = self._requests(project, user)
        return len(waiting) < PAGE and ulid not in waiting

    def is_copy_expired(self, entry: Entry, before: str) -> bool:
        """Whether this copy of root is too old. The first copy of a day is kept longer."""
        name, last = layout.parse_snapshot(entry.key), layout.parse_snapshot(before)
        if name is None or self._root.now - entry.modified_at < HOURLY_S:
            return False
        is_first = last is None or last[0] != name[0]
        return not is_first or self.is_old(entry)

    def is_log_expired(self, entry: Entry) -> bool:
        """Whether this is a part of a job's log, or its samples, and the job ended long ago."""
        keep_s = self._keep.logs_s
        job = layout.job_of_log(entry.key)
        if keep_s is None or job is None or self._root.now - entry.modified_at < keep_s:
            return False
        return self._ended_for(*job, keep_s, entry)

    def is_result_expired(self, entry: Entry) -> bool:
        """Whether this is the final record of a job that ended long ago."""
        keep_s, name = self._keep.results_s, layout.parse_result(entry.key)
        if keep_s is None or name is None or self._is_active(name[1]):
            return False
        if self._root.now - entry.modified_at < keep_s:
            return False
        ended_at = self._ended_at(entry.key)
        return ended_at is not None and self._root.now - ended_at >= keep_s

    def _has_ended(self, name: layout.RegisterName, entry: Entry) -> bool:
        """Whether the final record of the job in `name` is old enough to delete `entry`."""
        return self._ended_for(name.project, name.job, KEEP_S, entry)

    def _ended_for(self, project: str, job: str, keep_s: float, entry: Entry) -> bool:
        """
        Whether the final record of the job was written that long ago.

        A record that was deleted because of its own age proves the same for anything at least as
        old.
        """
        if self._is_active(job):
            return False
        if (project, job) not in self._ended:
            self._ended[project, job] = self._ended_at(layout.result(project, job))
        at = self._ended[project, job]
        if at is not None:
            return self._root.now - at >= keep_s
        results_s = self._keep.results_s
        return results_s is not None and self._root.now - entry.modified_at >= results_s

    def _is_active(self, job: str) -> bool:
        """Whether the job, or the array that it is a task of, is in root: it may run again."""
        task = tasks_of_id(job)
        array = job if task is None else task[0]
        return job in self._root.jobs or array in self._root.arrays

    def _ended_at(self, key: str) -> float | None:
        """
        Return when the final record at `key` was written; None if there is none.

        It is never before the end in it: the clock of a folder may have been behind meanwhile.
        """
        try:
            found = self._store.read(key, limit_bytes=RECORD_BYTES)
        except NotFoundError:
            return None
        except OversizeError:  # a list says as much, but costs ten times as much
            listed = self._store.list(key, limit=1)
            return next((each.modified_at for each in listed if each.key == key), None)
        assert found is not None
        try:
            return max(found.modified_at, decode(Result, found.data, key=key).ended_at)
        except RecordError:
            return found.modified_at

    def _have_ended(self, entry: Entry) -> bool:
        """Whether every job in this batch has ended; an undecodable batch names none."""
        try:
            found = self._store.read(entry.key, limit_bytes=BATCH_BYTES)
            assert found is not None
            batch = decode(Batch, found.data, key=entry.key)
        except NotFoundError:
            return False
        except RecordError:
            return True
        named = {(i.project, i.job) for i in batch.instructions if not isinstance(i, _OF_NO_JOB)}
        return all(self._ended_for(project, job, KEEP_S, entry) for project, job in named)

    def _requests(self, project: str, user: str) -> frozenset[str]:
        """Return the ULIDs of the requests in this user's inbox; a full page may be incomplete."""
        if (project, user) not in self._inboxes:
            prefix = layout.user_inbox(project, user)
            waiting = self._store.list(prefix, limit=PAGE)
            names = frozenset(entry.key[len(prefix) :].partition(".")[0] for entry in waiting)
            self._inboxes[project, user] = names
        return self._inboxes[project, user]
