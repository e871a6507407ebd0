"""
A re-sorting scheduler and `decide` on the same inputs.

    python -m benchmarks.resorting

The re-sorting scheduler is real but small. In every turn it sorts all gangs again, running and
waiting. The project with the lowest use of its share, including its next gang, comes first, and
within a project gangs are sorted by age. A gang that does not fit ends its project's turn, and a
running job that is not chosen is stopped.
"""

from __future__ import annotations

from collections.abc import Callable

from bastion.job import HostPlace, JobClass, JobRecord, Phase, ReplicaPlace
from bastion.scheduler.cycle import decide
from bastion.scheduler.plan import Admit, Keep, Plan, Preempt, Verdict, Verdicts, Wait
from bastion.scheduler.reasons.reason import Ending, WaitingForCapacity, WithinShare, Yielded
from bastion.scheduler.snapshot import Snapshot
from benchmarks.table import show
from quota import Amounts
from tests.bastion.scheduler.world import Decide, World, machines_of, quota_of


def resort(snapshot: Snapshot, now: float) -> Plan:
    """Make one turn of a scheduler that re-sorts everything by usage ratio."""
    chosen = _chosen(snapshot)
    held = {i for job in snapshot.jobs.values() if job.is_admitted for i in _devices(job)}
    free = [i for i in range(snapshot.quota.totals["gpu"]) if i not in held]
    none = Amounts({})
    verdicts: dict[str, Verdict] = {}
    for name, job in snapshot.jobs.items():
        units = job.request.units["gpu"]
        if job.phase is Phase.STOPPING:
            verdicts[name] = Keep(
                job_class=JobClass.BORROWED, reason=Ending(cause="preempt", deadline=now)
            )
        elif job.is_admitted and name in chosen:
            reason = WithinShare(project=job.project, held=none, nominal=none)
            verdicts[name] = Keep(job_class=JobClass.GUARANTEED, reason=reason)
        elif job.is_admitted:
            reason_ = Yielded(by=chosen[0] if chosen else name, order="ratio")
            verdicts[name] = Preempt(by=reason_.by, deadline=now + 30, reason=reason_)
        elif name in chosen and units <= len(free):
            taken, free = tuple(free[:units]), free[units:]
            host = HostPlace(machine="p-000", devices={"gpu": taken})
            verdicts[name] = Admit(
                job_class=JobClass.GUARANTEED,
                placement=(ReplicaPlace(hosts=(host,)),),
                reason=WithinShare(project=job.project, held=none, nominal=none),
            )
        else:
            asked = job.request.units
            verdicts[name] = Wait(reason=WaitingForCapacity(asked=asked, short=asked))
    return Plan(verdicts=Verdicts(verdicts), promises=(), planned=(), new_machines=())


def _chosen(snapshot: Snapshot) -> list[str]:
    queues: dict[str, list[JobRecord]] = {name: [] for name in snapshot.quota.projects}
    for job in sorted(snapshot.jobs.values(), key=lambda job: (job.submitted_at, job.id)):
        if job.phase is not Phase.STOPPING:
            queues[job.project].append(job)
    left = snapshot.quota.totals["gpu"]
    used = dict.fromkeys(queues, 0)
    chosen = []

    def ratio(project: str) -> float:
        nominal = max(1, snapshot.quota.project(project).nominal["gpu"])
        return (used[project] + queues[project][0].request.units["gpu"]) / nominal

    while any(queues.values()):
        project = min((p for p in queues if queues[p]), key=lambda p: (ratio(p), p))
        job = queues[project].pop(0)
        units = job.request.units["gpu"]
        if units > left:
            queues[project] = []
            continue
        left -= units
        used[project] += units
        chosen.append(job.id)
    return chosen


def _devices(job: JobRecord) -> list[int]:
    assert job.attempt is not None
    return [i for place in job.attempt.placement for i in place.hosts[0].devices["gpu"]]


def one_machine(inner: Decide, total: int, **shares: float) -> World:
    """Return all devices on one machine, so that only the order matters."""
    quota = quota_of(
        {"gpu": total}, {p: {"gpu": share} for p, share in shares.items()}, plan_after_s=1000
    )
    return World(quota, machines_of(1, gpu=total), decide=inner)


def big_before_small(inner: Decide) -> dict[str, object]:
    """Return the case: 100 in halves; A queues 100, then 10; B 120 x 1."""
    world = one_machine(inner, 100, A=0.5, B=0.5)
    world.ask("A", "big", gpu=100)
    world.pass_time(1)
    world.ask("A", "small", gpu=10)
    for _ in range(120):
        world.ask("B", gpu=1)
    world.run(600)
    return {"outcome": f"A runs {world.units('A')}, B {world.units('B')} of 100"}


def beyond_the_share(inner: Decide) -> dict[str, object]:
    """Return the case: 30 in thirds; A runs 20, B asks for 12."""
    world = one_machine(inner, 30, A=0.333, B=0.333, C=0.333)
    world.ask("A", "a", gpu=20)
    world.cycle()
    world.ask("B", "b", gpu=12)
    world.run(60)
    idle = 30 - world.units("A") - world.units("B")
    return {"outcome": f"{len(world.preemptions)} stopped, {idle} of 30 idle after a minute"}


def a_stream(inner: Decide) -> dict[str, object]:
    """Return the case: 100 in halves; A asks for 60, B always has 40 x 1 of 500 s."""
    world = one_machine(inner, 100, A=0.5, B=0.5)
    started = None
    for turn in range(120):
        while sum(job.project == "B" for job in world.jobs.values()) < (60 if turn < 2 else 40):
            world.ask("B", f"b-{world.seq}-{len(world.jobs)}", gpu=1, runs_s=500)
        if turn == 1:
            world.ask("A", "a", gpu=60)
        world.cycle()
        if started is None and world.runs("a"):
            started = turn
        world.pass_time(50)
    stops = len(world.preemptions)
    when = "never in 100 min" if started is None else f"after {50 * (started - 1) / 60:.0f} min"
    return {"outcome": f"A's 60 starts {when}; {stops} stopped"}


STATES: dict[str, Callable[[Decide], dict[str, object]]] = {
    "100 before 10": big_before_small,
    "12 beyond a share of 9": beyond_the_share,
    "60 against 40 x 1": a_stream,
}


def main() -> None:
    """Print the plans of both."""
    rows = []
    for name, state in STATES.items():
        re_sorting, bastion = state(resort)["outcome"], state(decide)["outcome"]
        rows.append({"state": name, "re-sorting": re_sorting, "decide": bastion})
    show(rows)


if __name__ == "__main__":
    main()
