"""
When waiting gangs will probably start: by limits, and by how long earlier runs took.

Only `Wait` uses it. Starts, preemptions, promises and plans depend on limits alone, so a wrong
guess costs no job its place.

This module must not change anything: whatever it tries, it undoes.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import cache
from itertools import islice

from bastion.scheduler.forecast.end_times import WORLDS, Likely, LikelyEnd
from bastion.scheduler.forecast.playout import ExpectedEnd, Future
from bastion.scheduler.plan import Estimate
from bastion.scheduler.queue.order import Line
from bastion.scheduler.state.draft import Draft
from bastion.scheduler.state.holders.running import Running
from bastion.value import value
from quota.amounts import Amounts

LOOKS = 1_000
"""The most waiting lines times running gangs examined: with many running, few get an estimate."""
MIN_LINES, MAX_LINES = 2, 32
"""The most lines examined, however much or little runs."""
MAX_STARTS = 16
"""The most starts found in one future: later ones are too far away to predict."""
STRETCH = 1.5
"""
A fraction of the distance between futures, which ignore jobs that will be submitted or preempted.

With it, half to two thirds of first estimates are as near as they claim. Source:
benchmarks/estimates.py.
"""
AGAIN_S = 60.0
"""An estimate that has passed is recomputed, but not within this time of the previous one."""


@value
class Estimates:
    """The estimates of one cycle."""

    starts: Mapping[str, Estimate]
    """By the first job of a gang."""
    passes_at: float = math.inf
    """When the first of those that rest on earlier runs must be recomputed."""


def estimates(draft: Draft, waiting: Iterable[Line]) -> Estimates:
    """
    Estimate the starts of waiting gangs, as far as they are known and cheap to find.

    Args:
        draft: Left unchanged.
        waiting: Lines that time alone may release, in the order in which the cycle considered them;
            read only as far as starts are searched.
    """
    lines = _first(draft, waiting) if draft.running else []
    if not lines:
        return Estimates(starts={})
    ends = _known_ends(draft, lines)
    worlds = WORLDS if any(likely for _, likely, _ in ends) else 1
    at_most = min(MAX_STARTS, 2 * len(lines))
    found: dict[str, list[tuple[float, int]]] = {}
    for world in range(worlds):
        future = Future(draft, lines, at_most)
        future.play(_ends_in(world, ends))
        for name, start in future.starts.items():
            found.setdefault(name, []).append((start.at, start.runs))
    starts = {name: _middle(sorted(each)) for name, each in found.items() if 2 * len(each) > worlds}
    soonest = min((each.at for each in starts.values() if each.rests_on), default=math.inf)
    return Estimates(starts=starts, passes_at=max(soonest, draft.now + AGAIN_S))


def _middle(starts: list[tuple[float, int]]) -> Estimate:
    at, rests_on = starts[len(starts) // 2]
    if not rests_on:
        return Estimate(at=at)
    off_by_s = STRETCH * max(at - starts[0][0], starts[-1][0] - at)
    return Estimate(at=at, rests_on=rests_on, off_by_s=off_by_s)


def _first(draft: Draft, lines: Iterable[Line]) -> list[Line]:
    at_most = min(MAX_LINES, max(MIN_LINES, LOOKS // len(draft.running)))
    return list(islice((line for line in lines if not line.fail_when_busy), at_most))


_Known = tuple[float, LikelyEnd | None, Running]
"""When a running gang has ended at the latest, and when by earlier runs."""


def _known_ends(draft: Draft, lines: Sequence[Line]) -> list[_Known]:
    """Return the known ends of running gangs that free anything for `lines`."""
    own = {line.project for line in lines}
    asked = _asked(draft, without=own)
    likely = Likely(draft.snapshot.runs, draft.now)

    @cache
    def is_taken_again(project: str, held: Amounts) -> bool:
        return _is_taken_again(draft, project, held, asked)

    ends = ((draft.ends_at(r), likely.end_of(r), r) for r in draft.running.values())
    return [
        (limit, end, running)
        for limit, end, running in ends
        if (end is not None or not math.isinf(limit))
        and (running.project in own or not is_taken_again(running.project, running.held))
    ]


def _ends_in(world: int, ends: Iterable[_Known]) -> Iterator[tuple[ExpectedEnd, Running]]:
    """Yield when each gang has ended in that future."""
    for limit, likely, running in ends:
        if likely is not None and likely.at[world] < limit:
            yield ExpectedEnd(at=likely.at[world], runs=likely.runs), running
        else:
            yield ExpectedEnd(at=limit), running


def _asked(draft: Draft, *, without: Collection[str]) -> dict[str, list[Amounts]]:
    """Return what projects other than those wait for."""
    forms = {
        (line.project, line.shape.form): line.shape
        for line in draft.blocked
        if line.project not in without and not line.is_over
    }
    asked: dict[str, list[Amounts]] = {}
    for (project, _), shape in forms.items():
        asked.setdefault(project, []).append(draft.asks(shape))
    return asked


def _is_taken_again(
    draft: Draft, project: str, held: Amounts, asked: Mapping[str, Sequence[Amounts]]
) -> bool:
    """Whether a gang of `project` waits for the part of the share that the end of `held` frees."""
    nominal, left = draft.shares.project(project).nominal, draft.shares.held(project) - held
    return any(each and nominal.holds(left, each) for each in asked.get(project, ()))
