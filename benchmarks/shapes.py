"""
Hard states for `decide`, and a search for harder ones; `benchmarks.scheduler` measures them.

Each state is decided cycle after cycle, as in the bastion: the plan of one cycle is part of the
state of the next. The search changes the parameters of a small state at random and keeps each
change that makes the longest cycle longer. It counts function calls, not seconds, so it finds the
same everywhere.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from cProfile import Profile
from dataclasses import replace
from functools import partial
from random import Random
from types import CodeType
from typing import NamedTuple

import bastion.scheduler
import quota.value
from bastion.job import JobRecord, Phase, Stop, StopReason
from bastion.scheduler.cycle import decide
from bastion.scheduler.plan import Admit, Plan, Preempt
from bastion.scheduler.snapshot import Snapshot
from bastion.scheduler.state.memory.memory import Memory
from bastion.spec.where import POOL, Where
from bastion.value import value
from benchmarks.decide import DEVICES, NOW, admitted, quota_of, snapshot_of, taken_s
from quota import Amounts

MOST_CYCLES = 40


@value
class Shape:
    """What a state is made from."""

    jobs: int = 1_000
    machines: int = 100
    projects: int = 10
    priorities: int = 1
    """Number of different priorities of jobs."""
    users: int = 5
    has_own_limits: bool = False
    """Whether each job has its own limit, so that no two jobs are alike."""
    gangs: float = 0.2
    """The fraction of the jobs that are gangs of two to eight replicas."""
    largest: int = 8
    """Maximum number of devices that one replica requests."""
    holding: float = 0.5
    """The fraction of the jobs that hold devices before the others arrive."""
    by: str = "project"
    """Which jobs these are: those of some projects or of one, those of low priority, or any."""
    groups: int = 0
    """Number of equal groups of the projects; 0: no groups."""
    pools: int = 1
    """Number of pools, one of which each job names; or racks, within which each gang stays."""
    are_racks: bool = False
    asks: str = "devices"
    """What jobs request: `devices`, devices and other `amounts`, `whole` machines, or `nothing`."""
    hosts: int = 0
    """Number of different hosts that each job names; every other job also names a machine."""
    has_limits: bool = False
    """Whether jobs have one of a few limits; those without run until they end."""
    waited_s: float = 1_000.0
    """How long all have waited, or run."""


SHAPES: Mapping[str, Shape] = {
    "half the projects return, 1,000 machines": Shape(
        jobs=10_000, machines=1_000, projects=100
    ),
    "half the projects return, 2,000 machines": Shape(
        jobs=10_000, machines=2_000, projects=100
    ),
    "half the projects return, in ten groups": Shape(
        jobs=10_000, machines=1_000, projects=100, groups=10
    ),
    "no two alike, 1,000 jobs": Shape(
        users=1_000, priorities=5, has_own_limits=True, holding=0.3, by="priority"
    ),
    "no two alike, 4,000 jobs": Shape(
        jobs=4_000, machines=400, users=4_000, priorities=5, has_own_limits=True,
        holding=0.3, by="priority",
    ),
    "no two alike, 10,000 jobs": Shape(
        jobs=10_000, machines=1_000, users=10_000, priorities=5, has_own_limits=True,
        holding=0.3, by="priority",
    ),
    "small jobs of low priority, then high": Shape(
        jobs=8_000, machines=400, projects=4, priorities=5, gangs=0.0, largest=1,
        holding=0.6, by="priority",
    ),
    "four projects, all priorities": Shape(
        jobs=8_000, machines=500, projects=4, priorities=5, largest=4
    ),
    "one-device jobs, then gangs": Shape(
        jobs=6_000, machines=500, projects=20, gangs=0.1, largest=1, holding=0.6, by="any"
    ),
    "gangs return": Shape(jobs=2_000, machines=500, projects=20, gangs=1.0),
    "99 projects return to what one borrows": Shape(
        jobs=8_000, machines=500, projects=100, gangs=0.0, largest=1, by="one"
    ),
    "100 pools": Shape(jobs=9_000, machines=1_000, projects=100, pools=100),
    "gangs return, each to one of 20 racks": Shape(
        jobs=2_000, machines=500, projects=20, gangs=1.0, pools=20, are_racks=True
    ),
    "each names hosts of its own": Shape(
        jobs=4_000, machines=1_000, projects=100, gangs=0.0, hosts=8
    ),
    "each takes whole machines": Shape(
        jobs=4_000, machines=500, projects=100, gangs=0.8, asks="whole"
    ),
    "each asks for an amount of its own": Shape(
        jobs=4_000, machines=500, projects=100, gangs=0.5, asks="amounts"
    ),
    "each asks for nothing": Shape(
        jobs=4_000, machines=500, projects=100, gangs=0.8, asks="nothing"
    ),
    "rotation after a slice": Shape(
        jobs=4_000, machines=200, projects=20, holding=0.25, by="one", waited_s=30_000.0
    ),
    "backfill with limits, all have waited for hours": Shape(
        jobs=6_000, machines=200, projects=20, gangs=0.4, has_limits=True, waited_s=14_400.0
    ),
}  # fmt: skip


def state_of(shape: Shape, seed: int = 1) -> Snapshot:
    """Return a state: some jobs hold devices past their minimum runtime, and the others arrive."""
    random = Random(seed)
    plain = snapshot_of(shape.jobs, shape.projects, shape.machines, seed)
    if shape.groups:
        groups = min(shape.groups, shape.projects)
        quota = quota_of(shape.projects, shape.machines * DEVICES, groups)
        plain = replace(plain, quota=quota)
    made: dict[str, JobRecord] = {}
    machines = tuple(plain.machines)
    for number, (name, job) in enumerate(plain.jobs.items()):
        devices = min(shape.largest, random.choice((1, 1, 2, 4, 8)))
        request = replace(
            job.request,
            per_replica=_asked(shape, devices, number),
            replicas=random.choice((2, 4, 8)) if random.random() < shape.gangs else 1,
            priority=random.randint(1, shape.priorities),
            max_runtime_s=_limit(shape, number),
            where=_where(shape, number, machines),
        )
        made[name] = replace(job, user=f"user{number % shape.users}", request=request)
        if shape.by == "one" and random.random() < shape.holding:
            made[name] = replace(made[name], project="p000")
    plain = _in_pools(plain, shape.pools)
    early = {name: job for name, job in made.items() if _is_early(shape, job, random)}
    busy = admitted(replace(plain, jobs=early))
    return replace(busy, jobs={**made, **busy.jobs})


def _limit(shape: Shape, number: int) -> float | None:
    if shape.has_own_limits:
        return 1_000.0 + number
    limits = (shape.waited_s + 3_600.0, shape.waited_s + 20_000.0, None)
    return limits[number % 3] if shape.has_limits else None


def _where(shape: Shape, number: int, machines: Sequence[str]) -> Where:
    hosts = [f"none-{number}-{host}" for host in range(shape.hosts)]
    if hosts and number % 2:
        hosts[0] = machines[number % len(machines)]
    is_whole = shape.asks == "whole"
    if shape.are_racks:
        return Where(same=POOL, hostnames=tuple(hosts), exclusive=is_whole)
    pool = f"p{number % shape.pools}" if shape.pools > 1 else ""
    return Where(pool=pool, hostnames=tuple(hosts), exclusive=is_whole)


def _asked(shape: Shape, devices: int, number: int) -> Amounts:
    asked = {} if shape.asks == "nothing" else {"h100": devices}
    return Amounts(asked | ({"memory": number << 28} if shape.asks in ("amounts", "whole") else {}))


def _in_pools(snapshot: Snapshot, pools: int) -> Snapshot:
    """Distribute the machines over that many pools."""
    if pools == 1:
        return snapshot
    dealt = enumerate(snapshot.machines.items())
    machines = {name: replace(each, pool=f"p{n % pools}") for n, (name, each) in dealt}
    (plain,) = snapshot.pools.values()
    named = {f"p{n}": replace(plain, name=f"p{n}", max_machines=0) for n in range(pools)}
    return replace(snapshot, machines=machines, pools=named)


def _is_early(shape: Shape, job: JobRecord, random: Random) -> bool:
    if shape.by == "one":
        return job.project == "p000"
    if shape.by == "project":
        return int(job.project[1:]) < shape.projects * shape.holding
    if shape.by == "priority" and shape.priorities > 1:
        return job.request.priority > shape.priorities * (1 - shape.holding)
    return random.random() < shape.holding


def carried_out(snapshot: Snapshot, plan: Plan, now: float) -> Snapshot:
    """Return `snapshot` after `plan`: victims are being stopped, and nothing has ended yet."""
    after = admitted(snapshot, plan)
    jobs = dict(after.jobs)
    for name, verdict in plan.verdicts.decided.items():
        attempt = jobs[name].attempt
        if isinstance(verdict, Preempt) and attempt is not None:
            stop = Stop(reason=StopReason.PREEMPT, at=now, deadline=verdict.deadline)
            stopped = replace(attempt, stop=stop)
            jobs[name] = replace(jobs[name], phase=Phase.STOPPING, attempt=stopped)
    made = {machine.name: machine for machine in plan.new_machines}
    machines = {**snapshot.machines, **made}
    return replace(after, jobs=jobs, machines=machines, considered=plan.considered)


class Cycles(NamedTuple):
    """The cycles until nothing moved any longer."""

    costs: list[float]
    """Of every cycle."""
    promised_after: int
    """Cycles until the last promise was made."""
    plan: Plan
    """The plan of the last cycle."""


def milliseconds(run: Callable[[], Plan]) -> tuple[float, Plan]:
    """Return the CPU time of `run`."""
    seconds, plan = taken_s(run)
    return 1_000 * seconds, plan


def calls(run: Callable[[], Plan]) -> tuple[float, Plan]:
    """
    Return how often `run` calls functions of the scheduler and quota: the same on every machine.

    What a process does at times of its own choice does not count: garbage collection, and compiling
    the `__init__` of values after some were created.
    """
    profile = Profile()
    plan = profile.runcall(run)
    return float(sum(each.callcount for each in profile.getstats() if _counts(each.code))), plan


def _counts(code: CodeType | str) -> bool:
    if isinstance(code, str):  # a built-in function
        return False
    return code.co_filename.startswith(_COUNTED) and code.co_filename != quota.value.__file__


_COUNTED = tuple(each.__path__[0] for each in (bastion.scheduler, quota))


def cycles_of(
    shape: Shape,
    most: int = MOST_CYCLES,
    cost: Callable[[Callable[[], Plan]], tuple[float, Plan]] = milliseconds,
) -> Cycles:
    """Decide the state of `shape` until nothing moves; return what each cycle cost."""
    snapshot, memory = state_of(shape), Memory()
    costs: list[float] = []
    promised_after = 0
    for number in range(most):
        now = NOW + shape.waited_s + number
        took, plan = cost(partial(decide, snapshot, now, memory))
        costs.append(took)
        if {each.gang for each in plan.promises} - {each.gang for each in snapshot.promises}:
            promised_after = number + 1
        moves = any(isinstance(v, Admit | Preempt) for v in plan.verdicts.decided.values())
        if not (moves or plan.considered or plan.promises != snapshot.promises):
            break
        snapshot = carried_out(snapshot, plan, now)
    return Cycles(costs, promised_after, plan)


def mutated(shape: Shape, random: Random) -> Shape:
    """Return `shape` with one parameter changed."""
    choices: dict[str, tuple[object, ...]] = {
        "projects": (2, 4, 10, 20, 50),
        "priorities": (1, 2, 5, 10),
        "users": (1, 5, 50, 1_000),
        "has_own_limits": (False, True),
        "has_limits": (False, True),
        "gangs": (0.0, 0.1, 0.3, 0.8),
        "largest": (1, 2, 8),
        "holding": (0.2, 0.5, 0.8),
        "by": ("project", "one", "priority", "any"),
        "groups": (0, 2),
        "pools": (1, 5, 20),
        "are_racks": (False, True),
        "hosts": (0, 1, 8),
        "asks": ("devices", "amounts", "whole", "nothing"),
        "waited_s": (1_000.0, 14_400.0, 30_000.0),
    }
    name = random.choice(sorted(choices))
    return replace(shape, **{name: random.choice(choices[name])})  # type: ignore[arg-type]


def search(tries: int, start: Shape, seed: int = 1) -> tuple[float, Shape]:
    """Return the calls of the longest cycle after random changes of `start`, and its shape."""
    random, worst = Random(seed), start
    most = max(cycles_of(worst, most=6, cost=calls).costs)
    for _ in range(tries):
        shape = mutated(worst, random)
        took = max(cycles_of(shape, most=6, cost=calls).costs)
        if took > most:
            most, worst = took, shape
    return most, worst
