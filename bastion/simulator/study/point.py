"""`Point`: one simulation of a study, and `Runs`: the outcome of several."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from bastion.errors import BastionError
from bastion.simulator.engine.result import Result
from bastion.simulator.setup import Setup
from bastion.simulator.workload.job import Workload
from bastion.simulator.workload.load import Load
from bastion.value import value

Told = Callable[[Sequence[float]], None]
"""Called with the progress of each point: fractions of its jobs that have ended."""


@value
class Point:
    """One simulation of a study. It is plain data, so another process can run it."""

    setup: Setup
    workload: Workload
    load: Load | None = None
    """In a sweep of loads."""
    names: tuple[str, ...] = ()
    """IDs of the jobs by index, if ties must go by them; numbers by default."""


@value
class Runs:
    """The outcome of the points of a study."""

    points: Sequence[Point]
    """Those that gave a result, in their original order."""
    results: Sequence[Result]
    """One per point."""
    failed: Mapping[str, BastionError]
    """Why a point gave no result, by its label."""
    left_out: Sequence[str] = ()
    """Labels of the points without a result because of an interrupt."""


def labelled(points: Sequence[Point]) -> list[Point]:
    """Return `points` with labels that distinguish them."""
    has_loads = len({point.load for point in points}) > 1
    found: list[Point] = []
    seen = Counter[str]()
    for point in points:
        label = point.setup.name
        if point.load is not None and has_loads:
            label = f"{label} at {point.load}"
        seen[label] += 1
        if seen[label] > 1:
            label = f"{label} ({seen[label]})"
        found.append(replace(point, setup=replace(point.setup, label=label)))
    return found
