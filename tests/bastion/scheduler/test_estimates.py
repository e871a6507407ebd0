"""An estimated start is based on what is known of running jobs, and changes no plan."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bastion.job import JobRecord
from bastion.scheduler.cycle import decide
from bastion.scheduler.forecast.confidence import Start, start_of
from bastion.scheduler.forecast.estimate import AGAIN_S
from bastion.scheduler.plan import Plan, Verdict, Verdicts, Wait
from bastion.scheduler.runs import Runs, kind_of
from bastion.scheduler.snapshot import Snapshot
from bastion.spec.values.quantity import text_of_seconds
from tests.bastion.scheduler import histories
from tests.bastion.scheduler.world import Decide, World, machines_of, quota_of

HOUR = 3600
STEADY = tuple(range(HOUR - 80, HOUR + 80, 10))
"""Sixteen runs of about an hour."""


def world(
    runs: Mapping[str, tuple[int, ...]], *, devices: int = 8, decide: Decide = decide
) -> World:
    """Return one project with `devices`, and what is known of its earlier runs."""
    w = World(
        quota_of({"gpu": devices}, {"A": {"gpu": 1}}), machines_of(1, gpu=devices), decide=decide
    )
    w.extra["runs"] = {kind: Runs(at=0, lengths=lengths) for kind, lengths in runs.items()}
    return w


def start(w: World, name: str) -> Start:
    """Return what is known of the start of a waiting job, from a new decision."""
    verdict = w.cycle().verdicts[name]
    assert isinstance(verdict, Wait)
    return start_of(verdict)


def test_a_pool_full_of_endless_jobs_has_an_estimate() -> None:
    """Jobs of this kind ran for an hour sixteen times, so the next starts in about an hour."""
    w = world({"A/u/train-#": STEADY})
    w.ask("A", "train-17", gpu=8)
    w.cycle()
    w.ask("A", "next", gpu=1)
    found = start(w, "next")
    assert found.estimated_at == pytest.approx(w.now + HOUR, abs=20)
    assert (found.sure, found.rests_on) == ("history", 16)
    assert 30 <= found.off_by_s <= 150
    told = f"rests on 16 earlier runs; may be off by ~{text_of_seconds(found.off_by_s)}"
    assert found.sure_text == told


@pytest.mark.parametrize(
    ("runs", "rests_on"),
    [
        ({"A/u/train-#": (HOUR,) * 3, "A/u/other": (9,) * 9, "A/v/x": (9,) * 9}, 3),
        ({"A/u/train-#": (HOUR,), "A/u/other": (HOUR,) * 4, "A/v/x": (9,) * 9}, 5),
        ({"A/u/train-#": (HOUR,), "A/u/other": (HOUR,), "A/v/x": (HOUR,) * 9}, 11),
        ({"A/v/x": (HOUR,)}, 1),
    ],
)
def test_fewer_than_enough_are_looked_at_with_more(
    runs: dict[str, tuple[int, ...]], rests_on: int
) -> None:
    """If a kind has too few runs, all of the user's count, and then all of the project's."""
    w = world(runs)
    w.ask("A", "train-17", gpu=8)
    w.cycle()
    w.ask("A", "next", gpu=1)
    found = start(w, "next")
    assert (found.estimated_at, found.rests_on) == (w.now + HOUR, rests_on)


def test_other_projects_tell_nothing() -> None:
    """Runs of another project give no estimate of when an endless job ends."""
    w = world({"B/u/train-#": STEADY})
    w.ask("A", "train-17", gpu=8)
    w.cycle()
    w.ask("A", "next", gpu=1)
    assert start(w, "next") == Start()


def test_a_job_that_has_outlived_most_runs_is_judged_by_longer_ones() -> None:
    """After two hours only runs of more than two hours count; an estimate is never in the past."""
    w = world({"A/u/train-#": (60,) * 9 + (5 * HOUR,) * 3})
    w.ask("A", "train-17", gpu=8)
    w.cycle()
    began = w.now
    w.ask("A", "next", gpu=1)
    assert start(w, "next").estimated_at == began + 60
    w.pass_time(61)
    assert start(w, "next").estimated_at == began + 5 * HOUR
    w.pass_time(5 * HOUR)
    assert start(w, "next") == Start()


def test_an_estimate_that_passes_is_made_anew() -> None:
    """The scheduler asks for a cycle at that time, even if nothing else changes by then."""
    w = world({"A/u/train-#": STEADY})
    w.ask("A", "train-17", gpu=8)
    w.cycle()
    w.ask("A", "next", gpu=1)
    assert start(w, "next").estimated_at == w.plan.wake_at
    w.pass_time(STEADY[-4] - 1)
    found = start(w, "next").estimated_at
    assert found is not None
    assert w.now < found < w.now + AGAIN_S
    assert w.plan.wake_at == w.now + AGAIN_S


def test_a_limit_that_comes_before_counts() -> None:
    """A job limited to ten minutes ends by then, however long others of its kind took."""
    w = world({"A/u/train-#": STEADY})
    w.ask("A", "train-17", gpu=8, max_runtime_s=600)
    w.cycle()
    w.ask("A", "next", gpu=1)
    found = start(w, "next")
    assert (found.estimated_at, found.sure, found.off_by_s) == (w.now + 630, "limits", 0)
    assert (
        found.sure_text
        == "if running jobs use all of their time limits and grace periods, and no job is queued"
        " ahead of it"
    )


def test_of_many_the_first_to_end_make_room() -> None:
    """Of sixteen jobs whose kind ran for up to sixteen hours, one ends soon."""
    w = world({"A/u/train-#": tuple(HOUR * n for n in range(1, 17))}, devices=16)
    for number in range(16):
        w.ask("A", f"train-{number}", gpu=1)
    w.cycle()
    w.ask("A", "one", gpu=1)
    one = start(w, "one").estimated_at
    assert one is not None
    assert one <= w.now + 4 * HOUR
    del w.jobs["one"]
    w.ask("A", "all", gpu=16)
    every = start(w, "all").estimated_at
    assert every is not None
    assert every >= w.now + 14 * HOUR


def test_a_gang_ends_with_the_last_of_its_jobs() -> None:
    """Two kinds run together: a job that needs all devices starts once the longer one ends."""
    w = world({"A/u/a": (HOUR,) * 3, "A/u/b": (2 * HOUR,) * 4})
    for name in ("a", "b"):
        w.ask("A", name, gpu=4, gang=("a", "b"))
    w.cycle()
    w.ask("A", "next", gpu=8)
    found = start(w, "next")
    assert (found.estimated_at, found.rests_on) == (w.now + 2 * HOUR, 3)


def test_those_behind_are_told_too() -> None:
    """Each later job waits for one more end; scattered devices count."""
    w = world({"A/u/a": (HOUR,) * 3, "A/u/b": (2 * HOUR,) * 3, "A/u/c": (3 * HOUR,) * 3})
    for name in "abc":
        w.ask("A", name, gpu=2)
    w.cycle()
    for name in ("first", "second", "third"):
        w.ask("A", name, gpu=4)
    w.cycle()
    reasons = {name: type(v.reason).__name__ for name, v in w.plan.verdicts.items()}
    assert [reasons[n] for n in ("first", "second", "third")] == [
        "WaitingForCapacity",
        "Behind",
        "Behind",
    ]
    assert start(w, "first").estimated_at == w.now + HOUR
    assert start(w, "second").estimated_at == w.now + 3 * HOUR
    assert start(w, "third") == Start()


def test_what_others_leave_of_their_share_they_take_again() -> None:
    """B's job ends in an hour, but B has another job waiting for its share: A gets no estimate."""
    quota = quota_of({"gpu": 8}, {"A": {"gpu": 0.5}, "B": {"gpu": 0.5}})
    w = World(quota, machines_of(1, gpu=8))
    runs = {"A/u/a": (5 * HOUR,) * 3, "B/u/b": (HOUR,) * 3}
    w.extra["runs"] = {kind: Runs(at=0, lengths=each) for kind, each in runs.items()}
    w.ask("A", "a", gpu=4)
    w.ask("B", "b", gpu=4)
    w.cycle()
    w.ask("A", "more", gpu=4)
    assert start(w, "more").estimated_at == w.now + HOUR
    w.ask("B", "next", gpu=4)
    assert start(w, "next").estimated_at == w.now + HOUR
    assert start(w, "more").estimated_at == w.now + 5 * HOUR


