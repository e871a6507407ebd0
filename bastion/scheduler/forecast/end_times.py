"""
When running gangs will probably end, judged by how long earlier runs of their kind took.

An end is not one number: `WORLDS` futures are drawn. In each of them every running gang has an end,
and a waiting gang is checked in all of them. The draws depend on names, not on chance, so the same
snapshot gives the same futures.

This module must not know which gangs wait, or what is planned and promised.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from zlib import crc32

from bastion.scheduler.runs import Runs, kind_of
from bastion.scheduler.state.holders.running import Running
from bastion.value import value

WORLDS = 3
"""Odd, so that one is in the middle; the first and the last each leave out a sixth of the range."""
ENOUGH = 3
"""Runs needed that took longer than the job has so far; with fewer, more kinds are consulted."""


@value
class LikelyEnd:
    """When a running gang will have ended, in each of the futures."""

    at: tuple[float, ...]
    """One per future, in seconds of the store's clock; all are later than now."""
    runs: int
    """The number of earlier runs that it rests on."""


class Likely:
    """What earlier runs predict for running gangs."""

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
        Return when `running` will probably end; None if no comparable run was that long.

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
        """Return lengths above `ran_s`: of its kind if those suffice, else of wider kinds."""
        longer: Sequence[int] = ()
        for name in _wider(kind):
            lengths = self._lengths.get(name, [])
            longer = lengths[bisect_right(lengths, ran_s) :]
            if len(longer) >= ENOUGH:
                break
        return longer


def _wider(kind: str) -> Iterator[str]:
    """Yield the kind, then all kinds of its user, then all of its project."""
    project, user, _ = kind.split("/")
    yield kind
    yield f"{project}/{user}"
    yield project
