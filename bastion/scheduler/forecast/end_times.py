"""
When running gangs will likely have ended, by how long earlier runs of their kind took.

An end is not one number: `WORLDS` futures are drawn. In each of them every running gang has an end,
and a waiting gang is looked at in all of them. Nothing is left to chance: what is drawn follows
from names, so the same snapshot gives the same futures.

It must not know which gangs wait, or what is planned and promised.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from zlib import crc32

from bastion.scheduler.runs import Runs, kind_of
from bastion.scheduler.state.holders.running import Running
from bastion.value import value

WORLDS = 3
"""Odd, so that one is in the middle; the first and the last leave out a sixth of what may be."""
ENOUGH = 3
"""Runs that took longer than a job has so far; where there are fewer, more kinds are looked at."""


@value
class LikelyEnd:
    """When a running gang will have ended, in each of the futures."""

    at: tuple[float, ...]
    """Future by future, in store's seconds; all are later than now."""
    runs: int
    """Earlier ones that it rests on."""


class Likely:
    """What earlier runs tell of running gangs."""

    def __init__(self, runs: Mapping[str, Runs], now: float) -> None:
        self._now = now
        self._lengths: dict[str, list[int]] = {}
        for kind, each in runs.items():
            for name in _wider(kind):
                self._lengths.setdefault(name, []).extend(each.lengths)
        for lengths in self._lengths.values():
            lengths.sort()

    def end_of(self, running: Running) -> LikelyEnd | None:
        """
        When `running` will likely have ended; None where nothing near it ran for so long.

        A gang ends with the last of its jobs.
        """
        if not self._lengths or running.is_leaving:
            return None
        ran_s = self._now - running.started_at
        found = {kind: self._longer(kind, ran_s) for kind in map(kind_of, running.jobs)}
        if not all(found.values()):
            return None
        drawn = crc32(running.name.encode()) / 2**32
        at = []
        for world in range(WORLDS):
            part = (drawn + world / WORLDS) % 1.0
            most_s = max(lengths[int(part * len(lengths))] for lengths in found.values())
            at.append(running.started_at + most_s)
        return LikelyEnd(at=tuple(at), runs=min(map(len, found.values())))

    def _longer(self, kind: str, ran_s: float) -> Sequence[int]:
        """Lengths above `ran_s`: of its kind if they are enough, else of more and more others."""
        longer: Sequence[int] = ()
        for name in _wider(kind):
            lengths = self._lengths.get(name, [])
            longer = lengths[bisect_right(lengths, ran_s) :]
            if len(longer) >= ENOUGH:
                break
        return longer


def _wider(kind: str) -> Iterator[str]:
    """The kind, all of its user, all of its project."""
    project, user, _ = kind.split("/")
    yield kind
    yield f"{project}/{user}"
    yield project
