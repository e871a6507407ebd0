"""`simulate`: a study from Python, in a notebook or a script."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from pathlib import Path

from bastion.errors import SpecError
from bastion.simulator.cluster.cluster import Cluster
from bastion.simulator.cluster.words import cluster_of
from bastion.simulator.engine.jobs.costs import IDEAL, Costs
from bastion.simulator.fitting import fitted, fitting
from bastion.simulator.policies.synthesis import HOURLY, Synthesis
from bastion.simulator.setup import SHARES, Setup, parts_of, quota_of
from bastion.simulator.study.compare import run_points
from bastion.simulator.study.point import Point, Runs, Told, labelled
from bastion.simulator.study.points import combined
from bastion.simulator.study.study import Study
from bastion.simulator.workload.job import Workload
from bastion.simulator.workload.throughput import read_throughputs
from bastion.simulator.workload.trace import read_trace
from quota import Quota, parse


def simulate(
    workload: Workload | str | Path,
    *,
    machines: Cluster | str,
    quota: Quota | str | Path | None = None,
    order: str | Sequence[str] = "",
    admission: str | Sequence[str] = "",
    placement: str | Sequence[str] = "",
    preemption: str | Sequence[str] = "",
    policy: str | Sequence[str] = (),
    synthesis: Synthesis = HOURLY,
    throughput: str | Path | None = None,
    round_s: float = 0.0,
    strict_walk: bool = False,
    costs: Costs = IDEAL,
    shares: str = "demand",
    seed: int = 1,
    cores: int = 0,
    on: str = "",
    told: Told | None = None,
) -> Study:
    """
    Simulate every combination of the given policies, on all cores, and return the study.

    Wrong arguments are reported before anything runs. A simulation that gives no result causes a
    warning, and is in `failed` of the study; the others are kept.

    Args:
        workload: A trace file, or a workload.
        machines: `64x8`, a TOML file, or a cluster.
        quota: A quota file, its path or a quota; by default a share is created for each project.
        order: Orders of the scheduler to compare.
        admission: Admissions to compare, such as `all` and `load-limit:1.2`.
        placement: Where jobs are placed; several to compare.
        preemption: Which jobs may preempt which; several to compare.
        policy: Your own orders to compare, `FILE.py:CLASS` or `synthesize:fifo,las`.
        synthesis: How `synthesize:` chooses.
        throughput: A file of throughputs by kind of job.
        round_s: Length of a round; 0 decides at every event.
        strict_walk: Stop each round at the first job that does not fit.
        costs: What starting and stopping cost; nothing by default.
        shares: Without a quota file: `demand`, `equal` or `one`.
        seed: Of machine failures.
        cores: How many simulations run at the same time; 0 for as many as there are.
        on: The URL of a bucket: each simulation is a task of an array there, with one CPU.
        told: Called with their progress.

    Raises:
        SpecError: An argument is wrong; lists every problem of a file.
        BastionError: No simulation gave a result.
    """
    if shares not in SHARES:
        raise SpecError(f"shares: {shares!r} is unknown, allowed are {', '.join(SHARES)}")
    cluster = cluster_of(machines) if isinstance(machines, str) else machines
    file = _quota(quota)
    workload = _fitted(workload, cluster, file, anywhere=strict_walk)
    setup = Setup(
        cluster=cluster,
        quota=file,
        shares=shares,
        synthesis=synthesis,
        throughputs=read_throughputs(throughput) if throughput is not None else None,
        round_s=round_s,
        strict_walk=strict_walk,
        costs=costs,
        seed=seed,
    )
    setups = combined(setup, *map(_several, (order, policy, admission, placement, preemption)))
    points = _points(setups, workload)
    return _whole(_on_pool(points, on, told) if on else run_points(points, cores=cores, told=told))


def _points(setups: Sequence[Setup], workload: Workload) -> list[Point]:
    """Return the simulations to run, each of which can be set up."""
    for each in setups:
        parts_of(each, quota_of(each, workload))
    return labelled([Point(setup=each, workload=workload) for each in setups])


def _on_pool(points: Sequence[Point], url: str, told: Told | None) -> Runs:
    from bastion.client import Client
    from bastion.simulator.study.on_pool.run import Pool, run_on_pool

    return run_on_pool(points, Pool(client=Client(url)), told=told)


def _whole(runs: Runs) -> Study:
    """Return the study of `runs`, with a warning for each point without a result."""
    study = Study(runs)
    for label, why in study.failed.items():
        warnings.warn(f"{label} gave no result: {why}", stacklevel=3)
    return study


def _fitted(
    workload: Workload | str | Path, cluster: Cluster, quota: Quota | None, *, anywhere: bool
) -> Workload:
    if isinstance(workload, Workload):
        return fitted(workload, cluster, quota=quota, anywhere=anywhere)
    return read_trace(workload, fits=fitting(cluster, quota=quota, anywhere=anywhere))


def _quota(written: Quota | str | Path | None) -> Quota | None:
    if isinstance(written, str | Path):
        return parse(Path(written).read_text(encoding="utf-8"))
    return written


def _several(written: str | Sequence[str]) -> tuple[str, ...]:
    return (written,) if isinstance(written, str) and written else tuple(written)
