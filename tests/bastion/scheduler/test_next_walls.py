"""A reason names the next wall: what is in the way once what it names has changed."""

from __future__ import annotations

from dataclasses import replace

from bastion.scheduler.reasons.reason import ProviderStockout
from bastion.spec.where import Where
from quota.maintenance import Window
from tests.bastion.scheduler.world import World, machines_of, pool_of, quota_of

ONE = {"A": {"gpu": 1.0}}


def test_machines_that_are_back_may_leave_devices_scattered() -> None:
    """Two machines have three free devices each: one more device is not enough for two."""
    world = World(quota_of({"gpu": 12}, ONE, placement="spread"), machines_of(3, gpu=4))
    world.machines["p-002"] = replace(world.machines["p-002"], cordoned="fans")
    world.ask("A", "runs", replicas=2, gpu=1)
    world.cycle()
    world.ask("A", "a", replicas=2, gpu=4)
    world.cycle()
    assert world.reason("a") == "CapacityLost"
    assert world.why("a").endswith("; then it waits for 8 gpu together on single machines")


def test_a_provider_that_makes_machines_again_may_make_too_few() -> None:
    """It could create one of two machines, and the other one is in use."""
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
    """Below every ceiling, the job would still have to borrow what another project keeps."""
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
    """Both want the device: the reason of the second names the first job, not the capacity."""
    world = World(quota_of({"gpu": 4}, ONE), machines_of(1, gpu=4, cpu=16))
    world.ask("A", "runs", gpu=4)
    world.cycle()
    world.ask("A", "first", gpu=2)
    world.pass_time(1)
    world.ask("A", "second", gpu=2, cpu=4)
    world.cycle()
    assert world.reason("first") == "WaitingForCapacity"
    assert world.why("second").startswith("waits behind 1 job of its project that asks for 2 gpu")


def test_a_gang_that_is_not_ready_is_told_what_it_meets_then() -> None:
    """One of two is held; together they would have to wait for devices."""
    world = World(quota_of({"gpu": 4}, ONE), machines_of(1, gpu=4))
    world.ask("A", "runs", gpu=3)
    world.cycle()
    for name in ("g1", "g2"):
        world.ask("A", name, gang=("g1", "g2"), gpu=1)
    world.jobs["g1"] = replace(world.jobs["g1"], held="ann")
    world.cycle()
    assert world.why("g2") == (
        "waits for g1, which is not ready; they start together; then it waits for 1 gpu that A"
        " holds"
    )


def test_a_user_at_the_limit_is_told_what_comes_after_it() -> None:
    """The user is at the limit of two jobs, and when these end another user still has devices."""
    limited = quota_of({"gpu": 4}, ONE, options={"A": "max_running_per_user = 1"})
    world = World(limited, machines_of(1, gpu=4))
    world.ask("A", "mine", gpu=1)
    world.ask("A", "theirs", user="v", gpu=2)
    world.cycle()
    world.ask("A", "next", gpu=3)
    world.cycle()
    assert world.reason("next") == "OverUserLimit"
    assert world.why("next").endswith("; then it waits for 1 gpu that A holds")


def test_a_limit_that_a_job_exceeds_by_itself_is_not_said_to_pass() -> None:
    """The quota file was edited after submission: no end of a job would help."""
    world = World(quota_of({"gpu": 4}, ONE), machines_of(1, gpu=4))
    world.quota = quota_of({"gpu": 4}, ONE, options={"A": "max_units_per_user = { gpu = 2 }"})
    world.ask("A", "large", gpu=3)
    world.cycle()
    assert world.why("large") == (
        "waits for a higher limit of u in A: it asks for 3 gpu at once, and the limit is 2; ask for"
        " less, or an admin raises it in the quota file"
    )


def test_without_its_filter_a_job_may_meet_the_quota() -> None:
    """No machine has the label, and without it the job would have to wait for its ceiling."""
    quota = quota_of({"gpu": 8}, ONE, options={"A": "ceiling = { gpu = 1.0 }"})
    world = World(quota, machines_of(2, gpu=4))
    world.ask("A", "runs", replicas=2, gpu=3)
    world.cycle()
    world.ask("A", "a", gpu=4, where=Where(labels={"rack": "9"}))
    world.cycle()
    assert world.why("a") == (
        "waits for a machine with labels rack=9, which none of 2 machines has; submit it again with"
        " another filter, or with none; then it waits for 2 gpu that A holds"
    )


