"""
The limits of a scheduler cycle and its measured time: one table, each row met or missed.

    python -m benchmarks.scheduler [--only TEXT] [--search N] [--long] [--trace PHILLY.csv]

Milliseconds and seconds are CPU time, medians of several runs; for a hard state, that of its
longest cycle. `--search` changes a small state at random N times and reports the worst it found. It
counts function calls, so the result is the same on every machine. `--long` adds whole simulations,
which take minutes; one of them needs the trace.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import cache
from statistics import median
from typing import NamedTuple

from bastion.scheduler.cycle import decide
from bastion.scheduler.snapshot import Snapshot
from bastion.scheduler.state.memory.memory import Memory
from bastion.simulator import Recipe
from benchmarks.decide import (
    NOW,
    admitted,
    changed,
    cycle_ms,
    little_changed_s,
    snapshot_of,
)
from benchmarks.shapes import SHAPES, Cycles, Shape, cycles_of, milliseconds, search
from benchmarks.simulate import philly, rounds
from benchmarks.table import show

WAITED_S = 14_400.0
"""Twice the time until a gang is due for a planned start."""
SMALL = Shape()
"""Where the search begins."""
PROMISED = "cycles until all are promised"
RUNS = 3
"""Of a hard state; all runs go through the same cycles."""


class Limit(NamedTuple):
    """What is measured of one state, and its limit."""

    what: str
    wanted: float
    unit: str
    measure: Callable[[], float]

    def row(self) -> dict[str, object]:
        """Measure it."""
        measured = self.measure()
        return {
            "what": self.what,
            "unit": self.unit,
            "wanted": self.wanted,
            "measured": measured,
            "": "met" if measured <= self.wanted else "MISSED",
        }


def everyday(jobs: int, wanted: tuple[float, float, float], aged: float) -> Iterator[Limit]:
    """Yield the everyday states, from no change to a cold start: 100 projects, 1,000 machines."""
    name = f"{jobs:,} jobs"

    def little() -> float:
        return 1_000 * little_changed_s(full_of(jobs))

    def long_waiting() -> float:
        return 1_000 * little_changed_s(waited(full_of(jobs)))

    yield Limit(f"{name}, little changed", wanted[0], "ms", little)
    yield Limit(f"{name}, little changed, all have waited for hours", aged, "ms", long_waiting)
    yield Limit(f"{name}, nothing changed", wanted[1], "ms", lambda: unchanged_ms(full_of(jobs)))
    yield Limit(f"{name}, from nothing", wanted[2], "ms", lambda: cycle_ms(3, snapshot_of(jobs)))


@cache
def full_of(jobs: int) -> Snapshot:
    """Return a state with all machines in use, except what ten jobs left; the other jobs wait."""
    return changed(admitted(snapshot_of(jobs)))


def waited(snapshot: Snapshot) -> Snapshot:
    """Return a state in which all waiting jobs arrived hours ago."""
    jobs = {
        name: job if job.is_admitted else replace(job, queued_at=job.queued_at - WAITED_S)
        for name, job in snapshot.jobs.items()
    }
    return replace(snapshot, jobs=jobs)


def unchanged_ms(snapshot: Snapshot, cycles: int = 5) -> float:
    """Return the milliseconds of a cycle that finds everything as the last one left it."""
    memory = Memory()
    for number in range(3):
        snapshot = admitted(snapshot, decide(snapshot, NOW + number, memory))
    decide(snapshot, NOW + 3, memory)
    found = [milliseconds(lambda: decide(snapshot, NOW + 4, memory))[0] for _ in range(cycles)]
    return median(found)


def hard(name: str, wanted_s: float) -> Iterator[Limit]:
    """Yield the longest cycle of a hard state, and how soon all its promises were made."""
    runs: list[Cycles] = []

    def longest_s() -> float:
        runs[:] = [cycles_of(SHAPES[name]) for _ in range(RUNS)]
        longest: float = max(median(costs) for costs in zip(*(run.costs for run in runs)))
        return longest / 1_000

    yield Limit(name, wanted_s, "s a cycle", longest_s)
    if name in PROMISED_AFTER:
        yield Limit(name, PROMISED_AFTER[name], PROMISED, lambda: runs[0].promised_after)


def simulations(trace: str) -> Iterator[Limit]:
    """Yield whole simulations, event by event and in rounds."""
    busy = Recipe(jobs=13_600, per_hour=8.0)

    def seconds(row: dict[str, object]) -> float:
        return float(str(row["seconds"]))

    yield Limit(
        "rounds of 300 s, LAS, 13,600 jobs", 25, "s", lambda: seconds(rounds(busy, strict=False))
    )
    if trace:
        yield Limit(
            "Philly on 64 machines of eight", 40, "s", lambda: seconds(philly(trace, "64x8", 0))
        )


WANTED_S = {
    "half the projects return, 1,000 machines": 0.3,
    "half the projects return, 2,000 machines": 0.3,
    "no two alike, 1,000 jobs": 0.2,
    "no two alike, 4,000 jobs": 0.4,
    "no two alike, 10,000 jobs": 0.6,
}
"""Of the hard states; half a second for the others."""
PROMISED_AFTER = {
    "half the projects return, 1,000 machines": 5,
    "half the projects return, 2,000 machines": 5,
    "gangs return": 5,
    "99 projects return to what one borrows": 12,
}
"""Maximum number of cycles after which everything is promised."""


def limits(*, is_long: bool, trace: str) -> Iterator[Limit]:
    """Yield all limits, in the order of the table."""
    yield from everyday(10_000, (25, 5, 150), aged=25)
    yield from everyday(50_000, (60, 5, 500), aged=60)
    for name in SHAPES:
        yield from hard(name, WANTED_S.get(name, 0.5))
    if is_long:
        yield from simulations(trace)


def worst(tries: int) -> dict[str, object]:
    """Return the worst small state that a search found, and the time of its longest cycle here."""
    calls, shape = search(tries, SMALL)
    plain = {name: getattr(SMALL, name) for name in shape.__dataclass_fields__}
    differs = {name: getattr(shape, name) for name in plain if getattr(shape, name) != plain[name]}
    return {
        "changes": tries,
        "calls": int(calls),
        "ms": max(cycles_of(shape).costs),
        "worst": ", ".join(f"{name}={each}" for name, each in differs.items()) or "as it began",
    }


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the table; return 1 if anything is missed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="", help="rows with this text")
    parser.add_argument("--search", type=int, default=0, metavar="N", help="changes to try")
    parser.add_argument("--long", action="store_true", help="whole simulations, too")
    parser.add_argument("--trace", default="", help="the Philly trace, for --long")
    given = parser.parse_args(arguments)
    if given.search:
        show([worst(given.search)])
        return 0
    wanted = limits(is_long=given.long, trace=given.trace)
    rows = [limit.row() for limit in wanted if given.only in limit.what]
    show(rows)
    return int(any(row[""] == "MISSED" for row in rows))


if __name__ == "__main__":
    raise SystemExit(main())
