"""
`WaitingLines`: which waiting jobs the scheduler is shown.

Jobs of one project and user that request the same resources are in one line, in order of
submission. A cycle cannot start more jobs of a line than fit on all machines together, and whatever
it keeps for later it keeps for the first of a line. Therefore only that many of each line are
shown. A job with a promise or a planned start is always shown, because a preempted job of its line
is placed before it. The scheduler then decides as if it saw all jobs (see docs/decisions/0028), and
a cycle does not cost more as the backlog grows.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Mapping

from bastion.job import JobRecord
from bastion.simulator.engine.jobs.life import Life

Place = tuple[float, str, Life]
"""(submitted, id, job): the order of a line; no two ids are equal."""


def _place_of(life: Life) -> Place:
    return life.record.submitted_at, life.record.id, life


class _Line:
    __slots__ = ("most", "places", "shown")

    def __init__(self, most: int) -> None:
        self.most = most
        self.places: list[Place] = []
        self.shown = 0
        """How many of the first places are shown."""


class WaitingLines:
    """
    The waiting jobs, and which of them could start.

    Args:
        jobs: The records that the scheduler is shown; kept up to date with the jobs that wait here.
        shows_all: Show all jobs, as is necessary if an order changes while jobs wait.
    """

    def __init__(self, jobs: dict[str, JobRecord], *, shows_all: bool = False) -> None:
        self._jobs = jobs
        self._shows_all = shows_all
        self._lines: dict[tuple[object, ...], _Line] = {}
        self._kept: Mapping[str, Life] = {}
        """Jobs that are shown in any position."""
        self.count = 0
        self.devices = 0

    def add(self, life: Life, most: int) -> None:
        """
        Add a waiting job.

        Args:
            life: Its record says what it requests.
            most: How many such jobs fit on all machines.
        """
        record = life.record
        key = (record.project, record.user, id(record.request))
        line = self._lines.get(key)
        if line is None:
            line = self._lines[key] = _Line(2**62 if self._shows_all else most)
        life.line = line
        place = _place_of(life)
        insort(line.places, place)
        self.count += 1
        self.devices += life.job.devices
        self._show(line, place)

    def _show(self, line: _Line, place: Place) -> None:
        if line.shown < line.most:
            self._jobs[place[1]] = place[2].record
            line.shown += 1
        elif place < line.places[line.most]:
            self._jobs[place[1]] = place[2].record
            self._hide(line.places[line.most][1])

    def _hide(self, name: str) -> None:
        if name not in self._kept:
            self._jobs.pop(name, None)

    def keep(self, kept: Mapping[str, Life]) -> None:
        """Show these by name in any position, and no longer those that were kept before."""
        before, self._kept = self._kept, kept
        for name, life in before.items():
            line = life.line
            if isinstance(line, _Line) and bisect_left(line.places, _place_of(life)) >= line.most:
                self._hide(name)
        for name, life in kept.items():
            if life.line is not None:
                self._jobs[name] = life.record

    def remove(self, life: Life) -> None:
        """Remove a job that no longer waits; the next of its line is shown instead."""
        line = life.line
        assert isinstance(line, _Line)
        record = life.record
        at = bisect_left(line.places, _place_of(life))
        assert line.places[at][2] is life
        del line.places[at]
        life.line = None
        self.count -= 1
        self.devices -= life.job.devices
        self._jobs.pop(record.id, None)  # one that has a promise may be hidden as it starts
        if len(line.places) >= line.most:
            following = line.places[line.most - 1]
            self._jobs[following[1]] = following[2].record
        else:
            line.shown -= 1
