"""Victims run for as long as they can: each ends when the last victim of its promise has to."""

from __future__ import annotations

from tests.bastion.scheduler.world import World, machines_of, pool_of, quota_of

HALVES = {"A": {"gpu": 0.5}, "B": {"gpu": 0.5}}


def world() -> World:
    """Return B borrowing all but two of A's half: six devices for long, and four since just now."""
    quota = quota_of({"gpu": 12}, HALVES, min_runtime_s=600, grace_s=10, max_grace_s=60)
    made = World(quota, machines_of(3, gpu=4))
    made.ask("B", "own", gpu=1, replicas=6)
    made.cycle()
    made.ask("B", "old", gpu=1, replicas=2, grace_s=30.0)
    made.cycle()
    made.pass_time(1_000.0)
    made.ask("B", "young", gpu=1, replicas=4)
    made.cycle()
    return made


def test_a_victim_runs_on_until_the_last_must_stop() -> None:
    """The old borrower is told so late that it ends with the young one, with its own grace."""
    made = world()
    made.ask("A", "gang", gpu=1, replicas=6)
    made.cycle()
    (promise,) = made.plan.promises
    assert promise.deadline == made.now + 610
    assert dict(promise.victims) == {"old": made.now + 580, "young": made.now + 600}
    made.pass_time(579.0)
    made.cycle()
    assert made.runs("old")
    made.pass_time(1.0)
    made.cycle()
    assert not made.runs("old")
    assert made.runs("young")
    made.live(30.0)
    made.cycle()
    assert made.runs("gang")


def test_the_others_are_told_at_once_when_the_last_ends_early() -> None:
    """The last victim ends on its own: the promise is due no later than the others can end."""
    made = world()
    made.ask("A", "gang", gpu=1, replicas=6)
    made.cycle()
    made.pass_time(100.0)
    made.end("young")
    made.cycle()
    assert not made.runs("old")
    made.pass_time(30.0)
    made.cycle()
    assert made.runs("gang")


def test_a_victim_of_two_promises_stops_in_time_for_both() -> None:
    """The second gang needs only the old borrower, and does not wait for the young one."""
    made = world()
    made.ask("A", "gang", gpu=1, replicas=5)
    made.cycle()
    assert {job for job, _ in made.plan.promises[0].victims} == {"old", "young"}
    made.ask("A", "small", gpu=1)
    made.cycle()
    by = {promise.gang[0]: promise for promise in made.plan.promises}
    assert by["small"].deadline <= by["gang"].deadline
    assert by["small"].deadline == made.now + 30
    made.live(30.0)
    made.cycle()
    assert made.runs("small")
    made.live(580.0)
    made.cycle()
    assert made.runs("gang")


def test_a_gang_whose_victims_were_told_late_is_told_when_they_end() -> None:
    """No cycle ran when they had to stop: the promised start is never in the past."""
    made = world()
    made.ask("A", "gang", gpu=1, replicas=6)
    made.cycle()
    made.pass_time(700.0)
    made.cycle()
    assert made.plan.promises[0].deadline < made.now
    assert "promised to start in 30s at the latest" in made.why("gang")


def test_nothing_is_stopped_for_a_gang_that_another_project_would_forestall() -> None:
    """
    A stop for priority also waits for the borrower that must go: they end together.

    If it stopped immediately, the low job would leave its room to a gang of the other project, for
    which the borrower had to go as well. The borrower would then no longer be needed as a victim,
    and the promise would be void.
    """
    quota = quota_of(
        {"gpu": 8},
        {"A": {"gpu": 0.5}, "B": {"gpu": 0.0}},
        min_runtime_s=600,
        grace_s=2,
        max_grace_s=30,
    )
    made = World(quota, machines_of(1, gpu=8), {"p": pool_of(2, gpu=8)})
    made.ask("A", "a1", gpu=1)
    made.ask("A", "low", gpu=2)
    made.cycle()
    made.pass_time(700.0)
    made.ask("B", "guest", gpu=4)
    made.ask("B", "b1", gpu=1)
    made.cycle()
    made.pass_time(500.0)
    made.ask("B", "urgent", gpu=2, priority=2)
    made.ask("A", "first", gpu=4, priority=1)
    made.run(98.0, step_s=2.0)
    assert made.runs("low")
    made.run(6.0, step_s=2.0)
    assert made.runs("first")
    assert made.runs("urgent")
    assert sorted(made.preemptions) == [("guest", "urgent"), ("low", "first")]
