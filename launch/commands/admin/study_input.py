"""The input of `simulate`: machines, jobs, policies and costs, and its problems."""

from __future__ import annotations

import argparse
import os
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from launch.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bastion.simulator.cluster.cluster import Cluster
    from bastion.simulator.engine.jobs.costs import Costs
    from bastion.simulator.expectations import Limits
    from bastion.simulator.setup import Setup
    from bastion.simulator.study.point import Point
    from bastion.simulator.workload.job import Workload
    from bastion.simulator.workload.load import Load
    from quota import Quota

COSTS = ("start", "restart", "leave", "checkpoint", "mtbf", "repair", "stockout", "stockout_s")


_DRAWN = {
    "load": "",
    "jobs": 1000,
    "arrivals": "poisson",
    "sizes": "one",
    "projects": 1,
    "users": 1,
    "skew": "",
}
"""The flags that say how jobs are generated -> their defaults."""
_MOST_MACHINES = 10_000
_MOST_S = 10**9
"""Thirty years, which means never: a larger number on the clock loses precision."""


def check_places(args: argparse.Namespace) -> None:
    """
    Check that the results can be written after the simulations.

    Raises:
        UsageError: A file or a folder cannot be written.
        SpecError: The library for charts is not installed.
    """
    for flag in ("report", "jobs_json"):
        written = getattr(args, flag)
        if not written:
            continue
        path = Path(written)
        folder = path.parent
        if path.is_dir():
            raise UsageError(f"--{flag}: {path} is a folder", hint="name a file in it")
        if not folder.is_dir():
            raise UsageError(f"--{flag}: {folder}: no such folder", hint=f"mkdir -p {folder}")
        if not os.access(path if path.exists() else folder, os.W_OK):
            raise UsageError(f"--{flag}: {path} is not writable")
    if args.export and Path(args.export).exists() and not Path(args.export).is_dir():
        raise UsageError(f"--export: {args.export} is a file", hint="name a folder")
    if args.export:
        _check_folder(args.export)
    elif args.format != "png":
        raise UsageError("--format needs --export", hint="add --export=FOLDER")
    if args.report or args.export:
        from bastion.simulator.report.charts import altair

        altair()


def _check_folder(export: str) -> None:
    """Check that the folder can be created, without leaving it behind."""
    path, missing = Path(export), list[Path]()
    try:
        missing = [each for each in (path, *path.parents) if not each.exists()]
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(f"--export: {export}: {error.strerror}") from None
    finally:
        for each in missing:
            with suppress(OSError):
                each.rmdir()


def points_of(args: argparse.Namespace) -> list[Point]:
    """Return every requested simulation; problems of the input are raised first."""
    from bastion.simulator.cluster.words import cluster_of
    from bastion.simulator.setup import parts_of, quota_of
    from bastion.simulator.study.point import Point, labelled

    if not args.machines:
        raise UsageError("simulate: no machines given", hint="add --machines=64x8")
    cluster = cluster_of(args.machines)
    base = setup_of(args, cluster)
    setups = ways_of(args, base)
    found = [
        Point(setup=setup, workload=workload, load=load)
        for load, workload in _workloads(args, cluster, base.quota)
        for setup in setups
    ]
    for setup in setups:
        parts_of(setup, quota_of(setup, found[0].workload))
    return labelled(found)


def ways_of(args: argparse.Namespace, base: Setup) -> list[Setup]:
    """Return `base` with every combination of the requested policies."""
    from bastion.simulator.study.points import combined

    return combined(
        base,
        orders=words_of(args.order.lower()),
        policies=args.policy,
        admissions=words_of(args.admission.lower()),
        placements=words_of(args.placement.lower()),
        preemptions=words_of(args.preemption.lower()),
    )


def setup_of(args: argparse.Namespace, cluster: Cluster) -> Setup:
    """Return the setup without policies and jobs."""
    from bastion.simulator.policies.synthesis import Synthesis
    from bastion.simulator.setup import Setup
    from bastion.simulator.workload.throughput import read_throughputs

    _check_numbers(args)
    quota = None
    if args.quota:
        from bastion.client.change.quota_file import parsed_quota
        from launch.commands.admin.quota import read_quota_file

        quota = parsed_quota(read_quota_file(args.quota), source=args.quota)
    return Setup(
        cluster=cluster,
        quota=quota,
        shares=args.shares,
        synthesis=Synthesis(
            every_s=float(args.every),
            ahead_s=float(args.ahead),
            by=args.by,
            knows_lengths=args.knows_lengths,
        ),
        throughputs=read_throughputs(args.throughput) if args.throughput else None,
        round_s=float(args.round or 0),
        strict_walk=args.strict_walk,
        costs=_costs(args),
        seed=args.seed,
        limits=_limits(args),
    )


def _check_numbers(args: argparse.Namespace) -> None:
    """Refuse invalid numbers of flags that no value class checks."""
    for flag, least in (("round", 0), ("first", 1), ("cores", 1)):
        number = getattr(args, flag)
        if number is not None and not least <= number <= _MOST_S:
            raise UsageError(f"--{flag}: {number} is not allowed; must be {least} to {_MOST_S}")


