"""
A bucket that is away: its folder disappears for a while, or an empty one is in its place.

A store that knows its folder treats both as being out of reach, and programs see nothing else. The
empty folder is what a store without this check would write into.
"""

from __future__ import annotations

import random

from bastion.errors import StoreError
from bastion.store.port import READ_LIMIT_BYTES, Entry, Object, ObjectStore, Version, Written
from tests.simulation.baton import Baton
from tests.simulation.fates import Fates, Rates, Storm
from tests.simulation.processes import SOUND, Parts
from tests.simulation.small import small
from tests.simulation.world import World

FIRST_S, LAST_S = 5.0, 200.0
"""The interval in which the bucket may disappear."""
LONGEST_S = 60.0
"""Twice as long as a lease."""
TIMES = 4


class AwayError(StoreError):
    """The folder of the bucket is missing or is another one."""


class Vanishing:
    """
    Wraps a store that is out of reach during some intervals.

    Args:
        spans: When it disappears and when it is back, in virtual seconds.
    """

    def __init__(
        self, store: ObjectStore, baton: Baton, spans: tuple[tuple[float, float], ...]
    ) -> None:
        self._store = store
        self._baton = baton
        self._spans = spans

    def read(
        self, key: str, *, unless: Version | None = None, limit_bytes: int = READ_LIMIT_BYTES
    ) -> Object | None:
        """See the port."""
        self._check()
        return self._store.read(key, unless=unless, limit_bytes=limit_bytes)

    def create(self, key: str, data: bytes) -> Written:
        """See the port."""
        self._check()
        return self._store.create(key, data)

    def swap(self, key: str, data: bytes, *, if_version: Version) -> Written:
        """See the port."""
        self._check()
        return self._store.swap(key, data, if_version=if_version)

    def delete(self, key: str) -> None:
        """See the port."""
        self._check()
        self._store.delete(key)

    def list(self, prefix: str, *, start_after: str = "", limit: int = 1000) -> tuple[Entry, ...]:
        """See the port."""
        self._check()
        return self._store.list(prefix, start_after=start_after, limit=limit)

    def _check(self) -> None:
        if any(start <= self._baton.now < end for start, end in self._spans):
            raise AwayError("the folder of the bucket is out of reach")


def away(seed: int, parts: Parts = SOUND) -> World:
    """
    Return the small scenario under a bucket that disappears a few times; half of the seeds in a
    storm.
    """
    baton = Baton(seed)
    fates = None
    if baton.chance.random() < 0.5:
        fates = Storm(baton.chance, Rates().times(0.5), spared=("ann", "ben", "cat"))
    return _away(baton, parts, spans(baton.chance), fates)


def away_from(start_s: float, end_s: float, seed: int, parts: Parts = SOUND) -> World:
    """Return the small scenario under a bucket that disappears once."""
    return _away(Baton(seed), parts, ((start_s, end_s),), None)


def spans(chance: random.Random) -> tuple[tuple[float, float], ...]:
    """Return up to four intervals."""
    starts = [chance.uniform(FIRST_S, LAST_S) for _ in range(chance.randint(1, TIMES))]
    return tuple((start, start + chance.uniform(0.5, LONGEST_S)) for start in starts)


def _away(
    baton: Baton, parts: Parts, when: tuple[tuple[float, float], ...], fates: Fates | None
) -> World:
    return small(baton, parts, fates=fates, through=lambda store: Vanishing(store, baton, when))