# Earlier runs change estimates alone

QUICK = settings(max_examples=10, deadline=None, database=None, derandomize=True)


def some_runs(random: Random, jobs: Mapping[str, JobRecord]) -> dict[str, Runs]:
    """Return run times, short and long, for most kinds of the jobs."""
    kinds = sorted({kind_of(job) for job in jobs.values()})
    return {
        kind: Runs(at=0, lengths=tuple(random.choice((5, 60, 900, 9000)) for _ in range(5)))
        for kind in kinds
        if random.random() < 0.8
    }


def without_estimates(plan: Plan) -> Plan:
    """Return everything in a plan that is acted on."""

    def bare(verdict: Verdict) -> Verdict:
        if not isinstance(verdict, Wait):
            return verdict
        return Wait(reason=verdict.reason)

    verdicts = {name: bare(verdict) for name, verdict in plan.verdicts.items()}
    return replace(plan, verdicts=Verdicts(verdicts), wake_at=None)


def estimates_moved(seed: int, make: histories.Make, inner: Decide = decide) -> int:
    """Return how many estimates other runs change in a random history; nothing else may change."""
    random = Random(seed)
    world, moved = make(random, decide), 0
    for _ in range(8):
        histories.step(random, world)
        histories.step(random, world)
        snapshot = world.snapshot()
        plan = decide(snapshot, world.now)
        other = inner(replace(snapshot, runs=some_runs(random, world.jobs)), world.now)
        assert without_estimates(plan) == without_estimates(other)
        moved += plan != other
        world.cycle()
    return moved


