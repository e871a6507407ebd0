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
from bastion.scheduler.planned import ends_at, first_fit, fit_after
from bastion.scheduler.running import Running
from bastion.value import value

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

    def of(self, line: Line) -> Estimate | None:
        """When the head of `line` will probably start; None where nobody knows."""
        if not self._draft.snapshot.runs:
            return self._by_limits(line)
        return self._by_runs(line)

    def _by_limits(self, line: Line) -> Estimate | None:
        found = first_fit(self._draft, line)
        return None if found is None else Estimate(at=found[0])

    def _by_runs(self, line: Line) -> Estimate | None:
        """The middle one of the futures."""
        draft = self._draft
        known: list[tuple[float, LikelyEnd | None, Running]] = []
        for running in draft.running.values():
            likely = None if running.is_leaving else self._likely.end_of(running)
            known.append((ends_at(draft, running, line.shape), likely, running))
        if not any(likely for _, likely, _ in known):
            return self._by_limits(line)
        starts = [start for world in range(WORLDS) if (start := self._start(line, known, world))]
        if 2 * len(starts) <= WORLDS:
            return None
        starts.sort()
        at, runs = starts[len(starts) // 2]
        if not runs:
            return Estimate(at=at)
        self.passes_at = min(self.passes_at, max(at, draft.now + AGAIN_S))
        off_by_s = max(at - starts[0][0], starts[-1][0] - at)
        return Estimate(at=at, rests_on=runs, off_by_s=off_by_s)

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
