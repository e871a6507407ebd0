"""What `simulate` is asked for: machines, jobs, policies and costs, with every problem of them."""

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
"""The flags that say how jobs are drawn -> what they are when they are not given."""
_MOST_MACHINES = 10_000
_MOST_S = 10**9
"""Thirty years, which stand for never: a clock that counts more no longer tells seconds."""


def check_places(args: argparse.Namespace) -> None:
    """
    See that what is written after the simulations can be.

    Raises:
        UsageError: A file or a folder cannot be written.
        SpecError: What draws charts is not installed.
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
            raise UsageError(f"--{flag}: {path}: may not be written")
    if args.export and Path(args.export).exists() and not Path(args.export).is_dir():
        raise UsageError(f"--export: {args.export} is a file", hint="name a folder")
    if args.export:
        _check_folder(args.export)
    elif args.format != "png":
        raise UsageError("--format is of --export", hint="give --export=FOLDER as well")
    if args.report or args.export:
        from bastion.simulator.report.charts import altair

        altair()


def _check_folder(export: str) -> None:
    """See that the folder can be made; a study that is refused leaves none behind."""
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
    """Every simulation that is asked for, with all problems of its input found first."""
    from bastion.simulator.cluster.words import cluster_of
    from bastion.simulator.setup import parts_of, quota_of
    from bastion.simulator.study.point import Point, labelled

    if not args.machines:
        raise UsageError("simulate: on which machines?", hint="--machines=64x8")
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
    """`base` with every combination of the policies that are asked for."""
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
    """Everything but the policies and the jobs."""
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
    """Refuse numbers that mean nothing, of flags that no value checks."""
    for flag, least in (("round", 0), ("first", 1), ("cores", 1)):
        number = getattr(args, flag)
        if number is not None and not least <= number <= _MOST_S:
            raise UsageError(f"--{flag}: {number} is not allowed; {least} to {_MOST_S}")


def _limits(args: argparse.Namespace) -> Limits | None:
    from bastion.simulator.expectations import Limits
    from bastion.spec.values.quantity import seconds_of

    if args.max_wait and not args.check:
        raise UsageError("--max_wait is of --check", hint="give --check as well")
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
            raise UsageError(f"--cost: {name}={written} is not allowed; 0 to {_MOST_S}")
        given[name if name.startswith("stockout") else f"{name}_s"] = seconds
    return replace(costs, **given)


def _workloads(
    args: argparse.Namespace, cluster: Cluster, quota: Quota | None
) -> Sequence[tuple[Load | None, Workload]]:
    """What is run: a trace, or one synthetic workload for each load."""
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
        raise UsageError("--first is of a trace", hint=f"--jobs={args.first} draws so many")
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
    See that no flag says how jobs are drawn, where there are jobs already.

    Raises:
        UsageError: One does, which would change nothing.
    """
    for flag, usual in _DRAWN.items():
        if getattr(args, flag) != usual:
            is_trace = flag == "jobs" and args.trace
            hint = "--first=N takes the first N of a trace" if is_trace else "leave one out"
            raise UsageError(f"--{flag} draws jobs, and {whose} has its own", hint=hint)


def _tracked(workload: Workload) -> Workload:
    """
    Return `workload`, of which the jobs that are measured are there.

    Raises:
        UsageError: They are not: the numbers would be those of other jobs, or of none.
    """
    last = len(workload.jobs) - 1
    if workload.tracked is not None and workload.tracked[1] > last:
        low, high = workload.tracked
        raise UsageError(f"--track: {low}..{high} is not allowed; the jobs are 0..{last}")
    return workload


def _drawn(args: argparse.Namespace, cluster: Cluster, load: Load | None) -> Workload:
    """A synthetic workload."""
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
            f"--skew: {written!r} is not a number", hint="--skew=1.5; 0: all alike"
        ) from None


def _track(written: str) -> tuple[int, int] | None:
    if not written:
        return None
    low, _, high = written.partition("..")
    if not (low.isdigit() and high.isdigit() and int(low) <= int(high)):
        raise UsageError(f"--track: {written!r} is not a range", hint="--track=3000..4000")
    return int(low), int(high)


def more_machines(written: str) -> dict[str, int]:
    """
    Return how many machines more `--more` asks for, by pool.

    Raises:
        UsageError: It is not written so.
    """
    found: dict[str, int] = {}
    for word in words_of(written):
        pool, _, count = word.partition("=")
        if not pool or not count.isdecimal() or not 0 < int(count) <= _MOST_MACHINES:
            raise UsageError(
                f"--more: {word!r} is not allowed; POOL=N with N from 1 to {_MOST_MACHINES:,},"
                " such as h100-pod=2"
            )
        found[pool] = found.get(pool, 0) + int(count)
    return found


def words_of(written: str) -> list[str]:
    """The words of a list with commas."""
    return [word.strip() for word in written.split(",") if word.strip()]