@pytest.mark.parametrize("make", [histories.world_of, histories.mixed_world_of])
@given(seed=st.integers(0, 2**32))
@QUICK
def test_earlier_runs_change_estimates_alone(seed: int, make: histories.Make) -> None:
    """Earlier runs do not change what a plan starts, stops or promises, nor its reasons."""
    estimates_moved(seed, make)


def by_history(snapshot: Snapshot, now: float) -> Plan:
    """Return a scheduler that treats the duration of earlier runs as a limit."""

    def limited(job: JobRecord) -> JobRecord:
        runs = snapshot.runs.get(kind_of(job))
        if runs is None:
            return job
        return replace(job, request=replace(job.request, max_runtime_s=max(runs.lengths)))

    jobs = {name: limited(job) for name, job in snapshot.jobs.items()}
    return decide(replace(snapshot, jobs=jobs), now)


def test_a_scheduler_that_plans_by_history_is_noticed() -> None:
    """It backfills by expected durations, so its plans differ; the real scheduler's do not."""
    assert sum(estimates_moved(seed, histories.world_of) for seed in range(20)) > 0
    with pytest.raises(AssertionError):
        for seed in range(100):
            estimates_moved(seed, histories.world_of, by_history)


def test_what_comes_free_is_told_to_the_first_in_line() -> None:
    """In this history, either of two jobs could start on it; the one of higher priority does."""
    told = []

    def note(world: World) -> None:
        found = [world.plan.verdicts.get(name) for name in ("B-9-12-0", "B-12-6")]
        told.append([each.estimated_at for each in found if isinstance(each, Wait)])

    histories.run(1, (), steps=25, after=note, make=histories.wide_world_of)
    both = [each for each in told if len(each) == 2]
    assert [at for at, _ in both if at is not None]
    assert not [at for at, later in both if at and later and later < at]


def test_a_slice_ends_nothing_for_a_gang_without_a_planned_start() -> None:
    """A borrower without a limit is rotated only for a gang that has waited long enough."""
    quota = quota_of({"gpu": 8}, {"A": {"gpu": 0.5}, "B": {"gpu": 0.5}}, borrow_slice_s=HOUR)
    w = World(quota, machines_of(1, gpu=8))
    w.ask("A", "base", gpu=8)
    w.cycle()
    w.ask("A", "next", gpu=8)
    assert start(w, "next").estimated_at is None
    w.pass_time(quota.scheduler.plan_after_s)
    w.cycle()
    assert w.reason("next") == "Planned"
