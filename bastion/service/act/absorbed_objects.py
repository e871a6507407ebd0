"""
The end of an object in the inbox: once a commit has absorbed it, it is deleted or set aside.

An answer must be written first. A failed deletion is retried at growing intervals.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator
from dataclasses import replace

from bastion.clock import Clock
from bastion.records.requests.inbox import Misplaced
from bastion.service.act import actions as act
from bastion.service.intake.failing import REFUSED_TURNS
from bastion.service.intake.inbox import ReadBell, ReadRequest
from bastion.service.intake.requests import answer_key
from bastion.store import Entry, ObjectStore
from bastion.value import value

DELETE_AGAIN_S = (0.5, 60.0)
"""
The wait after the first failed deletion, which doubles with each further failure, and the longest
wait. A retention policy or a hold makes every deletion fail for days, and each try costs money.
"""


@value
class Absorbed:
    """An object in the inbox that committed state has absorbed."""

    entry: Entry
    answer: str = ""
    """The answer that must be written first; empty for none."""
    is_aside: bool = False
    """It could not be understood, and is set aside."""
    unreadable: str = ""
    """Why the store cannot return it; empty if it can."""
    failures: int = 0
    """How often its deletion failed."""
    again_at: float = 0.0
    """When the next deletion is tried, on our own clock."""


class AbsorbedObjects:
    """The absorbed objects in the inbox that are not deleted yet; a key is in it until then."""

    def __init__(self, store: ObjectStore, clock: Clock) -> None:
        self._store = store
        self._clock = clock
        self._objects: dict[str, Absorbed] = {}

    def __contains__(self, key: str) -> bool:
        return key in self._objects

    def add(
        self,
        requests: Iterable[ReadRequest],
        bells: Iterable[ReadBell],
        misplaced: Iterable[Misplaced],
    ) -> None:
        """Add what a commit has absorbed."""
        for arrived in requests:
            self._add(
                Absorbed(
                    entry=arrived.waiting.entry,
                    answer="" if arrived.is_answered else answer_key(arrived.waiting),
                    is_aside=bool(arrived.problems),
                    unreadable=arrived.unreadable,
                )
            )
        for read_bell in bells:
            self._add(Absorbed(entry=read_bell.ringing.entry, is_aside=bool(read_bell.problem)))
        for each in misplaced:
            unreadable = each.why if each.is_unreadable else ""
            self._add(Absorbed(entry=each.entry, is_aside=True, unreadable=unreadable))

    def works(self, unwritten: Container[str]) -> Iterator[tuple[str, Callable[[], object]]]:
        """Yield the deletions that are due, by key; `unwritten` has the answers still in root."""
        for key, each in self._objects.items():
            if self._clock.monotonic() < each.again_at or each.answer in unwritten:
                continue
            if each.is_aside:
                yield key, act.aside_work(self._store, each.entry, unreadable=each.unreadable)
            else:
                yield key, act.delete_work(self._store, key)

    def deleted(self, key: str) -> None:
        """Drop the object at `key`, which is gone."""
        self._objects.pop(key, None)

    def failed(self, key: str, error: Exception) -> None:
        """
        Postpone the next deletion of the object at `key`.

        An object that was refused unread, and that the store does not return for a copy either, is
        set aside without its bytes.
        """
        each = self._objects.get(key)
        if each is None:
            return
        first_s, longest_s = DELETE_AGAIN_S
        pause_s = min(first_s * 2.0 ** min(each.failures, 16), longest_s)
        failures = each.failures + 1
        is_given_up = isinstance(error, act.UnreadableError) and failures >= REFUSED_TURNS
        self._objects[key] = replace(
            each,
            failures=failures,
            again_at=self._clock.monotonic() + pause_s,
            unreadable=str(error) if is_given_up else each.unreadable,
        )

    def _add(self, each: Absorbed) -> None:
        self._objects[each.entry.key] = each
