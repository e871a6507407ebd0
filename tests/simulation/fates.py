"""
The fate of a port call: usually nothing; or a crash, a lost answer, or a write that lands late.

Fates are drawn before the call and shown in the trace. `Storm` draws them at random while it lasts;
`Script` assigns them to chosen calls, for directed schedules.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Protocol

LIVE = "live"
"""The operation at which machines and keepers may die."""


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
"""What a network does to a call; all are equally likely."""


class Fates(Protocol):
    """Decides how a call ends."""

    def draw(self, actor: str, operation: str, key: str) -> Fate:
        """Return the fate of this call."""
        ...

    def end(self) -> None:
        """Stop all random faults from now on."""
        ...


class Calm:
    """Nothing ever goes wrong."""

    def draw(self, actor: str, operation: str, key: str) -> Fate:
        """Return that the call succeeds."""
        return Fate.FINE

    def end(self) -> None:
        """Do nothing; there are no faults."""


@dataclass(frozen=True, kw_only=True)
class Rates:
    """How many of a thousand calls meet which fate."""

    stall: float = 2.0
    crash: float = 6.0
    fault: float = 15.0
    death: float = 6.0
    """Of a machine at a list call, and ten times as many of a keeper at a call to it."""

    def times(self, factor: float) -> Rates:
        """Return the rates of a storm that is this many times as strong."""
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
        chance: The random source of the run.
        rates: The strength of the storm.
        spared: Prefixes of the names of actors that never crash.
    """

    def __init__(
        self, chance: random.Random, rates: Rates, *, spared: tuple[str, ...] = ()
    ) -> None:
        self._chance = chance
        self._rates = rates
        self._spared = spared
        self.is_over = False

    def end(self) -> None:
        """End the storm."""
        self.is_over = True

    def draw(self, actor: str, operation: str, key: str) -> Fate:
        """Return a random fate."""
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
    Wraps other fates, and turns some creates into an empty object.

    No correct store does this, but one bad object must only harm itself.

    Args:
        fates: Decides everything else.
        share: Fraction of creates that are spoilt, until it is over.
        keys: Prefixes of the affected keys.
    """

    def __init__(
        self, fates: Storm, chance: random.Random, *, share: float, keys: tuple[str, ...]
    ) -> None:
        self._fates = fates
        self._chance = chance
        self._share = share
        self._keys = keys
        self.spoilt: set[str] = set()
        """The keys that were spoilt."""

    def draw(self, actor: str, operation: str, key: str) -> Fate:
        """Return a random fate."""
        is_met = operation == "create" and key.startswith(self._keys) and not self.is_over
        if is_met and self._chance.random() < self._share:
            self.spoilt.add(key)
            return Fate.SPOILT
        return self._fates.draw(actor, operation, key)

    @property
    def is_over(self) -> bool:
        """Whether the storm is over."""
        return self._fates.is_over

    def end(self) -> None:
        """End the storm."""
        self._fates.end()


class Script:
    """
    Chosen fates at chosen calls; all others succeed.

    Args:
        fates: By (actor, number of its call, from 1 on).
    """

    def __init__(self, fates: Mapping[tuple[str, int], Fate]) -> None:
        self._fates = fates
        self._calls: Counter[str] = Counter()

    def draw(self, actor: str, operation: str, key: str) -> Fate:
        """Return the chosen fate."""
        self._calls[actor] += 1
        return self._fates.get((actor, self._calls[actor]), Fate.FINE)

    def end(self) -> None:
        """Do nothing; chosen fates remain."""


class Choice:
    """
    One fate for the nth call of one kind; all others succeed.

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
        """Return the chosen fate, once."""
        wanted, operation_wanted, part = self._wanted
        if actor.startswith(wanted) and operation.startswith(operation_wanted) and part in key:
            self._left -= 1
            if self._left == 0:
                return self._fate
        return Fate.FINE

    @property
    def is_met(self) -> bool:
        """Whether the chosen fate has occurred."""
        return self._left <= 0

    def end(self) -> None:
        """Do nothing; the chosen fate remains."""
