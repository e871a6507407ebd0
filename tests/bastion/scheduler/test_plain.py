"""A cycle without searches: what runs instead of a cycle that fails."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bastion.scheduler.cycle import decide, decide_plainly
from bastion.scheduler.plan import Plan
from bastion.scheduler.snapshot import Snapshot
from tests.bastion.scheduler import histories, laws
from tests.bastion.scheduler.world import Decide, World, machines_of, quota_of
from tests.rigs.length import at_length

OF_USE = (
    laws.every_job_has_a_verdict,
    laws.victims_are_minimal,
    laws.a_rotation_is_of_use,
    laws.work_is_conserved,
    laws.the_guarantee,
)
"""What a cycle without searches does not promise."""
SAFE = [law for law in laws.LAWS if law not in OF_USE]
MAKES = pytest.mark.parametrize("make", [*histories.WORLDS, histories.grouped_world_of])


def sometimes_plainly(snapshot: Snapshot, now: float) -> Plan:
    """Decide; about a third of the cycles are run without searches."""
    plainly = len(snapshot.jobs) % 3 == 0
    return decide_plainly(snapshot, now) if plainly else decide(snapshot, now)


@MAKES
def test_nothing_unsafe_happens_without_searches(make: histories.Make) -> None:
    """Every law of safety holds, also for what other cycles promised and planned."""
    for seed in range(10):
        histories.run(seed, SAFE, steps=20, inner=sometimes_plainly, make=make)


@pytest.mark.prove
@MAKES
@given(seed=st.integers(0, 2**32))
@settings(max_examples=at_length(500), deadline=None, database=None)
def test_nothing_unsafe_happens_without_searches_at_length(seed: int, make: histories.Make) -> None:
    """The same in thousands of histories."""
    histories.run(seed, SAFE, steps=25, inner=sometimes_plainly, make=make)


def test_jobs_start_where_they_fit() -> None:
    """One within its share and one beyond it; nothing is preempted for the third."""
    world = World(
        quota_of({"gpu": 8}, {"A": {"gpu": 0.5}, "B": {"gpu": 0.5}}, min_runtime_s=0),
        machines_of(1, gpu=8),
        decide=decide_plainly,
    )
    world.ask("A", "own", gpu=4)
    world.ask("A", "borrowing", gpu=2)
    world.cycle()
    assert world.runs("own")
    assert world.runs("borrowing")
    world.ask("B", "large", gpu=4)
    world.cycle()
    assert not world.runs("large")
    assert world.preemptions == []


def two_machines(decide: Decide = decide_plainly, *, plan_after_s: float = 3_600) -> World:
    """Return a world of two projects, in which cycles make no searches."""
    shares = {"A": {"gpu": 0.5}, "B": {"gpu": 0.5}}
    quota = quota_of({"gpu": 16}, shares, min_runtime_s=0, plan_after_s=plan_after_s)
    return World(quota, machines_of(2, gpu=8), decide=decide)


def test_a_gang_that_would_need_victims_keeps_none_from_borrowing() -> None:
    """It is not left to another cycle either: none is due immediately."""
    world = two_machines()
    for name, units in {"own": 4, "borrowing": 8}.items():
        world.ask("A", name, gpu=units)
    world.cycle()
    world.ask("B", "large", gpu=8)
    world.ask("A", "small", gpu=1)
    world.cycle()
    assert not world.runs("large")
    assert world.runs("small")
    world.cycle()
    assert world.plan.wake_at is not None
    assert world.plan.wake_at > world.now


def test_nothing_is_planned() -> None:
    """What runs has a time limit, so a whole cycle plans the start of the large gang."""
    how: list[Decide] = [decide_plainly]
    world = two_machines(lambda snapshot, now: how[0](snapshot, now), plan_after_s=10)
    for name, units in {"long": 8, "own": 4}.items():
        world.ask("A", name, gpu=units, max_runtime_s=1_000)
    world.cycle()
    world.ask("A", "large", gpu=8)
    world.pass_time(100)
    planned = []
    for each in (decide_plainly, decide):
        how[0] = each
        world.cycle()
        planned.append([start.gang for start in world.plan.planned])
    assert planned == [[], [("large",)]]


def test_no_starting_gang_gets_more_than_its_minimum() -> None:
    """More replicas are a search of their own."""
    world = two_machines()
    world.ask("A", "wide", gpu=1, replicas=2, most=6)
    world.cycle()
    assert world.units("A") == 2


def test_a_standing_promise_is_kept() -> None:
    """The victim that it names is stopped, and its gang starts once that has ended."""
    how: list[Decide] = [decide]
    world = World(
        quota_of({"gpu": 8}, {"A": {"gpu": 0.5}, "B": {"gpu": 0.5}}, min_runtime_s=0, grace_s=10),
        machines_of(1, gpu=8),
        decide=lambda snapshot, now: how[0](snapshot, now),
    )
    world.ask("A", "borrowing", gpu=8)
    world.cycle()
    world.ask("B", "own", gpu=4)
    world.turn()
    assert world.plan.promises
    assert world.preemptions == []
    how[0] = decide_plainly
    world.run(60)
    assert world.preemptions == [("borrowing", "own")]
    assert world.runs("own")
