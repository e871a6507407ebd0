"""`max-min` and `optimus`: shares of time against small cases by hand and by brute force."""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import product
from pathlib import Path
from random import Random

import pytest

from bastion.errors import BastionError, SpecError
from bastion.job import JobRecord
from bastion.machine import MachinePhase
from bastion.scheduler.policies.max_min import level_of
from bastion.scheduler.policies.optimus import in_proportion, shared_out
from bastion.scheduler.policies.time_share import Asking, capacities
from bastion.scheduler.snapshot import Snapshot
from bastion.simulator import Cluster, Costs, Shape, TraceJob, Workload, simulate
from bastion.simulator.policies.effective import Class, fair_speeds
from bastion.simulator.workload.throughput import read_throughputs
from bastion.spec.request import Request
from quota import Amounts
from tests.bastion.scheduler.world import machines_of, pool_of, quota_of


def asking(name: str, devices: int) -> Asking:
    request = Request(per_replica=Amounts({"gpu": devices}))
    record = JobRecord(
        id=name,
        name=name,
        project="p",
        user="u",
        launch=name,
        ulid=name,
        submitted_at=0.0,
        queued_at=0.0,
        request=request,
    )
    return Asking(record, "gpu", devices)


def test_capacity_is_what_accepts_jobs_and_what_pools_may_still_make() -> None:
    """A machine outlives its pool; one that is deleted makes room for another."""
    machines = machines_of(2, "gone", gpu=8) | machines_of(3, "p", gpu=8)
    cordoned, deleted, *_ = (name for name in sorted(machines) if machines[name].pool == "p")
    machines[cordoned] = replace(machines[cordoned], cordoned="u")
    machines[deleted] = replace(machines[deleted], phase=MachinePhase.DELETING)
    snapshot = Snapshot(
        quota=quota_of({"gpu": 40}, {}), jobs={}, machines=machines, pools={"p": pool_of(4, gpu=8)}
    )
    assert capacities(snapshot) == {"gpu": 2 * 8 + 1 * 8 + 2 * 8}


@pytest.mark.parametrize("seed", range(20))
def test_a_level_is_what_filling_drop_by_drop_gives(seed: int) -> None:
    """Every job is filled equally until it has what it asks for or nothing is left."""
    random = Random(seed)
    asked = [random.randint(1, 8) for _ in range(random.randint(1, 6))]
    capacity, drop = random.randint(1, 30), 0.001
    had, left = [0.0] * len(asked), float(capacity)
    while left > drop and any(got < most for got, most in zip(had, asked)):
        for at, most in enumerate(asked):
            if had[at] < most and left > 0:
                had[at], left = had[at] + drop, left - drop
    level = level_of(asked, capacity)
    assert [min(level, most) for most in asked] == pytest.approx(had, abs=0.05)


@pytest.mark.parametrize("seed", range(20))
def test_marginal_gains_bring_the_least_sum_of_completions(seed: int) -> None:
    """With speeds that grow ever less, no other way to share the devices out is better."""
    random = Random(seed)
    jobs = [asking(f"j{at}", random.randint(1, 4)) for at in range(4)]
    left = [float(random.randint(10, 1000)) for _ in jobs]
    capacity = random.randint(4, 12)
    power = {each.job.id: random.uniform(0.3, 1.0) for each in jobs}

    def speed_of(job: JobRecord, devices: int) -> float:
        return math.pow(devices, power[job.id])

    def total(given: tuple[int, ...] | list[int]) -> float:
        return sum(
            seconds * speed_of(each.job, each.devices) / speed_of(each.job, devices)
            for each, seconds, devices in zip(jobs, left, given)
        )

    found = shared_out(jobs, left, capacity, speed_of)
    ways = product(*(range(1, each.devices + 1) for each in jobs))
    assert total(found) == pytest.approx(min(total(way) for way in ways if sum(way) <= capacity))


def test_the_first_devices_go_to_what_is_done_soonest() -> None:
    """Where not every job can have one device, the shortest have; a negative gain takes none."""
    jobs = [asking("long", 2), asking("short", 2), asking("middle", 1)]
    assert shared_out(jobs, [900, 10, 50], 2, in_proportion) == [0, 1, 1]
    slower = shared_out([asking("a", 4)], [100], 4, lambda _, devices: 1.0 / devices)
    assert slower == [1]


