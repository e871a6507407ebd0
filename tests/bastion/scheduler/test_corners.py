"""Small worlds in which several rules meet; each once came out wrong."""

from __future__ import annotations

from dataclasses import replace

from tests.bastion.scheduler.world import World, machines_of, quota_of


def test_a_promise_made_anew_needs_nobody_who_is_being_stopped_already() -> None:
    """A device of it is lost: it is made on what is free and what the first victim leaves."""
    shares = {"A": {"gpu": 0.5}, "B": {"gpu": 0.5}, "C": {}}
    world = World(quota_of({"gpu": 8}, shares, min_runtime_s=0, grace_s=30), machines_of(1, gpu=8))
    world.ask("A", "old", priority=5, gpu=3)
    world.ask("A", "low", priority=3, gpu=1)
    world.ask("B", "b", gpu=2)
    world.cycle()
    world.ask("A", "first", priority=1, gpu=3)
    world.cycle()
    assert world.preemptions == [("old", "first")]
    (promise,) = world.plan.promises
    lost = promise.placements[0][0].hosts[0].devices["gpu"][0]
    world.machines["p-000"] = replace(world.machines["p-000"], bad_devices={"gpu": (lost,)})
    world.ask("C", "borrower", gpu=2)
    world.pass_time(1)
    world.cycle()
    assert world.reason("first") == "Promised"
    world.run(60)
    assert world.runs("first")
    assert world.preemptions == [("old", "first")]
