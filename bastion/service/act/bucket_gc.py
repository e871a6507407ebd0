"""
Garbage: what nobody can need any more leaves the bucket, by age, a little at a time.

What goes, and when (ages are differences of the store's own times):

* an attempt's registers, 30 days after the final record of their job was written, if the job is not
  in root;
* a batch of instructions, 30 days after it was written and after the final record of every job it
  names; to a keeper life that goes on, only where no older batch stands and a newer one does: an
  agent that reads its instructions once more meets no gap, and no number is given twice;
* an older life of a machine, after 30 days; the newest stays for ever, so that no number is given
  twice;
* an answer, after 30 days, once its request has left the inbox;
* what was set aside, after 30 days;
* copies of root: one an hour for 2 days, the first of each day for 30.

Nothing that can still fence goes: agents refuse instructions older than 7 days, requests whose name
is more than 7 days from the store's time are refused, and a final record is kept for ever. Specs,
final records, events, logs, what jobs keep and bundles are never touched here.

One step is one list and at most `DELETES` deletions. Steps are a minute apart, and an hour when
everything was looked at; a new leader has better things to do first. Two bastions that clean side
by side come to the same conclusions.
"""

from __future__ import annotations

from collections.abc import Callable

from bastion.errors import NotFoundError, RecordError
from bastion.machine import Batch, Leave
from bastion.records import layout
from bastion.records.codec import decode
from bastion.records.limits import BATCH_BYTES, RECORD_BYTES
from bastion.records.root import Root
from bastion.service.act.actions import DraftUpdate, Work
from bastion.store import Entry, ObjectStore
from bastion.value import value

DAY_S = 86400.0
KEEP_S = 30 * DAY_S
"""Four times what a late agent, or a late request, is given (7 days)."""
HOURLY_S = 2 * DAY_S
"""So long every copy of root is kept."""
PAGE = 1000
"""Objects that one step looks at: what a store lists at once."""
DELETES = 200
"""Objects that one step deletes: a few seconds of one thread's time."""
STEP_S = 60.0
"""Between two steps: a million and a half objects a day, for 20 cents a month on a cloud store."""
REST_S = 3600.0
"""After the last step of a round."""
FIRST_S = 600.0
"""Before the first step of a new leader."""

ROUND = (
    layout.RUNS,
    layout.BARRIERS,
    layout.MACHINES,
    layout.INSTRUCTIONS,
    layout.ANSWERS,
    layout.ASIDE,
    layout.SNAPSHOTS,
    layout.PROBES,
)
"""The prefixes that a round walks, in its order; of the others nothing is ever deleted."""


@value
class Place:
    """How far a round has come: which prefix, and the last name in it that was looked at."""

    turn: int = 0
    after: str = ""


class GarbageCollector:
    """Walks the bucket in rounds, a step at a time."""

    def __init__(self, store: ObjectStore) -> None:
        self._store = store
        self._place = Place()
        self._next_at: float | None = None

    def work(self, root: Root) -> Work | None:
        """The work of the next step, as of the committed `root`; None when it is not time."""
        if self._next_at is None:
            self._next_at = root.now + FIRST_S
        if root.now < self._next_at:
            return None
        self._next_at = root.now + STEP_S
        place = self._place

        def work() -> DraftUpdate:
            moved = clean(self._store, root, place)
            return lambda _: self._move(moved, root.now)

        return work

    def _move(self, place: Place, now: float) -> None:
        if place == Place():
            self._next_at = now + REST_S
        self._place = place


def clean(
    store: ObjectStore, root: Root, place: Place, *, page: int = PAGE, deletes: int = DELETES
) -> Place:
    """
    Delete what is too old on one page of the bucket; where to go on, `Place()` after the last one.

    It looks at `page` objects and deletes `deletes` of them, at most.

    Raises:
        StoreError: Out of reach; the same step can be taken again.
    """
    prefix = ROUND[place.turn]
    entries = store.list(prefix, start_after=place.after, limit=page)
    is_garbage = _judge(prefix, Ages(store, root))
    before, deleted = place.after, 0
    for entry in entries:
        if is_garbage(entry, before):
            store.delete(entry.key)
            deleted += 1
        before = entry.key
        if deleted == deletes:
            return Place(turn=place.turn, after=before)
    if len(entries) == page:
        return Place(turn=place.turn, after=before)
    return Place(turn=(place.turn + 1) % len(ROUND))


Judge = Callable[[Entry, str], bool]
"""Whether an object is garbage, given it and the name listed before it."""


