"""
When a waiting gang will probably start: by limits, and by how long earlier runs took.

Nothing but `Wait` comes of it: who starts, who is stopped, what is promised and planned rests on
limits alone, so a wrong guess costs nobody his place.

It must not change anything: what it tries, it undoes.
"""

from __future__ import annotations

import math
from functools import cached_property

from bastion.scheduler.draft import Draft
from bastion.scheduler.likely import WORLDS, Likely, LikelyEnd
from bastion.scheduler.order import Line
from bastion.scheduler.planned import ends_at, fit_after
from bastion.scheduler.running import Running
from bastion.value import value
from quota.amounts import Amounts

AGAIN_S = 60.0
"""An estimate that has passed is made anew, but not within this time of the one before."""


@value
class Estimate:
    """A probable start."""

    at: float
    """In store's seconds."""
    rests_on: int = 0
    """Earlier runs of the job that has to end last; 0: it rests on limits alone."""
    off_by_s: float = 0.0
    """How far from it the start may be: four of five futures lie nearer."""


class Estimates:
    """The estimates of one cycle."""

    def __init__(self, draft: Draft) -> None:
        self._draft = draft
        self.passes_at = math.inf
        """When the first of those that rest on earlier runs is to be made anew."""

    @cached_property
    def _likely(self) -> Likely:
        return Likely(self._draft.snapshot.runs, self._draft.now)

    @cached_property
    def _asked(self) -> dict[str, list[Amounts]]:
        """What those wait for, by project, who may start within its share."""
        asked: dict[str, set[Amounts]] = {}
        for line in self._draft.blocked:
            if not line.is_over:
                asked.setdefault(line.project, set()).add(self._draft.asks(line.shape))
        return {name: list(each) for name, each in asked.items()}

    def _is_taken_again(self, running: Running) -> bool:
        """Whether its own project has somebody waiting for what `running` leaves of its share."""
        shares = self._draft.shares
        asked = self._asked.get(running.project)
        if not asked:
            return False
        nominal = shares.project(running.project).nominal
        left = shares.held(running.project) - running.held
        return any(each and nominal.holds(left, each) for each in asked)

    def of(self, line: Line) -> Estimate | None:
        """When the head of `line` will probably start; None where nobody knows."""
        known: list[tuple[float, LikelyEnd | None, Running]] = []
        runs = self._draft.snapshot.runs
        for running in self._draft.running.values():
            if running.project != line.project and self._is_taken_again(running):
                continue
            likely = self._likely.end_of(running) if runs and not running.is_leaving else None
            known.append((ends_at(self._draft, running, line.shape), likely, running))
        worlds = WORLDS if any(likely for _, likely, _ in known) else 1
        starts = [start for world in range(worlds) if (start := self._start(line, known, world))]
        if 2 * len(starts) <= worlds:
            return None
        starts.sort()
        at, rests_on = starts[len(starts) // 2]
        if not rests_on:
            return Estimate(at=at)
        self.passes_at = min(self.passes_at, max(at, self._draft.now + AGAIN_S))
        off_by_s = max(at - starts[0][0], starts[-1][0] - at)
        return Estimate(at=at, rests_on=rests_on, off_by_s=off_by_s)

    def _start(
        self, line: Line, known: list[tuple[float, LikelyEnd | None, Running]], world: int
    ) -> tuple[float, int] | None:
        """When it starts in one future, and how many runs the last end before it rests on."""
        ends = []
        runs = {}
        for limit, likely, running in known:
            end = limit
            if likely is not None and likely.at[world] < limit:
                end = likely.at[world]
                runs[running.name] = likely.runs
            ends.append((end, running.name, running))
        found = fit_after(self._draft, line, ends)
        if found is None:
            return None
        at, _, gone = found
        return at, next((runs[r.name] for r in reversed(gone) if r.name in runs), 0)