def test_effective_throughput_by_hand() -> None:
    """Two pools of one device: a job that gains nothing there leaves the fast one to the other."""
    linprog = pytest.importorskip("scipy.optimize").linprog
    alike: list[tuple[Class, int]] = [((1, (4.0, 1.0)), 1), ((1, (2.0, 1.0)), 1)]
    # x of its time on the fast one: (1 + 3x) / 2.5 = (2 - x) / 1.5 at x = 0.5.
    assert fair_speeds(alike, [1, 1], linprog) == pytest.approx([2.5, 1.5])
    unlike: list[tuple[Class, int]] = [((1, (4.0, 1.0)), 1), ((1, (1.0, 1.0)), 1)]
    assert fair_speeds(unlike, [1, 1], linprog) == pytest.approx([4.0, 1.0])


@pytest.mark.parametrize("seed", range(6))
def test_no_other_times_give_the_worst_job_more(seed: int) -> None:
    """Of all ways in steps of a sixth, none has a smallest normalised throughput above ours."""
    linprog = pytest.importorskip("scipy.optimize").linprog
    random = Random(seed)
    there = [1, random.randint(1, 2)]
    drawn = {(1, (random.uniform(1, 4), random.uniform(0.5, 2))) for _ in range(3)}
    classes: list[tuple[Class, int]] = [(each, 1) for each in sorted(drawn)]
    equal = [sum(s * n for s, n in zip(speeds, there)) / sum(there) for (_, speeds), _ in classes]
    steps = [(a / 6, b / 6) for a in range(7) for b in range(7 - a)]
    best = 0.0
    for times in product(steps, repeat=len(classes)):
        if all(sum(time[pool] for time in times) <= there[pool] + 1e-9 for pool in (0, 1)):
            got = [
                sum(s * t for s, t in zip(speeds, time)) / fair
                for ((_, speeds), _), time, fair in zip(classes, times, equal)
            ]
            best = max(best, min(got))
    ours = min(s / fair for s, fair in zip(fair_speeds(classes, there, linprog), equal))
    assert best <= ours + 1e-6 <= best + 0.35


def test_equal_jobs_take_turns() -> None:
    """Two jobs that each need the whole machine alternate by rounds; in order they do not."""
    work = Workload(
        jobs=[TraceJob(name=n, submit_s=0, duration_s=200, devices=4, replicas=1) for n in "ab"]
    )
    study = simulate(work, machines="1x4", order=["max-min", "fifo"], round_s=100.0)
    ends = [[each.ended_at for each in result.jobs] for result in study.results]
    assert ends == [[300, 400], [200, 400]]


def test_a_short_job_gets_the_device_under_optimus() -> None:
    """It has the share of a device that the long one then has not."""
    long = TraceJob(name="long", submit_s=0, duration_s=1000)
    short = TraceJob(name="short", submit_s=100, duration_s=100)
    work = Workload(jobs=[long, short])
    study = simulate(work, machines="1x1", order="optimus", round_s=100.0)
    assert [each.ended_at for each in study.results[0].jobs] == [1100, 200]


TABLE = """
reference = "fast"
[net.fast]
1 = 10.0
4 = 34.0
[net.slow]
1 = 5.0
"""


def test_throughputs_say_how_fast_a_kind_of_job_is(tmp_path: Path) -> None:
    """A job works as its kind does where it lies, and others as the pool does."""
    file = tmp_path / "speeds.toml"
    file.write_text(TABLE)
    found = read_throughputs(file)
    assert found.speed("net", "slow", "gpu", 1) == 0.5
    assert found.scaled("net", 2) == 18.0
    assert found.scaled("net", 9) == 34.0
    assert found.speed("other", "slow", "gpu", 1) is None
    slow = Cluster(shapes=(Shape(count=2, devices=1, name="slow", speed=2.0),))
    work = Workload(
        jobs=[
            TraceJob(name="known", submit_s=0, duration_s=100, kind="net"),
            TraceJob(name="other", submit_s=0, duration_s=100),
        ]
    )
    study = simulate(work, machines=slow, throughput=file)
    assert [each.ended_at for each in study.results[0].jobs] == [200, 50]


def test_max_min_and_optimus_ask_the_table(tmp_path: Path) -> None:
    """On two pools of several speeds both end every job, and max-min lets both kinds get on."""
    pytest.importorskip("scipy")
    file = tmp_path / "speeds.toml"
    file.write_text(TABLE)
    cluster = Cluster(
        shapes=(Shape(count=1, devices=1, name="fast"), Shape(count=1, devices=1, name="slow"))
    )
    work = Workload(
        jobs=[
            TraceJob(name=f"j{at}", submit_s=at, duration_s=500, kind="net" if at % 2 else "")
            for at in range(6)
        ]
    )
    study = simulate(
        work, machines=cluster, throughput=file, order=["max-min", "optimus"], round_s=60.0
    )
    assert [each.ended for each in study.measures] == [6, 6]
    assert study.measures[0].response_s["max"] < study.measures[1].response_s["max"]