def _judge(prefix: str, ages: Ages) -> Judge:
    judges: dict[str, Judge] = {
        layout.RUNS: lambda entry, _: ages.is_register_over(entry),
        layout.BARRIERS: lambda entry, _: ages.is_register_over(entry),
        layout.MACHINES: lambda entry, _: ages.is_life_over(entry),
        layout.INSTRUCTIONS: lambda entry, _: ages.is_batch_over(entry),
        layout.ANSWERS: lambda entry, _: ages.is_answer_over(entry),
        layout.ASIDE: lambda entry, _: ages.is_old(entry),
        layout.SNAPSHOTS: ages.is_copy_over,
        layout.PROBES: lambda entry, _: ages.is_probe_over(entry),
    }
    return judges[prefix]


class Ages:
    """What is old enough to go, as of one committed root; remembers what it looked up."""

    def __init__(self, store: ObjectStore, root: Root) -> None:
        self._store = store
        self._root = root
        self._ended: dict[tuple[str, str], bool] = {}
        self._asked: dict[tuple[str, str], frozenset[str]] = {}

    def is_probe_over(self, entry: Entry) -> bool:
        """What a probe left that was killed, or whose delete was not answered."""
        return self._root.now - entry.modified_at >= DAY_S

    def is_old(self, entry: Entry) -> bool:
        """Whether `entry` was written long enough ago."""
        return self._root.now - entry.modified_at >= KEEP_S

    def is_register_over(self, entry: Entry) -> bool:
        """Whether this register fences nothing any more."""
        name = layout.parse_register(entry.key)
        return name is not None and self.is_old(entry) and self._has_ended(name.project, name.job)

    def is_life_over(self, entry: Entry) -> bool:
        """Whether this keeper life is old, and a newer one of its machine stands."""
        life = layout.parse_life(entry.key)
        if life is None or not self.is_old(entry):
            return False
        newer = self._store.list(layout.lives(life[0]), start_after=entry.key)
        return any(layout.parse_life(each.key) for each in newer)

    def is_batch_over(self, entry: Entry) -> bool:
        """Whether this batch of instructions concerns no machine and no job any more."""
        batch = layout.parse_instructions(entry.key)
        if batch is None or not self.is_old(entry):
            return False
        machine = self._root.machines.get(batch[0])
        goes_on = machine is not None and batch[1] >= machine.life
        return (not goes_on or self._is_first(entry.key)) and self._have_ended(entry.key)

    def _is_first(self, key: str) -> bool:
        """Whether this batch of instructions is the oldest of its life, and not the newest."""
        standing = self._store.list(layout.folder_of(key), limit=2)
        return len(standing) == 2 and standing[0].key == key

    def is_answer_over(self, entry: Entry) -> bool:
        """Whether this answer is old, and its request no longer waits to be deleted."""
        name = layout.parse_answer(entry.key)
        if name is None or not self.is_old(entry):
            return False
        project, user, ulid = name
        waiting = self._requests(project, user)
        return len(waiting) < PAGE and ulid not in waiting

    def is_copy_over(self, entry: Entry, before: str) -> bool:
        """Whether this copy of root is too old for its kind: the first of a day is kept longer."""
        name, last = layout.parse_snapshot(entry.key), layout.parse_snapshot(before)
        if name is None or self._root.now - entry.modified_at < HOURLY_S:
            return False
        is_first = last is None or last[0] != name[0]
        return not is_first or self.is_old(entry)

    def _has_ended(self, project: str, job: str) -> bool:
        """Whether the final record of the job is old enough."""
        if job in self._root.jobs:
            return False
        if (project, job) not in self._ended:
            self._ended[project, job] = self._is_result_old(layout.result(project, job))
        return self._ended[project, job]

    def _is_result_old(self, key: str) -> bool:
        try:
            found = self._store.read(key, limit_bytes=RECORD_BYTES)
        except NotFoundError:
            return False
        assert found is not None
        return self._root.now - found.modified_at >= KEEP_S

    def _have_ended(self, key: str) -> bool:
        """Whether every job named in the batch at `key` has; what cannot be read names none."""
        try:
            found = self._store.read(key, limit_bytes=BATCH_BYTES)
            assert found is not None
            batch = decode(Batch, found.data, key=key)
        except NotFoundError:
            return False
        except RecordError:
            return True
        named = {(i.project, i.job) for i in batch.instructions if not isinstance(i, Leave)}
        return all(self._has_ended(project, job) for project, job in named)

    def _requests(self, project: str, user: str) -> frozenset[str]:
        """What this user's inbox holds, by ULID; a full page may not be all of it."""
        if (project, user) not in self._asked:
            prefix = layout.user_inbox(project, user)
            waiting = self._store.list(prefix, limit=PAGE)
            names = frozenset(entry.key[len(prefix) :].partition(".")[0] for entry in waiting)
            self._asked[project, user] = names
        return self._asked[project, user]
