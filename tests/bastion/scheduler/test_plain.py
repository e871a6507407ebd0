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
