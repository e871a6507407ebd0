"""Round-based simulations give what a plain round loop gives, to the second."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest

from bastion.errors import SpecError
from bastion.simulator.cluster.cluster import Cluster, Shape
from bastion.simulator.engine.result import Result
from bastion.simulator.run import simulated
from bastion.simulator.setup import Setup
from bastion.simulator.workload.job import TraceJob, Workload
from tests.bastion.simulator.round_loop import KEYS, completions
from tests.rigs.seeds import some

ROUND_S = 300.0


def workload_of(random: Random, *, gangs: bool, priorities: bool = False) -> Workload:
    """Up to 40 jobs that compete for a few devices."""
    time, jobs = 0.0, []
    for number in range(random.randint(15, 40)):
        time += random.choice((0, 0, 10, 300, 450, random.randint(1, 2000)))
        job = TraceJob(
            name=f"j{number}",
            submit_s=time,
            duration_s=random.choice((1, 299, 300, 301, 900, random.randint(1, 9000))),
            devices=random.choice((1, 1, 1, 2, 3, 4, 8)) if gangs else 1,
            priority=random.choice((1, 3, 3, 5)) if priorities else 3,
        )
        jobs.append(job)
    return Workload(jobs=jobs)


def ends_of(result: Result) -> list[float | None]:
    return [each.ended_at for each in result.jobs]


@pytest.mark.parametrize("order", sorted(KEYS))
@pytest.mark.parametrize("seed", some(10, of=20))
def test_jobs_of_one_device_end_as_in_a_plain_round_loop(seed: int, order: str) -> None:
    """The scheduler's own cycle, once per round, gives every completion of the loop."""
    random = Random(seed)
    machines, devices = random.choice(((1, 4), (2, 2), (2, 4)))
    workload = workload_of(random, gangs=False, priorities=order == "fifo")
    cluster = Cluster(shapes=(Shape(count=machines, devices=devices),))
    found = simulated(Setup(cluster=cluster, order=order, round_s=ROUND_S), workload)
    ends, preemptions = completions(workload.jobs, machines * devices, ROUND_S, KEYS[order])
    assert ends_of(found) == ends
    assert sum(each.preemptions for each in found.jobs) == preemptions


@pytest.mark.parametrize("order", sorted(KEYS))
@pytest.mark.parametrize("seed", some(10, of=20))
def test_gangs_end_as_in_a_plain_round_loop_that_stops_at_what_does_not_fit(
    seed: int, order: str
) -> None:
    """With `--strict_walk`, so do jobs of several devices and several priorities."""
    random = Random(seed)
    workload = workload_of(random, gangs=True, priorities=True)
    cluster = Cluster(shapes=(Shape(count=2, devices=4),))
    setup = Setup(cluster=cluster, order=order, round_s=ROUND_S, strict_walk=True)
    found = simulated(setup, workload)
    ends, preemptions = completions(workload.jobs, 8, ROUND_S, KEYS[order])
    assert ends_of(found) == ends
    assert sum(each.preemptions for each in found.jobs) == preemptions


def test_a_strict_walk_counts_devices_wherever_they_are() -> None:
    """A job of eight devices runs on three machines of three, as the loop has it; nine at most."""
    cluster = Cluster(shapes=(Shape(count=3, devices=3),))
    jobs = [
        TraceJob(name="wide", submit_s=0, duration_s=900, devices=8),
        TraceJob(name="one", submit_s=0, duration_s=900),
        TraceJob(name="next", submit_s=10, duration_s=300, devices=5, replicas=1),
    ]
    setup = Setup(cluster=cluster, order="fifo", round_s=ROUND_S, strict_walk=True)
    found = simulated(setup, Workload(jobs=jobs))
    assert ends_of(found) == completions(jobs, 9, ROUND_S, KEYS["fifo"])[0]
    with pytest.raises(SpecError, match="asks for 10 gpu; the cluster has 9"):
        simulated(setup, Workload(jobs=[jobs[0]._replace(devices=10)]))
    with pytest.raises(SpecError, match="such replicas fit at once"):
        simulated(replace(setup, strict_walk=False), Workload(jobs=jobs))
