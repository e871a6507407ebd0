"""What a driver skips or carries over changes nothing."""

from __future__ import annotations

from random import Random

import pytest

from bastion.scheduler.cycle import decide_with
from bastion.scheduler.plan import Plan
from bastion.simulator.cluster.cluster import Change, Cluster, Shape
from bastion.simulator.engine.driver import Carrying, Naive, Shortcut
from bastion.simulator.engine.jobs.costs import IDEAL, Costs
from bastion.simulator.engine.result import JobResult
from bastion.simulator.engine.state import State
from bastion.simulator.fitting import fitted
from bastion.simulator.run import engine_of
from bastion.simulator.setup import Setup, with_projects
from bastion.simulator.workload.job import TraceJob, Workload
from tests.rigs.seeds import some

DEAR = Costs(start_s=5, restart_s=20, leave_s=10, checkpoint_s=100, mtbf_s=20_000, repair_s=500)


def workload_of(random: Random) -> Workload:
    """Return jobs of three projects, some in long lines of equal ones."""
    time, jobs = 0.0, list[TraceJob]()
    while len(jobs) < 90:
        time += random.choice((0, 1, 5, 60, 600))
        like = TraceJob(
            name="",
            submit_s=time,
            duration_s=random.choice((5, 60, 400, 3000)),
            devices=random.choice((1, 1, 1, 2, 4, 8)),
            project=random.choice(("a", "b", "c")),
            user=random.choice(("u", "v")),
            priority=random.choice((2, 3, 3, 3)),
            max_runtime_s=random.choice((None, None, 3600.0)),
        )
        for _ in range(random.choice((1, 1, 2, 25))):
            jobs.append(like._replace(name=f"j{len(jobs)}"))
    return Workload(jobs=jobs)


def setup_of(random: Random) -> Setup:
    cluster = Cluster(
        shapes=(Shape(count=2, devices=4, most=random.choice((0, 3)), boot_s=30),),
        changes=(Change(at_s=900, pool="gpu-0", count=random.choice((-1, 1))),),
    )
    return Setup(
        cluster=cluster,
        shares=random.choice(("demand", "equal", "one")),
        order=random.choice(("", "fifo", "srtf")),
        admission=random.choice(("", "", "load-limit:1.5")),
        costs=random.choice((IDEAL, DEAR)),
    )


def played(setup: Setup, workload: Workload, *, naive: bool) -> tuple[list[JobResult], int]:
    engine = engine_of(setup, fitted(workload, setup.cluster), shows_all=naive)
    if naive:
        assert isinstance(engine.driver, Naive)
        engine.driver = Naive(engine.state.quota, engine.driver.parts)
    while engine.step():
        pass
    return list(engine.result("", {}, took_s=0.0).jobs), engine.cycles


@pytest.mark.parametrize("seed", some(6, of=60))
def test_a_carrying_driver_does_what_naive_cycles_do(seed: int) -> None:
    """Every job starts, is preempted and ends as if each event were decided from scratch."""
    random = Random(seed)
    workload, setup = workload_of(random), setup_of(random)
    found, cycles = played(setup, workload, naive=False)
    expected, every = played(setup, workload, naive=True)
    assert found == expected
    assert cycles <= every


def test_what_was_promised_is_seen_though_one_of_its_line_is_before_it_again() -> None:
    """Of two equal jobs one fits: the other has a promise when the first is preempted."""
    test_a_carrying_driver_does_what_naive_cycles_do(46)


def test_a_simulation_ends_though_a_job_waits_that_fits_no_more() -> None:
    """The order could only make running jobs yield to it, and none runs."""
    cluster = Cluster(
        shapes=(Shape(count=2, devices=4),),
        changes=(Change(at_s=900, pool="gpu-0", count=-1),),
    )
    job = TraceJob(name="j", submit_s=0, duration_s=2_000, devices=8)
    setup = Setup(cluster=cluster, order="srtf", costs=DEAR)
    engine = engine_of(setup, fitted(Workload(jobs=[job]), cluster))
    assert any(not engine.step() for _ in range(100))
    (result,) = engine.result("", {}, took_s=0.0).jobs
    assert result.outcome == "waiting", result.reason


class Compared:
    """A shortcut whose plans are all compared with those of a cycle from scratch."""

    def __init__(self, inner: Shortcut, naive: Naive) -> None:
        self.inner, self.naive = inner, naive
        self.found = 0

    def plan(self, state: State, now: float) -> Plan | None:
        """As the inner one; fails where a cycle plans anything else."""
        found = self.inner.plan(state, now)
        if found is not None:
            self.found += 1
            expected = decide_with(self.naive.parts, state.snapshot(now), now, explains=False)
            assert told(found) == told(expected)
        return found


def told(plan: Plan) -> tuple[object, ...]:
    decided = dict(plan.verdicts.decided)
    rest = plan.promises, plan.planned, plan.new_machines, plan.considered, plan.wake_at
    return decided, *rest


@pytest.mark.parametrize("seed", some(4, of=40))
def test_a_job_that_arrives_alone_starts_where_a_cycle_puts_it(seed: int) -> None:
    """If nothing else waits, a cycle is skipped, and its plan is the same to the device."""
    random = Random(seed)
    jobs, time = [], 0.0
    for number in range(70):
        time += random.choice((0, 5, 60, 300, 900))
        job = TraceJob(
            name=f"j{number}",
            submit_s=time,
            duration_s=random.choice((60, 400, 1500)),
            devices=random.choice((1, 1, 2, 4, 8)),
            project=random.choice(("a", "b", "c")),
            priority=random.choice((2, 3)),
        )
        jobs.append(job)
    setup = Setup(
        cluster=Cluster(shapes=(Shape(count=5, devices=4), Shape(count=2, devices=2))),
        shares=random.choice(("demand", "equal", "one")),
        order=random.choice(("", "fifo", "las")),
        placement=random.choice(("", "spread", "consolidated")),
        costs=random.choice((IDEAL, DEAR)),
    )
    workload = with_projects(setup, fitted(Workload(jobs=jobs), setup.cluster))
    expected, _ = played(setup, workload, naive=True)
    engine = engine_of(setup, workload)
    assert isinstance(engine.driver, Carrying) and engine.driver.shortcut is not None
    compared = engine.driver.shortcut = Compared(engine.driver.shortcut, engine.driver)
    while engine.step():
        pass
    assert list(engine.result("", {}, took_s=0.0).jobs) == expected
    assert compared.found > 10
