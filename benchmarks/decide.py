"""
How long one cycle takes: `decide` on up to 50,000 jobs, 100 projects and 1,000 machines.

    python -m benchmarks.decide [--profile]

Every job has a separate request object, like records that are read from a bucket.

`little_changed` is the everyday turn: every machine is in use and the rest waits; since the last
cycle one job has ended and one has arrived. `full` is the same state after ten jobs ended, decided
without a cache. `from_nothing` is a cold start: no job runs, all wait.

`return` is a Monday: half of the projects had all machines, and the other half comes back.
`half_spent` and `limited` are `little_changed` where half of the projects have spent their budgets,
and where most jobs wait for the limit of their user.

Milliseconds are CPU time, with the garbage collector paused as in the bastion.
"""

from __future__ import annotations

import cProfile
import json
import pstats
import sys
import tracemalloc
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from random import Random
from statistics import median
from time import process_time

from bastion.job import Attempt, HostState, JobRecord, Phase
from bastion.machine import Machine, MachinePhase, Pool
from bastion.scheduler.cycle import decide
from bastion.scheduler.plan import Admit, Plan
from bastion.scheduler.snapshot import Snapshot
from bastion.scheduler.state.memory.memory import Memory
from bastion.service.python_gc import paused
from bastion.spec.request import Request
from benchmarks.table import show
from quota import Amounts, Budget, Quota, parse
from quota.limits import Limits

NOW = 1_000_000.0
DEVICES = 8


def quota_of(projects: int, total: int, groups: int = 0) -> Quota:
    """Return equal shares for `projects`, which are in that many equal groups; 0: in none."""
    share = round(1 / projects - 5e-7, 6)
    lines = ['[toml-schema]\nversion = "1"\n[total_resources]', f"h100 = {total}"]
    lines += ["[project_membership]", *(f'p{i:03} = ["user.*"]' for i in range(projects))]
    for i in range(projects):
        lines += [f"[project_resources.p{i:03}]", f"h100 = {share}"]
    for i in range(groups):
        members = [f"p{project:03}" for project in range(i, projects, groups)]
        lines += [f"[project_groups.g{i:03}]", f"members = {json.dumps(members)}"]
    return parse("\n".join(lines) + "\n")


def snapshot_of(jobs: int, projects: int = 100, machines: int = 1_000, seed: int = 1) -> Snapshot:
    """Return `jobs` waiting jobs of 24 shapes, from five users per project."""
    random = Random(seed)
    requests = [
        Request(
            replicas=replicas,
            per_replica=Amounts({"h100": units, "cpu": 8 * units, "memory": units << 36}),
            priority=priority,
            max_runtime_s=limit,
        )
        for replicas, units in ((1, 1), (1, 2), (1, 4), (1, 8), (2, 8), (8, 8))
        for priority, limit in ((3, None), (3, 3600.0), (2, None), (4, 7200.0))
    ]
    weights = [w for w in (40, 20, 15, 15, 8, 2) for _ in range(4)]
    made = {}
    for i, request in enumerate(random.choices(requests, weights, k=jobs)):
        name = f"job-{i:06}"
        made[name] = JobRecord(
            id=name,
            project=f"p{random.randrange(projects):03}",
            user=f"user{random.randrange(5)}",
            launch=name,
            ulid=name,
            submitted_at=NOW - 10 * (jobs - i),
            queued_at=NOW - 600,
            request=own(request),
        )
    shape = Amounts({"h100": DEVICES, "cpu": 192, "memory": 2 << 40})
    stand = {
        f"m-{i:05}": Machine(name=f"m-{i:05}", pool="p", phase=MachinePhase.READY, resources=shape)
        for i in range(machines)
    }
    return Snapshot(
        quota=quota_of(projects, machines * DEVICES),
        jobs=made,
        machines=stand,
        pools={"p": Pool(name="p", provider="fake", resources=shape, max_machines=machines)},
    )


def own(request: Request) -> Request:
    """Return an equal request that shares no object with it."""
    units = Amounts(dict(request.per_replica.items()))
    return replace(request, per_replica=units, where=replace(request.where))


def admitted(snapshot: Snapshot, plan: Plan | None = None) -> Snapshot:
    """Return `snapshot` after its plan was applied."""
    plan = plan or decide(snapshot, NOW)
    jobs = dict(snapshot.jobs)
    for name, verdict in plan.verdicts.items():
        if isinstance(verdict, Admit):
            attempt = Attempt(
                number=1,
                nonce="n",
                admitted_at=NOW - 60,
                started_at=NOW - 60,
                placement=verdict.placement,
                job_class=verdict.job_class,
                hosts=tuple((HostState(),) for _ in verdict.placement),
            )
            jobs[name] = replace(jobs[name], phase=Phase.RUNNING, attempt=attempt, attempts=1)
    return replace(snapshot, jobs=jobs, promises=plan.promises, planned=plan.planned)