def test_a_table_that_is_wrong_says_all_that_is(tmp_path: Path) -> None:
    """Every problem is named, with its place."""
    file = tmp_path / "speeds.toml"
    file.write_text("reference = 'x'\n[net.fast]\nmany = 1\n2 = -1\n")
    with pytest.raises(SpecError) as error:
        read_throughputs(file)
    assert str(error.value) == (
        "speeds.toml: net.fast: 'many' is not a number of devices;"
        " speeds.toml: net.fast: 2 = -1; allowed: steps a second, above zero;"
        " speeds.toml: net: has no table for the reference x"
    )
    file.write_text("[net.fast]\n1 = 1.0\n")
    with pytest.raises(SpecError, match=r"^speeds\.toml: reference: is missing; must name a pool"):
        read_throughputs(file)


TURNS = Workload(jobs=[TraceJob(name=n, submit_s=0, duration_s=2000) for n in "ab"])


@pytest.mark.parametrize(
    ("costs", "said", "ways"),
    [
        (
            Costs(start_s=20, restart_s=60, checkpoint_s=250),
            "under las jobs take turns of one round of 300 s; 80 s of it are start and restart, and"
            " its first checkpoint comes after 250 s of work: each turn is lost",
            "--cost=checkpoint=0 for jobs that save when they are stopped |"
            " --cost=checkpoint=220 or less | --round=331 or longer | --ideal",
        ),
        (
            Costs(start_s=200, restart_s=100, checkpoint_s=0),
            "300 s of it are start and restart, and no second is left for work: each turn is lost",
            "--round=301 or longer | --ideal",
        ),
    ],
    ids=["before a checkpoint", "before any work"],
)
def test_turns_in_which_nothing_is_kept_are_refused(costs: Costs, said: str, ways: str) -> None:
    """Jobs that lose all they do in a round would never end; the message says what to change."""
    with pytest.raises(SpecError) as refused:
        simulate(TURNS, machines="1x1", order=["fifo", "las"], round_s=300.0, costs=costs, cores=1)
    assert said in str(refused.value)
    assert refused.value.hint == ways


@pytest.mark.parametrize("checkpoint_s", [220, 0])
def test_turns_in_which_a_checkpoint_fits_go_on(checkpoint_s: float) -> None:
    """Where a round keeps something of a job, jobs that take turns end."""
    costs = Costs(start_s=20, restart_s=60, checkpoint_s=checkpoint_s)
    study = simulate(TURNS, machines="1x1", order="las", round_s=300.0, costs=costs)
    assert study.measures[0].ended == 2


@pytest.mark.parametrize("speed", [1.0, 0.5])
def test_turns_at_every_event_are_as_long_as_one_that_keeps_something(speed: float) -> None:
    """Without rounds a job under `las` yields after its first checkpoint: nothing thrashes."""
    study = simulate(TURNS, machines=f"1x1:gpu@{speed}", order="las", costs=Costs())
    (found,) = study.measures
    length_s = sum(job.duration_s for job in TURNS.jobs) / speed
    assert found.ended == 2
    assert 0 < found.preemptions <= length_s / (1800 / speed)
    assert "turns of" in study.results[0].settings["decided"]


def test_jobs_that_stop_one_another_for_ever_are_told(tmp_path: Path) -> None:
    """A simulation in which no stop keeps any work ends, and says what to change."""
    mine = tmp_path / "mine.py"
    mine.write_text("class Mine:\n    def rank(self, job, now):\n        return job.attained_s\n")
    with pytest.raises(BastionError) as told:
        simulate(TURNS, machines="1x1", policy=f"{mine}:Mine", round_s=300.0, costs=Costs())
    assert str(told.value) == (
        "2 jobs stop one another for ever: 511 stops within 42.5 hours kept no work (start and"
        " restart take 80 s, the first checkpoint comes after 1800 s of work)"
    )
    assert told.value.hint.startswith(
        "--cost=checkpoint=0 for jobs that save when they are stopped"
    )


def test_a_stop_that_keeps_work_ends_the_count() -> None:
    """However often jobs are stopped, they go on for as long as any of them keeps anything."""
    costs = Costs(start_s=20, restart_s=60, checkpoint_s=220)
    long = Workload(jobs=[TraceJob(name=n, submit_s=0, duration_s=220 * 600) for n in "ab"])
    study = simulate(long, machines="1x1", order="las", round_s=300.0, costs=costs)
    assert study.measures[0].ended == 2
    assert study.measures[0].preemptions > 1100
