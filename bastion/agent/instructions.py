"""
Instructions to a keeper life, in batches that are read by number: one read of a known key each.

Every instruction is idempotent, so reading one twice is harmless. The home keeps the number up to
which all instructions are done, so a restarted agent need not read all of them. A batch that cannot
be read or belongs to another life is logged and skipped. A batch that is too old starts nothing,
and the hosts that it should have started end as lost. A batch of a newer Bastion is skipped too,
but counts as not done: a newer agent reads it again, with all later ones.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from bastion.agent.errands import Errands
from bastion.agent.home import Home
from bastion.agent.settings import OLDEST_BATCH_S
from bastion.errors import ForeignRecordError, NotFoundError, OversizeError, RecordError
from bastion.machine import Batch, Instruction
from bastion.records.coding.codec import decode
from bastion.records.coding.limits import BATCH_BYTES
from bastion.records.keys import layout
from bastion.store.port import ObjectStore
from bastion.value import value

_FIRST = 1
"""Number of the first batch of a life: the committed count of batches after it is allocated."""

_AT_ONCE = 64
"""Most batches read together, so that a long backlog does not delay its first start."""

_SAVE_S = 1.0
"""Batches between two saves of the number; at most this many are read twice."""


@value
class _Found:
    """A batch that was read: its instructions, or why it is skipped."""

    batch: Batch | None = None
    wrong: str = ""
    is_foreign: bool = False
    """Whether another version of Bastion would understand it."""
    modified_at: float = 0.0


class Instructions:
    """The instructions to one keeper life."""

    def __init__(
        self,
        store: ObjectStore,
        errands: Errands,
        home: Home,
        *,
        machine: str,
        life: int,
        say: Callable[[str], None],
    ) -> None:
        self._store = store
        self._errands = errands
        self._home = home
        self._machine = machine
        self._life = life
        self._say = say
        done = home.number("instructions", life)
        self._is_lost = done is None
        """Whether the number is unknown: all batches that exist are read again."""
        if self._is_lost:
            say(f"what is remembered of instructions is damaged: all of life {life} are read again")
        self._next = max(_FIRST, done or 0)
        self._saved = self._next
        self._save_at = 0.0
        self._open: dict[str, int] = {}
        self._arrived: list[tuple[int, Instruction, str]] = []
        self._look_at = 0.0
        self.proof_sent_at: float | None = None
        """When the last answered read was sent."""
        self.found_at = 0.0
        """When a batch was last found."""

    def turn(self, now: float, *, pause_s: float, store_time: tuple[float, float]) -> None:
        """Look for the next batches, `pause_s` after the last look that found none."""
        if self._is_lost:
            # The oldest are deleted over time: the first existing one may not be the first of all.
            look = partial(_oldest, self._store, self._machine, self._life)
            self._errands.send("instructions", look, self._found_oldest, now=now, is_look=True)
        elif now >= self._look_at and self._errands.is_free("instructions", now):
            work = partial(_read, self._store, self._machine, self._life, self._next)
            then = partial(self._read, now, pause_s, store_time)
            self._errands.send("instructions", work, then, now=now, is_look=True)
        self._save(now)

    def look_now(self) -> None:
        """Look for the next batch in the next turn: there is news."""
        self._look_at = 0.0

    def take(self) -> tuple[tuple[int, Instruction, str], ...]:
        """
        Return the instructions since the last call, each with the number of its batch and why it is
        too old to start anything, or an empty string.
        """
        arrived, self._arrived = self._arrived, []
        return tuple(arrived)

    def begin(self, key: str, number: int) -> None:
        """Count batch `number` as open until `settle(key)`."""
        self._open.setdefault(key, number)

    def settle(self, key: str) -> None:
        """Settle `key`, which would now be found again without its instruction."""
        self._open.pop(key, None)

    def _found_oldest(self, number: int) -> None:
        self._next, self._is_lost = number, False

    def _read(
        self, sent_at: float, pause_s: float, store_time: tuple[float, float], found: list[_Found]
    ) -> None:
        self.proof_sent_at = sent_at
        self._look_at = sent_at if len(found) == _AT_ONCE else sent_at + pause_s
        for each in found:
            number, self._next = self._next, self._next + 1
            self.found_at = sent_at
            age_s = store_time[0] + sent_at - store_time[1] - each.modified_at
            wrong = each.wrong
            if each.batch is not None and each.batch.life != self._life:
                wrong = f"is for life {each.batch.life} of {self._machine}, this is {self._life}"
            elif each.is_foreign:
                self.begin(f"batch {number}", number)
            if wrong or each.batch is None:
                self._say(f"instructions {number} are stepped over: {wrong}")
                continue
            stale = ""
            if age_s > OLDEST_BATCH_S:
                stale = f"are {age_s / 86400:.1f} days old, and start nothing after 7"
                self._say(f"instructions {number} {stale}")
            self._arrived.extend((number, one, stale) for one in each.batch.instructions)

    def _save(self, now: float) -> None:
        if now < self._save_at or self._arrived:
            return
        done = min(self._open.values(), default=self._next)
        if done != self._saved:
            self._home.put_number("instructions", self._life, done)
            self._saved, self._save_at = done, now + _SAVE_S


def _oldest(store: ObjectStore, machine: str, life: int) -> int:
    """Return the number of this life's first existing batch, or of the first to be written."""
    for entry in store.list(layout.folder_of(layout.instructions(machine, life, _FIRST)), limit=1):
        found = layout.parse_instructions(entry.key)
        if found is not None:
            return found[2]
    return _FIRST


def _read(store: ObjectStore, machine: str, life: int, first: int) -> list[_Found]:
    found: list[_Found] = []
    while len(found) < _AT_ONCE:
        key = layout.instructions(machine, life, first + len(found))
        try:
            read = store.read(key, limit_bytes=BATCH_BYTES)
        except NotFoundError:
            break
        except OversizeError as error:
            found.append(_Found(wrong=error.in_a_line, modified_at=float("inf")))
            continue
        assert read is not None
        try:
            batch = decode(Batch, read.data, key=key)
            found.append(_Found(batch=batch, modified_at=read.modified_at))
        except RecordError as error:
            found.append(
                _Found(
                    wrong=error.in_a_line,
                    is_foreign=isinstance(error, ForeignRecordError),
                    modified_at=read.modified_at,
                )
            )
    return found