def _limits(args: argparse.Namespace) -> Limits | None:
    from bastion.simulator.expectations import Limits
    from bastion.spec.values.quantity import seconds_of

    if args.max_wait and not args.check:
        raise UsageError("--max_wait needs --check", hint="add --check")
    if not args.check:
        return None
    return Limits(max_wait_s=seconds_of("--max_wait", args.max_wait)) if args.max_wait else Limits()


def _costs(args: argparse.Namespace) -> Costs:
    from dataclasses import replace

    from bastion.simulator.engine.jobs.costs import IDEAL, Costs

    costs = IDEAL if args.ideal else Costs()
    given: dict[str, float] = {}
    for word in words_of(args.cost):
        name, _, written = word.partition("=")
        if name not in COSTS:
            from quota.choice import choose

            raise UsageError(f"--cost: {name!r} is unknown, {choose(name, COSTS)}")
        try:
            seconds = float(written)
        except ValueError:
            raise UsageError(f"--cost: {name}={written!r} is not a number of seconds") from None
        if not 0 <= seconds <= _MOST_S:
            raise UsageError(f"--cost: {name}={written} is not allowed; must be 0 to {_MOST_S}")
        given[name if name.startswith("stockout") else f"{name}_s"] = seconds
    return replace(costs, **given)


def _workloads(
    args: argparse.Namespace, cluster: Cluster, quota: Quota | None
) -> Sequence[tuple[Load | None, Workload]]:
    """Return what to run: a trace, or one synthetic workload per load."""
    from dataclasses import replace

    from bastion.simulator.fitting import fitted, fitting
    from bastion.simulator.workload.load import loads_of
    from bastion.simulator.workload.trace import read_trace

    if args.trace:
        check_not_drawn(args, "a trace")
        fits = fitting(cluster, quota=quota, anywhere=args.strict_walk)
        workload = read_trace(args.trace, skip_bad=args.skip_bad, fits=fits, first=args.first or 0)
        return [(None, _tracked(replace(workload, tracked=_track(args.track))))]
    if args.first:
        raise UsageError("--first needs a trace", hint=f"to generate as many: --jobs={args.first}")
    found = []
    for load in loads_of(args.load) if args.load else [None]:
        workload = _drawn(args, cluster, load)
        ready = fitted(
            workload, cluster, skip_bad=args.skip_bad, quota=quota, anywhere=args.strict_walk
        )
        found.append((load, _tracked(ready)))
    return found


def check_not_drawn(args: argparse.Namespace, whose: str) -> None:
    """
    Refuse flags for generated jobs if the jobs come from elsewhere.

    Raises:
        UsageError: One is given, and would have no effect.
    """
    for flag, usual in _DRAWN.items():
        if getattr(args, flag) != usual:
            is_trace = flag == "jobs" and args.trace
            hint = "for the first N jobs of a trace: --first=N" if is_trace else "omit one of them"
            raise UsageError(f"--{flag} is for generated jobs, and {whose} has its own", hint=hint)


def _tracked(workload: Workload) -> Workload:
    """
    Return `workload` after checking that it has the jobs to measure.

    Raises:
        UsageError: It does not: the numbers would be those of other jobs, or of none.
    """
    last = len(workload.jobs) - 1
    if workload.tracked is not None and workload.tracked[1] > last:
        low, high = workload.tracked
        raise UsageError(f"--track: {low}..{high} is not allowed; the jobs are 0..{last}")
    return workload


def _drawn(args: argparse.Namespace, cluster: Cluster, load: Load | None) -> Workload:
    """Return a synthetic workload."""
    from dataclasses import replace

    from bastion.simulator.workload.generate import Recipe, generated

    recipe = Recipe(
        jobs=args.jobs,
        arrivals=args.arrivals,
        sizes=args.sizes,
        projects=args.projects,
        users=args.users,
        skew=_skew(args.skew),
        seed=args.seed,
        tracked=_track(args.track),
    )
    if load is not None and load.is_part:
        recipe = replace(recipe, load=load.number)
    elif load is not None:
        recipe = replace(recipe, per_hour=load.number)
    return generated(recipe, cluster.device_count, dict(cluster.totals.items()))


def _skew(written: str) -> float:
    try:
        return float(written or 1)
    except ValueError:
        raise UsageError(
            f"--skew: {written!r} is not a number", hint="such as --skew=1.5; 0 for all alike"
        ) from None


def _track(written: str) -> tuple[int, int] | None:
    if not written:
        return None
    low, _, high = written.partition("..")
    if not (low.isdigit() and high.isdigit() and int(low) <= int(high)):
        raise UsageError(f"--track: {written!r} is not a range", hint="such as --track=3000..4000")
    return int(low), int(high)


def more_machines(written: str) -> dict[str, int]:
    """
    Return how many machines `--more` adds, by pool.

    Raises:
        UsageError: It is malformed.
    """
    found: dict[str, int] = {}
    for word in words_of(written):
        pool, _, count = word.partition("=")
        if not pool or not count.isdecimal() or not 0 < int(count) <= _MOST_MACHINES:
            raise UsageError(
                f"--more: {word!r} is not allowed; must be POOL=N with N from 1 to"
                f" {_MOST_MACHINES:,}, such as h100-pod=2"
            )
        found[pool] = found.get(pool, 0) + int(count)
    return found


def words_of(written: str) -> list[str]:
    """Return the words of a list separated by commas."""
    return [word.strip() for word in written.split(",") if word.strip()]
