"""The speed of simulations: the Philly trace, rounds of published studies, and growth per job."""

from __future__ import annotations

import argparse
import resource
from collections.abc import Iterator
from dataclasses import replace
from time import process_time

from bastion.simulator import Recipe, Workload, generated, read_trace
from bastion.simulator.cluster.words import cluster_of
from bastion.simulator.run import simulated
from bastion.simulator.setup import Setup
from benchmarks.table import show

Row = dict[str, object]


def timed(what: str, setup: Setup, workload: Workload, wanted_s: float | None = None) -> Row:
    """
    Measure the CPU seconds of one simulation, on one core, and its outcome.

    Args:
        what: Names the row.
        setup: Its machines and policies.
        workload: Its jobs.
        wanted_s: The intended time, if there is one.
    """
    began = process_time()
    result = simulated(setup, workload)
    seconds = process_time() - began
    jobs = len(workload.jobs)
    return {
        "what": what,
        "jobs": jobs,
        "seconds": seconds,
        "wanted_s": "" if wanted_s is None else wanted_s,
        "ms_a_job": 1000 * seconds / jobs,
        "cycles": result.cycles,
        "ms_a_cycle": 1000 * seconds / max(1, result.cycles),
        "waiting": int(max(result.series.columns["waiting"], default=0.0)),
        "preemptions": sum(each.preemptions for each in result.jobs),
        "peak_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
    }


def philly(path: str, machines: str, first: int) -> Row:
    """Measure the first jobs of the trace, or all of it, with the default policy."""
    trace = read_trace(path)
    jobs = list(trace.jobs[:first]) if first else list(trace.jobs)
    setup = Setup(cluster=cluster_of(machines))
    wanted_s = None if first else 40.0
    return timed(f"Philly on {machines}", setup, replace(trace, jobs=jobs), wanted_s)


def rounds(recipe: Recipe, *, strict: bool) -> Row:
    """Measure LAS in rounds of 300 s on 32 machines of four."""
    setup = Setup(cluster=cluster_of("32x4"), order="las", round_s=300.0, strict_walk=strict)
    walk = "strict walk" if strict else "the scheduler's cycle"
    tracked = ", 1,001 tracked" if recipe.tracked else ""
    noun = "job" if recipe.per_hour == 1 else "jobs"
    what = f"LAS, {recipe.per_hour:g} {noun} an hour{tracked}, {walk}"
    wanted_s = 1.0 if recipe.tracked else 20.0 * recipe.jobs / 13_600
    return timed(what, setup, generated(recipe, 128), wanted_s)


def growth() -> Iterator[Row]:
    """
    Measure the same overload for increasing durations: the cost per job should not grow.

    The backlog grows. Under the default policy projects have shares: jobs borrow, and get promises
    and planned starts.
    """
    for jobs in (125, 250, 500, 1000):
        workload = generated(Recipe(jobs=jobs, load=2.0, projects=12, seed=3), 32)
        yield timed("default policy, load 2", Setup(cluster=cluster_of("4x8")), workload)
    for jobs in (250, 500, 1000, 2000):
        workload = generated(Recipe(jobs=jobs, load=2.0), 32)
        yield timed("FIFO, load 2", Setup(cluster=cluster_of("4x8"), order="fifo"), workload)
    for jobs in (1000, 2000, 4000, 8000):
        workload = generated(Recipe(jobs=jobs, load=1.2), 128)
        setup = Setup(cluster=cluster_of("32x4"), order="las", round_s=300.0)
        yield timed("LAS in rounds, load 1.2", setup, workload)


def main() -> None:
    """Print the tables; `--trace` names the Philly trace, which is not part of the repository."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--trace", default="", help="the Philly trace")
    parser.add_argument("--first", type=int, default=0, help="only so many jobs of it")
    parser.add_argument("--rounds", type=int, default=13_600, help="jobs of the study at 8 an hour")
    given = parser.parse_args()
    quiet = Recipe(jobs=4001, per_hour=1.0, tracked=(3000, 4000))
    busy = Recipe(jobs=given.rounds, per_hour=8.0)
    rows = [rounds(recipe, strict=strict) for recipe in (quiet, busy) for strict in (False, True)]
    if given.trace:
        rows += [philly(given.trace, machines, given.first) for machines in ("64x8", "370x8")]
    show(rows)
    show(list(growth()))


if __name__ == "__main__":
    main()
