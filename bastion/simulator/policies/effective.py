"""
`max-min` and `optimus` for jobs whose speed depends on their machines and number of devices.

The scheduler's own policies of these names treat all devices of a type as equal, because it knows
no more. A simulation knows throughputs, so here Gavel's linear program is solved for them, with
`linprog` of scipy (extra `sim`).

Source: Narayanan et al., Gavel, OSDI 2020, section 4.1, and its water filling (section 4.3): once
the smallest effective throughput is as large as possible, jobs that can have more get more.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from bastion.errors import SpecError
from bastion.job import JobRecord
from bastion.scheduler.policies.optimus import optimus
from bastion.scheduler.policies.order import OrderPolicy
from bastion.scheduler.policies.time_share import Ranks, asking_in, least_of_its_share_first
from bastion.scheduler.snapshot import Snapshot
from bastion.simulator.engine.speed import Speeds
from bastion.simulator.workload.job import TraceJob
from bastion.simulator.workload.throughput import Throughputs

JobOf = Callable[[str], TraceJob]
"""Returns the job of a workload, by the ID of its record."""
Class = tuple[int, tuple[float, ...]]
"""Of jobs that the linear program cannot distinguish: devices, and speed on each pool."""
_LEAST = 1e-7


def effective_max_min(speeds: Speeds, job_of: JobOf) -> OrderPolicy:
    """
    Return max-min fairness of effective throughput, over pools of several speeds.

    Args:
        speeds: How fast a job works on which pool.
        job_of: Returns the job of a record.

    Raises:
        SpecError: scipy is not installed.
    """
    linprog = _linprog()
    known: dict[object, list[float]] = {}

    def ranks(snapshot: Snapshot, now: float) -> Ranks:
        standing = Counter(m.pool for m in snapshot.machines.values() if m.accepts)
        shares: dict[str, float] = {}
        for kind, jobs in asking_in(snapshot).items():
            pools = [name for name in snapshot.pools if snapshot.pools[name].resources[kind]]
            there = [standing[name] * snapshot.pools[name].resources[kind] for name in pools]
            classes = [
                (each.devices, tuple(speeds.on(job_of(each.job.id), pool) for pool in pools))
                for each in jobs
            ]
            counts = Counter(classes)
            key = tuple(there), tuple(sorted(counts.items()))
            if key not in known:
                known[key] = fair_speeds([*sorted(counts.items())], there, linprog)
            by_class = dict(zip(sorted(counts), known[key]))
            shares |= {each.job.id: by_class[cls] for each, cls in zip(jobs, classes)}
        return least_of_its_share_first(shares, _work_received(snapshot, now, job_of))

    return OrderPolicy(ranks_of=ranks)


def effective_optimus(throughputs: Throughputs, job_of: JobOf) -> OrderPolicy:
    """Return Optimus with the measured throughput of each kind on that many devices."""

    def speed_of(record: JobRecord, devices: int) -> float:
        found = throughputs.scaled(job_of(record.id).kind, devices)
        return float(devices) if found is None else found

    return OrderPolicy(ranks_of=lambda snapshot, now: optimus(snapshot, now, speed_of))


def _work_received(snapshot: Snapshot, now: float, job_of: JobOf) -> Callable[[JobRecord], float]:
    """Return the work done per second since the submission: a job's effective throughput so far."""

    def received(job: JobRecord) -> float:
        passed = now - job.submitted_at
        done = snapshot.reports.get(job.id, {}).get("progress", 0.0) * job_of(job.id).duration_s
        return done / passed if passed > 0 else 0.0

    return received


def fair_speeds(
    classes: Sequence[tuple[Class, int]], there: Sequence[int], linprog: Any
) -> list[float]:
    """
    Return the effective throughput of one job of each class: work per second, over all its time.

    Args:
        classes: What jobs request, and how many jobs of each there are.
        there: Devices of each pool.
        linprog: Of scipy.
    """
    total = sum(there) or 1
    weights = [
        devices / (sum(s * n / total for s, n in zip(speeds, there)) or 1.0)
        for (devices, speeds), _ in classes
    ]
    fixed: dict[int, float] = {}
    while len(fixed) < len(classes):
        free = [at for at in range(len(classes)) if at not in fixed]
        level = _most(classes, there, weights, fixed, free, linprog)
        stuck = [
            at
            for at in free
            if _most(classes, there, weights, fixed | dict.fromkeys(free, level), [at], linprog)
            <= level * (1 + 1e-6) + _LEAST
        ]
        fixed |= dict.fromkeys(stuck or free, level)
    return [fixed[at] / weights[at] for at in range(len(classes))]


def _most(
    classes: Sequence[tuple[Class, int]],
    there: Sequence[int],
    weights: Sequence[float],
    least: Mapping[int, float],
    raised: Sequence[int],
    linprog: Any,
) -> float:
    """
    Return the largest level that all of `raised` reach together while the others have `least`.

    Variables: the fraction of its time that a job of each class is on each pool, then the level.
    """
    pools, width = len(there), len(classes) * len(there) + 1
    above: list[list[float]] = []
    limits: list[float] = []
    for at, ((_, speeds), _) in enumerate(classes):
        time, speed = [0.0] * width, [0.0] * width
        for pool in range(pools):
            time[at * pools + pool] = 1.0
            speed[at * pools + pool] = -weights[at] * speeds[pool]
        above.append(time)
        limits.append(1.0)
        if at in raised:
            speed[-1] = 1.0
        above.append(speed)
        limits.append(0.0 if at in raised else -least.get(at, 0.0) * (1 - 1e-9))
    for pool in range(pools):
        held = [0.0] * width
        for at, ((devices, _), count) in enumerate(classes):
            held[at * pools + pool] = float(devices * count)
        above.append(held)
        limits.append(float(there[pool]))
    wanted = [0.0] * (width - 1) + [-1.0]
    found = linprog(wanted, A_ub=above, b_ub=limits, bounds=(0, None), method="highs")
    return float(-found.fun) if found.success else 0.0


def _linprog() -> Any:
    try:
        from scipy.optimize import linprog
    except ImportError:
        raise SpecError(
            "max-min on devices of several speeds needs scipy, which is not installed",
            hint="pip install 'bastion-orchestrator[sim]'",
        ) from None
    return linprog
