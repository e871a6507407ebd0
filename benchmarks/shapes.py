"""
Hard states for `decide`, and a search for harder ones.

    python -m benchmarks.shapes [--search N]

Each state is decided cycle after cycle, as the bastion does, with the plan of one cycle in the
state of the next. The table has the longest cycle of each, in milliseconds of processor time, and
how many cycles there were until nothing moved. `--search` changes the parameters of a small state
at random N times, keeps whatever makes the longest cycle longer, and prints the worst it found.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import asdict, replace
from random import Random
from time import process_time

from bastion.job import JobRecord, Phase, Stop, StopReason
from bastion.scheduler.plan import Admit, Plan, Preempt
from bastion.scheduler.snapshot import Snapshot
from bastion.scheduler.state.memory import Memory
from bastion.value import value
from benchmarks.decide import NOW, admitted, cycle, snapshot_of
from benchmarks.table import show
from quota import Amounts

MOST_CYCLES = 40


@value
class Shape:
    """What a state is made from."""

    jobs: int = 1_000
    machines: int = 100
    projects: int = 10
    priorities: int = 1
    """How many different priorities jobs have."""
    users: int = 5
    has_own_limits: bool = False
    """Whether each job has a limit of its own, so no two jobs are alike."""
    gangs: float = 0.2
    """The part of the jobs that are gangs of two to eight replicas."""
    largest: int = 8
    """Devices that one replica asks for, at most."""
    holding: float = 0.5
    """The part of the jobs that hold devices before the others come."""
    by: str = "project"
    """Which are these: those of some projects, those of low priority, or any."""


SHAPES: Mapping[str, Shape] = {
    "half the projects return, 1,000 machines": Shape(
        jobs=10_000, machines=1_000, projects=100, has_own_limits=False
    ),
    "half the projects return, 2,000 machines": Shape(
        jobs=10_000, machines=2_000, projects=100, has_own_limits=False
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
    "one-device jobs, then gangs": Shape(
        jobs=6_000, machines=500, projects=20, gangs=0.1, largest=1, holding=0.6, by="any"
    ),
}  # fmt: skip


def state_of(shape: Shape, seed: int = 1) -> Snapshot:
    """Return a state: some jobs hold devices past their minimum runtime, and the others come."""
    random = Random(seed)
    plain = snapshot_of(shape.jobs, shape.projects, shape.machines, seed)
    made: dict[str, JobRecord] = {}
    for number, (name, job) in enumerate(plain.jobs.items()):
        devices = min(shape.largest, random.choice((1, 1, 2, 4, 8)))
        request = replace(
            job.request,
            per_replica=Amounts({"h100": devices}),
            replicas=random.choice((2, 4, 8)) if random.random() < shape.gangs else 1,
            priority=random.randint(1, shape.priorities),
            max_runtime_s=1_000.0 + number if shape.has_own_limits else None,
        )
        made[name] = replace(job, user=f"user{number % shape.users}", request=request)
    early = {name: job for name, job in made.items() if _is_early(shape, job, random)}
    busy = admitted(replace(plain, jobs=early))
    return replace(busy, jobs={**made, **busy.jobs})


def _is_early(shape: Shape, job: JobRecord, random: Random) -> bool:
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


def cycles_ms(snapshot: Snapshot, most: int = MOST_CYCLES) -> tuple[list[float], Plan]:
    """Milliseconds of every cycle until nothing moves, and the last plan."""
    memory, found = Memory(), []
    for number in range(most):
        now = NOW + 1_000 + number
        began = process_time()
        plan = cycle(snapshot, now, memory)
        found.append(1_000 * (process_time() - began))
        moves = any(isinstance(v, Admit | Preempt) for v in plan.verdicts.decided.values())
        if not (moves or plan.considered or plan.promises != snapshot.promises):
            break
        snapshot = carried_out(snapshot, plan, now)
    return found, plan


def mutated(shape: Shape, random: Random) -> Shape:
    """Return `shape` with one parameter changed."""
    choices: dict[str, tuple[object, ...]] = {
        "projects": (2, 4, 10, 20, 50),
        "priorities": (1, 2, 5, 10),
        "users": (1, 5, 50, 1_000),
        "has_own_limits": (False, True),
        "gangs": (0.0, 0.1, 0.3, 0.8),
        "largest": (1, 2, 8),
        "holding": (0.2, 0.5, 0.8),
        "by": ("project", "priority", "any"),
        "machines": (20, 50, 100, 200),
    }
    name = random.choice(sorted(choices))
    return replace(shape, **{name: random.choice(choices[name])})  # type: ignore[arg-type]


def search(tries: int, seed: int = 1) -> tuple[float, Shape]:
    """Return the longest cycle that `tries` random changes of a small state lead to."""
    random, worst = Random(seed), Shape()
    longest = max(cycles_ms(state_of(worst), most=6)[0])
    for _ in range(tries):
        shape = mutated(worst, random)
        took = max(cycles_ms(state_of(shape), most=6)[0])
        if took > longest:
            longest, worst = took, shape
    return longest, worst


def main() -> None:
    """Print the table of hard states, or with `--search N` the worst that was found."""
    if "--search" in sys.argv:
        longest, worst = search(int(sys.argv[sys.argv.index("--search") + 1]))
        show([{"longest_ms": longest, **asdict(worst)}])
        return
    rows = []
    for name, shape in SHAPES.items():
        found, plan = cycles_ms(state_of(shape))
        rows.append(
            {
                "state": name,
                "longest_ms": max(found),
                "median_ms": sorted(found)[len(found) // 2],
                "cycles": len(found),
                "promises": len(plan.promises),
            }
        )
    show(rows)


if __name__ == "__main__":
    main()