def test_without_its_filter_a_job_may_still_ask_for_too_much() -> None:
    """The reason says so immediately, not only after the job is submitted again."""
    world = World(quota_of({"gpu": 8}, ONE), machines_of(2, gpu=4))
    world.ask("A", "a", gpu=8, where=Where(pool="z"))
    world.cycle()
    assert world.reason("a") == "NoMachineMatches"
    assert world.why("a").endswith("; and it can never run: 8 gpu is more than it could ever have")


def test_room_that_no_end_of_jobs_makes_is_closed_for_maintenance() -> None:
    """Two machines close soon and are in use: the third is too small, whatever ends."""
    world = World(quota_of({"gpu": 12}, ONE), machines_of(1, gpu=4) | machines_of(1, "q", gpu=8))
    world.ask("A", "runs", gpu=5)
    world.cycle()
    window = Window(starts_at=world.now + 60, ends_at=world.now + 600, pools=("q",))
    world.quota = replace(world.quota, maintenance=(window,))
    world.ask("A", "a", gpu=6)
    world.cycle()
    assert world.reason("a") == "Maintenance"
    assert world.why("a").endswith("; then it waits for 6 gpu together on single machines")


def test_what_comes_free_of_a_tier_may_be_promised_already() -> None:
    """Another job ends, and what it leaves is promised: the promise is the next wall."""
    pools = {"p": pool_of(1, "p", gpu=12), "q": pool_of(1, "q", tier=1, gpu=12)}
    machines = {**machines_of(1, "p", gpu=12), **machines_of(1, "q", gpu=12)}
    machines["q-000"] = replace(machines["q-000"], tier=1)
    elsewhere = [f"o{n}" for n in range(9)]
    shares = {"A": {"gpu": 0.5}, "B": {"gpu": 0.125}, **{name: {"gpu": 0.04} for name in elsewhere}}
    world = World(quota_of([{"gpu": 12}, {"gpu": 12}], shares, grace_s=30), machines, pools)
    on_p = Where(pool="p")
    world.ask("A", "old", gpu=12, priority=5, where=on_p)
    for name in elsewhere:
        world.ask(name, name, gpu=1, where=Where(pool="q"))
    world.cycle()
    world.ask("A", "first", gpu=12, priority=1, where=on_p)
    world.cycle()
    world.ask("B", "x", gpu=3, where=on_p)
    world.cycle()
    assert world.reason("x") == "WaitingForCapacity"
    assert world.why("x").endswith("; then it waits for first, for which 12 gpu are reserved")


def test_what_starts_in_the_same_turn_is_not_in_the_way_once_it_has_ended() -> None:
    """The first job takes everything in this turn, and the second is told to wait for it."""
    world = World(quota_of({"gpu": 4}, ONE), machines_of(1, gpu=4))
    world.ask("A", "first", gpu=4)
    world.ask("A", "second", gpu=2)
    world.turn()
    assert world.why("second") == (
        "waits for 2 gpu; A holds 4 gpu; starts when running jobs free 2 gpu on one machine"
    )


def test_a_limit_is_not_in_the_way_once_the_jobs_ahead_have_ended() -> None:
    """One job may run at a time, and a promised job is first: the reason names only that."""
    halves = {"A": {"gpu": 0.5}, "B": {"gpu": 0.5}}
    options = {"A": "max_running_per_user = 1"}
    world = World(quota_of({"gpu": 8}, halves, options=options), machines_of(2, gpu=4))
    world.ask("B", "b", replicas=2, gpu=4)
    world.cycle()
    world.ask("A", "first", gpu=4)
    world.ask("A", "second", gpu=2)
    world.cycle()
    assert world.reason("first") == "Promised"
    assert world.why("second").endswith(
        "u runs 0 with 1 ahead of it, it asks for 1; starts when they end, or an admin raises the"
        " limit in the quota file; then it waits for 2 gpu that B holds"
    )
