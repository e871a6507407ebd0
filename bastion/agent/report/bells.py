"""
Bells: the facts of a turn, in one create-only object.

One bell is sent at a time, so facts arrive in the order in which they became true. Its number and
bytes are fixed before the first try. Numbers only grow, even across restarts: they are reserved in
the home before they are used. Gaps mean nothing, and a number that is taken is skipped. The bastion
ignores numbers below the last one that it has read. So if the reserved number is damaged, the next
one is chosen far above it.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from bastion.agent.errands import Errands
from bastion.agent.home import Home
from bastion.errors import ConflictError, NotFoundError, OversizeError, SpecError
from bastion.records.coding.codec import encode
from bastion.records.coding.limits import BELL_BYTES
from bastion.records.keys import layout
from bastion.records.reports.facts import Bell, Fact, Unkept
from bastion.store.port import ObjectStore
from bastion.value import value

_FACTS = 500
"""Most facts of one bell: about 100 KB of ordinary ones."""

_BYTES = BELL_BYTES // 2
"""Size above which no more facts are added to a bell: an end has up to 4 KiB of a log."""

_ALONE = Unkept
"""Earlier bastions do not know this fact, and set aside the whole bell that has one."""

_RESERVED = 256
"""Numbers reserved together: one small write to the home for this many bells."""


@value
class _Rung:
    """A bell that was written, with the store's time of it, or a number that was taken."""

    taken: bool = False
    modified_at: float = 0.0


class Bells:
    """
    The bells of one keeper life.

    Args:
        store: The bucket.
        errands: Makes the calls to it.
        home: Stores which numbers are reserved.
        machine: Its name.
        life: The keeper's life.
        anew: Returns a number above all that this life can have used, for a damaged home.
        say: Writes one line to the agent's log.
    """

    def __init__(
        self,
        store: ObjectStore,
        errands: Errands,
        home: Home,
        *,
        machine: str,
        life: int,
        anew: Callable[[], int],
        say: Callable[[str], None],
    ) -> None:
        self._store = store
        self._errands = errands
        self._home = home
        self._machine = machine
        self._life = life
        self._say = say
        reserved = home.number("bells", life)
        if reserved is None:
            reserved = anew()
            say(f"what is remembered of bells is damaged: they are numbered from {reserved} on")
        self._next = reserved
        self._reserved = self._next
        self._anew = anew
        self._is_stored: bool | None = None
        """
        Whether the reserved numbers are stored in the home; None: this agent has reserved nothing
        yet.
        """
        self._waiting: list[tuple[Fact, int]] = []
        self._frozen: tuple[str, bytes, int] | None = None
        self._asked = 0
        self._landed = 0
        self.rung_at: float | None = None
        """When the last written bell was sent, on the agent's clock."""
        self.store_time: tuple[float, float] | None = None
        """The store's time and the agent's, when the last bell was written."""

    def ring(self, fact: Fact) -> int:
        """
        Send `fact` with the next bell, and return a ticket for `has_landed`.

        A fact with text that is not UTF-8 is left out: it would block all facts of this machine.
        """
        try:
            size = len(encode(fact))
        except SpecError as error:
            self._say(f"a fact of kind {fact.kind} is left out: {error}")
            return self._asked
        self._waiting.append((fact, size))
        self._asked += 1
        return self._asked

    def has_landed(self, ticket: int) -> bool:
        """Whether the fact with this ticket is in the bucket."""
        return ticket <= self._landed

    @property
    def is_silent(self) -> bool:
        """Whether no fact waits to be sent."""
        return self._frozen is None and not self._waiting

    def turn(self, now: float) -> None:
        """Send waiting facts, unless a bell is under way."""
        if self._frozen is None:
            if not self._waiting:
                return
            count = _together(self._waiting)
            facts = tuple(fact for fact, _ in self._waiting[:count])
            del self._waiting[:count]
            self._frozen = self._take_key(), encode(Bell(facts=facts)), len(facts)
        key, data, count = self._frozen
        if self._errands.is_free("bell", now):
            work = partial(_write, self._store, key, data)
            self._errands.send("bell", work, partial(self._rung, now, count), now=now)

    def _rung(self, sent_at: float, count: int, rung: _Rung) -> None:
        assert self._frozen is not None
        if rung.taken:
            self._frozen = self._take_key(), *self._frozen[1:]
            return
        self._frozen = None
        self._landed += count
        self.rung_at = sent_at
        self.store_time = rung.modified_at, sent_at

    def _take_key(self) -> str:
        if self._next >= self._reserved or not self._is_stored:
            self._reserve()
        number = self._next
        self._next += 1
        return layout.bell(self._machine, self._life, number)

    def _reserve(self) -> None:
        """
        Reserve the next numbers.

        If an agent cannot store its first reservation, the agent before it may have used more
        numbers than are stored: the new numbers then start far above those.
        """
        is_first = self._is_stored is None
        stored = self._next + 1 + _RESERVED
        self._is_stored = self._home.put_number("bells", self._life, stored)
        if is_first and not self._is_stored:
            self._next = max(self._next, self._anew())
        self._reserved = self._next + 1 + _RESERVED


def _together(waiting: list[tuple[Fact, int]]) -> int:
    """Return how many of the first facts go with the next bell."""
    whole = 0
    for place, (fact, size) in enumerate(waiting[:_FACTS]):
        whole += size
        if place and (whole > _BYTES or isinstance(fact, _ALONE)):
            return place
        if isinstance(fact, _ALONE):
            return 1
    return min(len(waiting), _FACTS)


def _write(store: ObjectStore, key: str, data: bytes) -> _Rung:
    try:
        return _Rung(modified_at=store.create(key, data).modified_at)
    except ConflictError:
        try:
            found = store.read(key, limit_bytes=len(data))
        except NotFoundError:
            return _Rung(taken=True)  # the bastion has already read a bell with this number
        except OversizeError:
            return _Rung(taken=True)
        assert found is not None
        return _Rung(taken=found.data != data, modified_at=found.modified_at)
