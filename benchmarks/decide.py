"""
How long one cycle takes: `decide` on up to 50,000 jobs, 100 projects and 1,000 machines.

    python -m benchmarks.decide [--profile]

`full` is the everyday state: every machine in use, the rest waiting, a few jobs came and went.
`from nothing` is a cold start: nobody runs, everybody waits.
"""

from __future__ import annotations

import cProfile
import pstats
import sys
import tracemalloc
from random import Random

from bastion.job import Attempt, HostState, JobRecord, Phase
from bastion.machine import Machine, MachinePhase, Pool
from bastion.scheduler.cycle import decide
from bastion.scheduler.plan import Admit
from bastion.scheduler.snapshot import Snapshot
from bastion.spec.request import Request
from benchmarks.table import median_of, show
from quota import Amounts, Quota, parse

NOW = 1_000_000.0
DEVICES = 8


def quota_of(projects: int, total: int) -> Quota:
    """Equal shares for `projects`."""
    share = round(1 / projects - 5e-7, 6)
    lines = ['[toml-schema]\nversion = "1"\n[total_resources]', f"h100 = {total}"]
    lines += ["[project_membership]", *(f'p{i:03} = ["user.*"]' for i in range(projects))]
    for i in range(projects):
        lines += [f"[project_resources.p{i:03}]", f"h100 = {share}"]
    return parse("\n".join(lines) + "\n")


def snapshot_of(jobs: int, projects: int = 100, machines: int = 1_000, seed: int = 1) -> Snapshot:
    """`jobs` waiting jobs of 24 shapes, from five users a project."""
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
            request=request,
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


def admitted(snapshot: Snapshot) -> Snapshot:
    """`snapshot` after its plan was carried out."""
    from dataclasses import replace

    plan = decide(snapshot, NOW)
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


def changed(snapshot: Snapshot) -> Snapshot:
    """`snapshot` after ten jobs ended."""
    from dataclasses import replace

    running = [name for name, job in snapshot.jobs.items() if job.is_admitted]
    gone = set(running[:: max(1, len(running) // 10)])
    return replace(snapshot, jobs={n: j for n, j in snapshot.jobs.items() if n not in gone})


def kib_a_job(snapshot: Snapshot) -> float:
    """Peak memory of one cycle, divided by jobs."""
    tracemalloc.start()
    decide(snapshot, NOW)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return peak / 1024 / max(1, len(snapshot.jobs))


def main() -> None:
    """Print the growth table, or with `--profile` where the time goes."""
    if "--profile" in sys.argv:
        for state in (snapshot_of(10_000), changed(admitted(snapshot_of(10_000)))):
            profile = cProfile.Profile()
            profile.runcall(decide, state, NOW)
            pstats.Stats(profile).sort_stats("tottime").print_stats(22)
        return
    rows = []
    for jobs, machines in ((100, 10), (1_000, 100), (10_000, 1_000), (50_000, 1_000)):
        nothing = snapshot_of(jobs, min(100, machines), machines)
        full = changed(admitted(nothing))
        running = sum(job.is_admitted for job in full.jobs.values())
        rows.append(
            {
                "jobs": jobs,
                "machines": machines,
                "running": running,
                "from_nothing_ms": 1000 * median_of(3, lambda s=nothing: decide(s, NOW)),
                "full_ms": 1000 * median_of(5, lambda s=full: decide(s, NOW)),
                "kib_a_job": kib_a_job(full),
            }
        )
    show(rows)


if __name__ == "__main__":
    main()