def taken_s(work: Callable[[], Plan]) -> tuple[float, Plan]:
    """Return the CPU seconds that `work` takes; garbage is collected before and after it."""
    with paused():
        began = process_time()
        plan = work()
        return process_time() - began, plan


def cycle_ms(runs: int, snapshot: Snapshot, now: float = NOW) -> float:
    """
    Return the milliseconds of a leader's first cycle: the median of `runs`, after a warm-up.

    Its findings are kept until the clock has stopped, as a leader keeps them.
    """
    taken = []
    for _ in range(runs + 1):
        memory = Memory()
        seconds, plan = taken_s(partial(decide, snapshot, now, memory))
        taken.append(seconds)
        del plan, memory
    return 1000 * median(taken[1:])


def changed(snapshot: Snapshot) -> Snapshot:
    """Return `snapshot` after ten jobs ended."""
    running = [name for name, job in snapshot.jobs.items() if job.is_admitted]
    gone = set(running[:: max(1, len(running) // 10)])
    return replace(snapshot, jobs={n: j for n, j in snapshot.jobs.items() if n not in gone})


def little_changed_s(snapshot: Snapshot, cycles: int = 9) -> float:
    """Return the seconds of a cycle with a warm cache; before it one job ends and one is queued."""
    memory, random, seconds = Memory(), Random(2), []
    for number in range(cycles + 1):
        took, plan = taken_s(partial(decide, snapshot, NOW + number, memory))
        seconds.append(took)
        snapshot = admitted(snapshot, plan)
        jobs = dict(snapshot.jobs)
        del jobs[random.choice([name for name, job in jobs.items() if job.is_admitted])]
        like = random.choice([job for job in jobs.values() if not job.is_admitted])
        came = replace(like, id=f"late-{number}", request=own(like.request), queued_at=NOW + number)
        snapshot = replace(snapshot, jobs={**jobs, came.id: came})
    return median(seconds[1:])


def returned(jobs: int, projects: int, machines: int) -> Snapshot:
    """
    Return a state in which half of the projects hold all machines, and the others submit now.

    Running jobs are past their minimum runtime.
    """
    whole = snapshot_of(jobs, projects, machines)
    early = {n: job for n, job in whole.jobs.items() if int(job.project[1:]) % 2}
    busy = admitted(replace(whole, jobs=early))
    return replace(busy, jobs={**whole.jobs, **busy.jobs})


def half_spent(snapshot: Snapshot) -> Snapshot:
    """Return a state in which every other project has a budget and has spent it."""
    projects = dict(snapshot.quota.projects)
    budget = Budget(hours={"h100": 1})
    spent = sorted(projects)[::2]
    projects |= {name: replace(projects[name], budget=budget) for name in spent}
    quota = replace(snapshot.quota, projects=projects)
    return replace(snapshot, quota=quota, spent={name: {"h100": 2.0} for name in spent})


def limited(snapshot: Snapshot) -> Snapshot:
    """Return a state in which no user may run more than four jobs at the same time."""
    projects = {
        name: replace(project, limits=Limits(max_running=4))
        for name, project in snapshot.quota.projects.items()
    }
    return replace(snapshot, quota=replace(snapshot.quota, projects=projects))


def kib_a_job(snapshot: Snapshot) -> float:
    """Return the peak memory of one cycle, divided by jobs."""
    tracemalloc.start()
    decide(snapshot, NOW)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return peak / 1024 / max(1, len(snapshot.jobs))


def main() -> None:
    """Print the growth table, or with `--profile` the profile of one cycle."""
    if "--profile" in sys.argv:
        for state in (snapshot_of(10_000), changed(admitted(snapshot_of(10_000)))):
            profile = cProfile.Profile()
            profile.runcall(decide, state, NOW)
            pstats.Stats(profile).sort_stats("tottime").print_stats(22)
        return
    rows = []
    for jobs, machines in ((100, 10), (1_000, 100), (10_000, 1_000), (50_000, 1_000)):
        projects = min(100, machines)
        nothing = snapshot_of(jobs, projects, machines)
        full = changed(admitted(nothing))
        back = returned(jobs, projects, machines)
        running = sum(job.is_admitted for job in full.jobs.values())
        rows.append(
            {
                "jobs": jobs,
                "machines": machines,
                "running": running,
                "from_nothing_ms": cycle_ms(3, nothing),
                "full_ms": cycle_ms(5, full),
                "little_changed_ms": 1000 * little_changed_s(full),
                "half_spent_ms": 1000 * little_changed_s(half_spent(full)),
                "limited_ms": 1000 * little_changed_s(limited(full)),
                "return_ms": cycle_ms(1, back, NOW + 1_000),
                "kib_a_job": kib_a_job(full),
            }
        )
    show(rows)


if __name__ == "__main__":
    main()
