"""A reason names the second wall: what is in the way once what it names has changed."""

from __future__ import annotations

from dataclasses import replace

from bastion.scheduler.reasons.reason import ProviderStockout
from tests.bastion.scheduler.world import World, machines_of, pool_of, quota_of

ONE = {"A": {"gpu": 1.0}}


def test_machines_that_are_back_may_leave_devices_scattered() -> None:
    """Two machines have three free devices each: a third that is back is not enough for two."""
    world = World(quota_of({"gpu": 12}, ONE, placement="spread"), machines_of(3, gpu=4))
    world.machines["p-002"] = replace(world.machines["p-002"], cordoned="fans")
    world.ask("A", "runs", replicas=2, gpu=1)
    world.cycle()
    world.ask("A", "a", replicas=2, gpu=4)
    world.cycle()
    assert world.reason("a") == "CapacityLost"
    assert world.why("a").endswith("; then it waits for 8 gpu together on single machines")


def test_a_provider_that_makes_machines_again_may_make_too_few() -> None:
    """It could make one of two machines, and the other is in use."""
    world = World(quota_of({"gpu": 8}, ONE), machines_of(1, gpu=4), {"p": pool_of(2, gpu=4)})
    world.ask("A", "runs", gpu=4)
    world.cycle()
    until = world.now + 60
    world.extra["stockouts"] = {"p": ProviderStockout(pool="p", until=until)}
    world.ask("A", "a", replicas=2, gpu=4)
    world.cycle()
    assert world.reason("a") == "ProviderStockout"
    assert world.why("a").endswith("; then it waits for 4 gpu that A holds")


def test_a_higher_ceiling_does_not_make_others_lend() -> None:
    """Below every ceiling it would still have to borrow what another project keeps."""
    quota = quota_of(
        {"gpu": 8},
        {"A": {"gpu": 0.5}, "B": {"gpu": 0.5}},
        options={"A": "ceiling = { gpu = 0.75 }", "B": "lend = { gpu = 0.5 }"},
    )
    world = World(quota, machines_of(2, gpu=4))
    world.ask("A", "runs", gpu=4)
    world.ask("B", "b", gpu=4)
    world.cycle()
    world.ask("A", "a", gpu=3)
    world.cycle()
    assert world.why("a") == (
        "waits for A to free 1 gpu: it holds 4 of 6 gpu, its ceiling; starts when jobs of A end, or"
        " an admin raises the ceiling; then it waits to borrow 3 gpu"
    )


def test_one_that_asks_for_processors_too_is_behind_one_that_asks_for_the_same_devices() -> None:
    """What both want is the device: the second is told of the first, not of capacity."""
    world = World(quota_of({"gpu": 4}, ONE), machines_of(1, gpu=4, cpu=16))
    world.ask("A", "runs", gpu=4)
    world.cycle()
    world.ask("A", "first", gpu=2)
    world.pass_time(1)
    world.ask("A", "second", gpu=2, cpu=4)
    world.cycle()
    assert world.reason("first") == "WaitingForCapacity"
    assert world.why("second").startswith("waits behind 1 job of its project that asks for 2 gpu")
