"""Endless streams of equal jobs, and the gangs that must start beside them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bastion.scheduler.reasons.reason import Planned
from tests.bastion.scheduler import histories, laws, mutants
from tests.bastion.scheduler.histories import remembering, watched
from tests.bastion.scheduler.streams import (
    AFTER_S,
    BOUND_S,
    FEW,
    GRACE_S,
    RUNS_S,
    STEP_S,
    Stream,
    fill,
    labs,
    waited,
)
from tests.bastion.scheduler.world import Decide, World, machines_of, quota_of
from tests.rigs.length import at_length


def ask_big(world: World, project: str = "A", size: int = 2, **asked: Any) -> str:
    """Submit a gang of `size` devices."""
    common: dict[str, Any] = {"max_runtime_s": RUNS_S, "runs_s": RUNS_S, **asked}
    return world.ask(project, f"{project}-big", replicas=size, gpu=1, **common)


@pytest.mark.parametrize("order", ["fair", "fifo"])
@pytest.mark.parametrize("limit", [RUNS_S, None])
@pytest.mark.parametrize("size", [2, 4])
def test_a_gang_starts_beside_a_stream_of_its_own_project(
    order: str, limit: float | None, size: int
) -> None:
    """One-device jobs keep arriving; a gang of two, or of all, starts within the bound."""
    world, streams = labs({"A": 1}, order), [Stream("A", 4, limit)]
    fill(world, streams)
    assert waited(world, ask_big(world, size=size), streams, 2 * BOUND_S) <= BOUND_S


def test_a_gang_starts_though_other_users_have_used_less() -> None:
    """The user with less usage goes first, unless a gang has waited long."""
    world, streams = labs({"A": 1}), [Stream("A", 4, users=("u-1", "u-2", "u-3"))]
    fill(world, streams)
    gang = ask_big(world, user="v")
    world.extra["decayed_by_user"] = {("A", "v"): 1e9}
    assert waited(world, gang, streams, 2 * BOUND_S) <= BOUND_S


def test_a_gang_of_several_jobs_starts_beside_a_stream() -> None:
    """Two jobs that start together are protected like one job of two replicas."""
    world, streams = labs({"A": 1}), [Stream("A", 4)]
    fill(world, streams)
    gang = ("x", "y")
    for name in gang:
        world.ask("A", name, gang=gang, max_runtime_s=RUNS_S, runs_s=RUNS_S, gpu=1)
    assert waited(world, "x", streams, 2 * BOUND_S) <= BOUND_S


@pytest.mark.parametrize("limit", [RUNS_S, None])
def test_two_projects_each_with_a_stream_start_their_gangs(limit: float | None) -> None:
    """Neither gang waits for that of the other project."""
    world = labs({"A": 0.5, "B": 0.5}, machines=2)
    streams = [Stream("A", 4, limit), Stream("B", 4, limit)]
    fill(world, streams)
    asked_at = world.now
    gangs = [ask_big(world, "A"), ask_big(world, "B", size=4)]
    for gang in gangs:
        waited(world, gang, streams, 2 * BOUND_S)
        assert world.now - asked_at <= BOUND_S


def crowd(count: int, limit: float | None, inner: Decide | None = None) -> float:
    """Return how long a gang as large as the share takes to run in each of `count` projects."""
    names = [f"P{number:02}" for number in range(count)]
    world = labs(dict.fromkeys(names, 1 / count), machines=count, inner=inner, watching=())
    streams = [Stream(name, 4, limit) for name in names]
    fill(world, streams)
    asked_at = world.now
    gangs = [ask_big(world, name, size=4, max_runtime_s=limit) for name in names]
    for gang in gangs:
        waited(world, gang, streams, asked_at + 2 * BOUND_S - world.now)
    return world.now - asked_at


@pytest.mark.parametrize("limit", [RUNS_S, None])
@pytest.mark.parametrize("count", [4, 16])
def test_gangs_of_many_projects_start_beside_their_streams(count: int, limit: float | None) -> None:
    """A drain in one project does not keep another project from draining."""
    assert crowd(count, limit) <= BOUND_S


def test_a_scheduler_that_finds_drains_anew_in_every_cycle_is_noticed() -> None:
    """It only handles a few of them, and later jobs of the others start in the meantime."""
    assert crowd(8, None, mutants.forgets_drains) > BOUND_S


def test_a_gang_that_does_not_borrow_starts_beside_a_stream() -> None:
    """A gang that waits for its share is protected on it, too."""
    world, streams = labs({"A": 1}), [Stream("A", 4)]
    world.quota = replace(
        world.quota,
        projects={n: replace(p, borrow=False) for n, p in world.quota.projects.items()},
    )
    fill(world, streams)
    assert waited(world, ask_big(world), streams, 2 * BOUND_S) <= BOUND_S


def test_a_job_that_ends_in_time_is_backfilled_and_others_are_told_the_planned_gang() -> None:
    """Beside a planned start of its project, a short job starts and a long one says why not."""
    world, streams = labs({"A": 1}), [Stream("A", 4)]
    fill(world, streams)
    ask_big(world, size=4)
    world.pass_time(AFTER_S - RUNS_S)
    while not world.plan.planned:
        for stream in streams:
            stream.keep_up(world)
        world.pass_time(STEP_S)
        world.cycle()
    world.ask("A", "short", max_runtime_s=60, runs_s=60, gpu=1)
    while sum(world.runs(name) for name in world.jobs) == 4:
        world.pass_time(STEP_S)
        world.cycle()
    assert world.runs("short")
    world.pass_time(60)
    world.cycle()
    at = world.plan.planned[0].at
    waiting = next(n for n in sorted(world.jobs) if n.startswith("A-s") and not world.runs(n))
    assert world.why(waiting).startswith("waits for A-big, for which 4 gpu are reserved")
    assert world.verdict("A-big").reason == Planned(at=at, waiting_for=_running(world))


def _running(world: World) -> tuple[str, ...]:
    """Return the running jobs, the last to end first."""
    running = [(job.attempt.started_at, n) for n, job in world.jobs.items() if job.attempt]
    return tuple(name for _, name in sorted(running, reverse=True))


def test_around_jobs_without_a_limit_a_gang_drains_and_others_may_borrow() -> None:
    """No later job of its project starts; idle devices are lent, and reclaimed in time."""
    world = labs({"A": 0.5, "B": 0.5, "C": 0}, machines=2, min_runtime_s=60)
    fill(world, [Stream("A", 4, None), Stream("B", 4, None)])
    world.ends.clear()
    for name in ("A", "B"):
        while len(world.running(name)) < 4:
            world.ask(name, gpu=1)
            world.cycle()
    gang = ask_big(world)
    world.pass_time(AFTER_S)
    world.ask("A", "later", gpu=1)
    world.cycle()
    world.end(world.running("A")[0])
    world.cycle()
    assert not world.runs("later")
    assert "no later job of its project takes what it needs" in world.why(gang)
    assert "waits for A-big, which goes first in its project" in world.why("later")
    world.ask("C", "guest", gpu=1)
    world.cycle()
    assert world.runs("guest"), "what is drained is lent"
    world.end(world.running("A")[0])
    world.run(120)
    assert world.runs(gang) and not world.runs("guest")


def test_beside_a_drain_later_jobs_of_the_project_borrow_nothing_of_its_types() -> None:
    """What they borrowed would count against the share that the gang waits for."""
    quota = quota_of(
        {"gpu": 8, "old": 4},
        {"A": {"gpu": 0.5}, "B": {"gpu": 0.5, "old": 1}},
        plan_after_s=AFTER_S,
    )
    machines = machines_of(2, gpu=4) | machines_of(1, "q", old=4)
    world = World(quota, machines, decide=watched(FEW, remembering()))
    for name in "AAAABBB":
        world.ask(name, gpu=1)
    world.cycle()
    gang = ask_big(world, size=4, max_runtime_s=None)
    world.pass_time(AFTER_S)
    world.cycle()
    world.ask("A", "later", gpu=1)
    world.ask("A", "apart", old=1)
    world.ask("B", "other", gpu=1)
    world.cycle()
    assert world.runs("other") and world.runs("apart")
    world.end("other")
    world.cycle()
    assert not world.runs("later")
    assert "waits for A-big, which goes first in its project" in world.why("later")
    for name in world.running("A"):
        world.end(name)
    world.run(60)
    assert world.runs(gang) and world.runs("later")


def test_a_drain_is_kept_and_has_a_time_once_all_that_it_waits_for_has_a_limit() -> None:
    """It stays where it is; a limit that is set in the meantime determines the time."""
    world = labs({"A": 1}, machines=2)
    for _ in range(8):
        world.ask("A", gpu=1)
    world.cycle()
    world.ask("A", "host", gpu=4)
    world.pass_time(AFTER_S)
    world.cycle()
    (drained,) = world.plan.planned
    assert drained.at is None
    there = {host.machine for each in drained.placements[0] for host in each.hosts}
    for name in world.running("A"):
        job = world.jobs[name]
        assert job.attempt is not None
        if job.attempt.placement[0].hosts[0].machine in there:
            limited = replace(job.request, max_runtime_s=AFTER_S + 60)
            world.jobs[name] = replace(job, request=limited)
    world.cycle()
    (planned,) = world.plan.planned
    assert planned.placements == drained.placements
    assert planned.at == world.now + 60 + GRACE_S


def test_higher_priority_still_goes_first() -> None:
    """A planned start takes precedence over later jobs, not over earlier ones."""
    world, streams = labs({"A": 1}), [Stream("A", 4)]
    fill(world, streams)
    ask_big(world)
    world.pass_time(AFTER_S)
    world.ask("A", "urgent", priority=1, max_runtime_s=RUNS_S, runs_s=RUNS_S, gpu=1)
    world.run(2 * GRACE_S)
    assert world.runs("urgent")


def test_a_planned_start_is_not_put_off_when_the_share_holds_the_gang() -> None:
    """When another job ends, the gang is within its share and is promised an earlier start."""
    world = labs({"A": 0.5, "B": 0.5}, min_runtime_s=60, max_grace_s=90)
    world.ask("A", "mine", max_runtime_s=900, gpu=1)
    world.ask("B", "ends", max_runtime_s=900, gpu=1)
    world.ask("B", "stays", gpu=1)
    world.cycle()
    world.ask("B", "guest", gpu=1, grace_s=90.0)
    world.cycle()
    gang = ask_big(world)
    world.pass_time(900)
    world.cycle()
    (planned,) = world.plan.planned
    assert planned.at == world.now + GRACE_S
    world.end("mine")
    world.cycle()
    (promise,) = world.plan.promises
    assert promise.deadline == planned.at and not promise.victims
    world.end("ends")
    world.cycle()
    assert world.runs(gang) and world.runs("guest")


def test_no_start_is_planned_on_what_others_leave_idle_for_a_moment() -> None:
    """If another project has waiting jobs, it takes its devices back; the project's own count."""
    world = labs({"A": 0.5, "B": 0.5}, machines=2)
    for project, after_s in (("B", 100), ("A", 0)):
        for _ in range(4):
            world.ask(project, max_runtime_s=900, runs_s=900, gpu=1)
        world.cycle()
        world.pass_time(after_s)
    gang = ask_big(world)
    for _ in range(4):
        world.ask("B", max_runtime_s=900, runs_s=900, gpu=1)
    world.pass_time(AFTER_S)
    world.cycle()
    at = world.now + 900 - AFTER_S + GRACE_S
    assert {each.gang: each.at for each in world.plan.planned}[gang,] == at
    world.pass_time(900 - AFTER_S - 100)
    world.cycle()
    assert len(world.running("B")) == 4
    assert {each.gang: each.at for each in world.plan.planned}[gang,] == at
    world.pass_time(100)
    world.cycle()
    assert world.runs(gang)


