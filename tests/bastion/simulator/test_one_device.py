"""A round that is a walk along the order is what the scheduler's own cycle makes of it."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest

from bastion.simulator.cluster.cluster import Change, Cluster, Shape
from bastion.simulator.engine.driver import Carrying
from bastion.simulator.engine.jobs.costs import IDEAL, Costs
from bastion.simulator.engine.result import Result
from bastion.simulator.fitting import fitted
from bastion.simulator.rounds.one_device import OneDeviceRound
from bastion.simulator.rounds.rounds import RoundEngine, WholeRound
from bastion.simulator.run import engine_of
from bastion.simulator.setup import Setup
from bastion.simulator.workload.job import Happening, TraceJob, Workload
from tests.rigs.seeds import some

ORDERS = ("fifo", "las", "srtf", "tiresias", "max-min")
PLACEMENTS = ("best-fit", "spread", "first-fit", "consolidated")
COSTS = Costs(start_s=20, restart_s=60, checkpoint_s=100, mtbf_s=20_000, repair_s=1500)


def workload_of(random: Random) -> Workload:
    """Jobs of two users, of which one is held, released and cancelled."""
    time, jobs = 0.0, []
    for number in range(random.randint(20, 45)):
        time += random.choice((0, 0, 10, 300, random.randint(1, 900)))
        job = TraceJob(
            name=f"j{number}",
            submit_s=time,
            duration_s=random.choice((1, 300, 301, random.randint(1, 9000))),
            user=random.choice(("u", "v")),
            priority=random.choice((1, 3, 3, 5)),
        )
        jobs.append(job)
    script = (
        Happening(at_s=900, what="cordon", name="gpu-0-0001"),
        Happening(at_s=950, what="hold", name="0000009"),
        Happening(at_s=4000, what="uncordon", name="gpu-0-0001"),
        Happening(at_s=5000, what="release", name="0000009"),
        Happening(at_s=6000, what="cancel", name="0000012"),
    )
    return Workload(jobs=jobs, script=script)


def setup_of(random: Random) -> Setup:
    shapes = (
        Shape(count=3, devices=2),
        Shape(count=2, devices=1, speed=random.choice((1.0, 0.5))),
    )
    change = Change(at_s=2000, pool="gpu-0", count=-1)
    return Setup(
        cluster=Cluster(shapes=shapes, changes=random.choice(((), (change,)))),
        order=random.choice(ORDERS),
        placement=random.choice(PLACEMENTS),
        preemption="order",
        round_s=300.0,
        costs=random.choice((IDEAL, COSTS)),
    )


def played(setup: Setup, workload: Workload, *, by_cycles: bool) -> Result:
    engine = engine_of(setup, fitted(workload, setup.cluster))
    assert isinstance(engine, RoundEngine) and isinstance(engine.planner, OneDeviceRound)
    if by_cycles:
        assert isinstance(engine.driver, Carrying)
        engine.planner = WholeRound(engine.driver)
    while engine.step():
        pass
    return engine.result("", {}, took_s=0.0)


@pytest.mark.parametrize("seed", some(12, of=120))
def test_the_walk_starts_and_suspends_what_cycles_do(seed: int) -> None:
    """Every attempt begins, ends and lies where the scheduler's cycles on free machines put it."""
    random = Random(seed)
    workload, setup = workload_of(random), setup_of(random)
    found = played(setup, workload, by_cycles=False)
    expected = played(setup, workload, by_cycles=True)
    assert found.jobs == expected.jobs
    assert found.cycles == expected.cycles


@pytest.mark.parametrize(
    "more",
    [
        TraceJob(name="wide", submit_s=1, duration_s=1, devices=2, replicas=1),
        TraceJob(name="other", submit_s=1, duration_s=1, project="other"),
    ],
)
def test_whatever_else_a_cycle_looks_at_is_left_to_the_cycle(more: TraceJob) -> None:
    """With a wider job, or a second project, the scheduler's own cycle chooses."""
    workload = workload_of(Random(0))
    jobs = sorted([*workload.jobs, more], key=lambda job: job.submit_s)
    setup = setup_of(Random(0))
    engine = engine_of(setup, fitted(replace(workload, jobs=jobs), setup.cluster))
    assert isinstance(engine, RoundEngine) and isinstance(engine.planner, WholeRound)
