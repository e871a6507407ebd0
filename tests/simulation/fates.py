"""
What befalls a port call: nothing mostly; a crash, a lost answer, a write that lands long after.

Fates are drawn before the call and shown in the trace. `Storm` draws them at random while it rages;
`Script` deals them out at chosen calls, for directed schedules.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Protocol

LIVE = "live"
"""The operation of machines and keepers that are asked whether they die now."""


class Fate(Enum):
    """What happens to one call."""

    FINE = "it is done and answered"
    STALL = "the actor stands still for a while, then it is done"
    PAUSE = "the actor stands still for longer than a lease, then it is done"
    CRASH_BEFORE = "the actor dies before it is done"
    CRASH_AFTER = "it is done, and the actor dies"
    REFUSED = "it is not done, and the caller is told that it is in doubt"
    UNANSWERED = "it is done, and the caller is told that it is in doubt"
    LATE = "the caller is told that it is in doubt; it is done long after"
    OVERDUE = "as LATE, and as late as can be"
    TWICE = "it is done twice, and the second answer is the one that comes"
    SPOILT = "an empty object comes of it, and the caller is told that it is in doubt"


_FAULTS = (Fate.REFUSED, Fate.UNANSWERED, Fate.LATE, Fate.TWICE)
"""What a network does to a call; each is as likely."""


class Fates(Protocol):
    """What decides how a call ends."""

    def draw(self, actor: str, operation: str, key: str) -> Fate:
        """The fate of this call."""
        ...

    def end(self) -> None:
        """From now on nothing goes wrong any more that is left to chance."""
        ...


class Calm:
    """Nothing ever goes wrong."""

    def draw(self, actor: str, operation: str, key: str) -> Fate:
        """Always fine."""
        return Fate.FINE

    def end(self) -> None:
        """It never began."""


@dataclass(frozen=True, kw_only=True)
class Rates:
    """How many of a thousand calls meet which fate."""

    stall: float = 2.0
    crash: float = 6.0
    fault: float = 15.0
    death: float = 6.0
    """Of a machine at a listing, and ten times as many of a keeper at a call to it."""

    def times(self, factor: float) -> Rates:
        """A storm that blows so many times as hard."""
        return Rates(
            stall=self.stall * factor,
            crash=self.crash * factor,
            fault=self.fault * factor,
            death=self.death * factor,
        )


class Storm:
    """
    Random faults, until it is over.

    Args:
        chance: The run's.
        rates: How hard it blows.
        spared: Actors that never crash, by the beginning of their names.
    """

    def __init__(
        self, chance: random.Random, rates: Rates, *, spared: tuple[str, ...] = ()
    ) -> None:
        self._chance = chance
        self._rates = rates
        self._spared = spared
        self.is_over = False

    def end(self) -> None:
        """Let it be over."""
        self.is_over = True

    def draw(self, actor: str, operation: str, key: str) -> Fate:
        """At random."""
        if self.is_over:
            return Fate.FINE
        drawn = self._chance.random() * 1000.0
        rates = self._rates
        if operation == LIVE:
            death = rates.death * (10.0 if actor.startswith("keeper@") else 1.0)
            if drawn >= death:
                return Fate.FINE
            return Fate.CRASH_BEFORE if drawn * 2 < death else Fate.CRASH_AFTER
        if drawn < rates.stall:
            return Fate.STALL
        drawn -= rates.stall
        if drawn < rates.crash:
            if actor.startswith(self._spared):
                return Fate.FINE
            return Fate.CRASH_BEFORE if drawn * 2 < rates.crash else Fate.CRASH_AFTER
        drawn -= rates.crash
        if drawn < rates.fault:
            return _FAULTS[int(len(_FAULTS) * drawn / rates.fault)]
        return Fate.FINE


class Spoiling:
    """
    Another's fates, and creates of which nothing but an empty object comes.

    No store that keeps its word does this; one bad object must harm only itself all the same.

    Args:
        fates: What befalls everything else.
        share: Of creates that are spoilt, until it is over.
        keys: How the keys begin that this befalls.
    """

    def __init__(
        self, fates: Storm, chance: random.Random, *, share: float, keys: tuple[str, ...]
    ) -> None:
        self._fates = fates
        self._chance = chance
        self._share = share
        self._keys = keys
        self.spoilt: set[str] = set()
        """The keys that this has befallen."""

    def draw(self, actor: str, operation: str, key: str) -> Fate:
        """At random."""
        is_met = operation == "create" and key.startswith(self._keys) and not self.is_over
        if is_met and self._chance.random() < self._share:
            self.spoilt.add(key)
            return Fate.SPOILT
        return self._fates.draw(actor, operation, key)

    @property
    def is_over(self) -> bool:
        """Whether the storm is."""
        return self._fates.is_over

    def end(self) -> None:
        """Let it be over."""
        self._fates.end()


class Script:
    """
    Chosen fates at chosen calls, else fine.

    Args:
        fates: By (actor, number of its call, from 1 on).
    """

    def __init__(self, fates: Mapping[tuple[str, int], Fate]) -> None:
        self._fates = fates
        self._calls: Counter[str] = Counter()

    def draw(self, actor: str, operation: str, key: str) -> Fate:
        """As it is written."""
        self._calls[actor] += 1
        return self._fates.get((actor, self._calls[actor]), Fate.FINE)

    def end(self) -> None:
        """What is written stays."""


class Choice:
    """
    One fate for the nth call of one kind, else fine.

    Args:
        actor: The beginning of the actor's name.
        operation: The beginning of the call's name.
        part: A part of its key.
    """

    def __init__(self, actor: str, operation: str, part: str, fate: Fate, *, nth: int = 1) -> None:
        self._wanted = actor, operation, part
        self._fate = fate
        self._left = nth

    def draw(self, actor: str, operation: str, key: str) -> Fate:
        """The chosen one, once."""
        wanted, operation_wanted, part = self._wanted
        if actor.startswith(wanted) and operation.startswith(operation_wanted) and part in key:
            self._left -= 1
            if self._left == 0:
                return self._fate
        return Fate.FINE

    @property
    def is_met(self) -> bool:
        """Whether it came."""
        return self._left <= 0

    def end(self) -> None:
        """It comes when it comes."""