def test_beside_a_planned_start_later_jobs_of_the_project_borrow_only_what_they_give_back() -> None:
    """What they hold beyond its time would count against the share that the gang waits for."""
    world = labs({"A": 0.5, "B": 0.5}, machines=2)
    for _ in range(4):
        world.ask("A", max_runtime_s=900, runs_s=900, gpu=1)
    world.cycle()
    gang = ask_big(world, size=4)
    world.ask("B", replicas=2, gpu=1)
    world.cycle()
    world.pass_time(AFTER_S)
    world.cycle()
    (planned,) = world.plan.planned
    assert planned.at == world.now + 900 - AFTER_S + GRACE_S
    world.ask("A", "long", max_runtime_s=900, gpu=1)
    world.ask("A", "short", max_runtime_s=60, runs_s=60, gpu=1)
    world.cycle()
    assert world.runs("short") and not world.runs("long")
    assert "waits for A-big" in world.why("long")
    world.run(900 - AFTER_S)
    assert world.runs(gang)


def test_a_scheduler_without_the_protection_is_noticed() -> None:
    """A scheduler that plans only what phase 3 left over lets the gang wait forever."""
    world, streams = labs({"A": 1}, inner=mutants.overtakes, watching=()), [Stream("A", 4)]
    fill(world, streams)
    assert waited(world, ask_big(world), streams, 2 * BOUND_S) > BOUND_S


def test_a_scheduler_that_puts_planned_starts_off_is_noticed() -> None:
    """A scheduler that announces a later time than before breaks the law of announced starts."""
    world, streams = labs({"A": 1}, inner=mutants.puts_off), [Stream("A", 4)]
    fill(world, streams)
    with pytest.raises(AssertionError, match="told"):
        waited(world, ask_big(world), streams, BOUND_S)


@pytest.mark.parametrize("seed", range(4))
def test_streams_of_all_kinds_let_gangs_start(seed: int) -> None:
    """Random projects, orders, limits and gangs beside their streams keep every law."""
    histories.run(seed, [*laws.LAWS, laws.told_starts_are_kept()], make=histories.stream_world_of)


@pytest.mark.prove
@given(seed=st.integers(0, 2**32))
@settings(max_examples=at_length(700), deadline=None, database=None)
def test_streams_of_all_kinds_at_length(seed: int) -> None:
    """The same holds for a thousand of them."""
    told = laws.told_starts_are_kept()
    histories.run(seed, [*laws.LAWS, told], steps=60, make=histories.stream_world_of)
