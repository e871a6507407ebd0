"""Small worlds in which several rules meet; each of them once had a wrong result."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from bastion.scheduler.cycle import decide
from bastion.scheduler.plan import Admit, Wait
from bastion.spec.where import Where
from quota import Amounts
from tests.bastion.scheduler.histories import slices_of
from tests.bastion.scheduler.world import World, machines_of, pool_of, quota_of


def test_a_promise_made_anew_adds_no_victim_to_those_being_stopped() -> None:
    """A promise loses a device: the new one uses free capacity and what the first victim leaves."""
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


def test_a_job_that_starts_when_a_plan_is_given_up_waits_no_longer() -> None:
    """A job outranks a planned gang: what was kept for the gang is immediately free for others."""
    shares = {"A": {"gpu": 0.34}, "B": {"gpu": 0.34}, "C": {}}
    quota = quota_of({"gpu": 12}, shares, min_runtime_s=0, plan_after_s=60, borrow_slice_s=200)
    world = World(quota, machines_of(3, gpu=4))
    world.decayed = {"B": 1e6}
    world.ask("C", "c", where=Where(hostnames=("p-000",)), gpu=1)
    world.ask("A", "a", where=Where(hostnames=("p-000",)), gpu=2)
    world.ask("B", "low", where=Where(hostnames=("p-001",)), gpu=4)
    world.ask("A", "other", where=Where(hostnames=("p-002",)), gpu=2)
    world.cycle()
    world.ask("B", "high", priority=1, replicas=2, gpu=2)
    world.ask("C", "late", replicas=2, gpu=1)
    world.pass_time(61)
    world.cycle()
    assert world.reason("high") == "Promised"
    assert world.preemptions == [("low", "high")]
    assert world.runs("late")


def test_victims_come_from_the_project_furthest_above_its_share_after_each_victim() -> None:
    """Two gangs in one cycle: what X gives back for the first counts as gone for the second."""
    quota = quota_of({"gpu": 16}, {"A": {"gpu": 1.0}, "X": {}, "Y": {}}, min_runtime_s=0)
    world = World(quota, machines_of(1, gpu=16))
    for number in range(5):
        world.ask("X", f"x{number}", gpu=2)
    for number in range(3):
        world.ask("Y", f"y{number}", gpu=2)
    world.cycle()
    assert (world.units("X"), world.units("Y")) == (10, 6)
    world.ask("A", "first", gpu=4)
    world.ask("A", "second", gpu=4)
    world.cycle()
    assert sorted(victim for victim, _ in world.preemptions) == ["x0", "x1", "x2", "y0"]


def test_a_device_that_the_machine_does_not_have_costs_it_nothing() -> None:
    """A report with a device index that is too high leaves the machine as it was."""
    world = World(quota_of({"gpu": 4}, {"A": {"gpu": 1.0}}), machines_of(1, gpu=4))
    world.machines["p-000"] = replace(world.machines["p-000"], bad_devices={"gpu": (7,)})
    world.ask("A", "a", where=Where(exclusive=True), gpu=4)
    world.cycle()
    assert world.runs("a"), world.why("a")


def test_a_machine_that_has_fewer_devices_than_before_promises_none_of_the_others() -> None:
    """What its job holds on the missing devices does not become free."""
    quota = quota_of({"gpu": 8}, {"A": {"gpu": 1.0}, "B": {}}, min_runtime_s=0)
    world = World(quota, machines_of(2, gpu=4))
    world.ask("B", "b", gpu=4)
    world.ask("B", "c", gpu=4)
    world.cycle()
    world.machines["p-000"] = replace(world.machines["p-000"], resources=Amounts({"gpu": 2}))
    world.ask("A", "a", gpu=4)
    world.cycle()
    (promise,) = world.plan.promises
    assert promise.placements[0][0].hosts[0].machine == "p-001"


def test_a_slice_of_a_pool_that_is_gone_is_still_a_slice() -> None:
    """Its hosts are counted: it may be a slice of four."""
    world = World(quota_of({"v4": 16}, {"A": {"v4": 1.0}}), slices_of(1, hosts=4, v4=4), pools={})
    world.ask("A", "a", hosts=4, v4=16)
    world.cycle()
    assert world.runs("a"), world.why("a")


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (Where(), Where(hostnames=("p-000",))),
        (Where(hostnames=("p-000", "p-001")), Where(hostnames=("p-000",))),
        (Where(exclusive=True), Where(hostnames=("p-000",))),
        (Where(), Where(shard="one")),
    ],
)
def test_a_gang_finds_its_place_whatever_the_filters_of_its_jobs(
    first: Where, second: Where
) -> None:
    """A job without a filter leaves room for one with a filter; victims are found for both."""
    quota = quota_of({"gpu": 8}, {"A": {"gpu": 1.0}, "B": {}}, min_runtime_s=0)
    world = World(quota, machines_of(2, gpu=4))
    world.machines["p-000"] = replace(world.machines["p-000"], labels={"shard": "one"})
    world.ask("B", "borrower", gpu=4, where=Where(hostnames=("p-001",)))
    world.cycle()
    gang = ("large", "small")
    world.ask("A", "large", gang=gang, gpu=4, where=first)
    world.ask("A", "small", gang=gang, gpu=2, where=second)
    world.run(60)
    assert world.runs("large"), world.why("large")
    assert world.preemptions == [("borrower", "large")]


def test_two_that_follow_each_other_cost_no_third_its_place_on_the_share() -> None:
    """Both count until the first has ended; a continuing job has its place before one that ends."""
    shares = {"A": {"gpu": 0.75}, "B": {"gpu": 0.25}}
    world = World(quota_of({"gpu": 8}, shares, min_runtime_s=0, grace_s=30), machines_of(2, gpu=4))
    world.ask("A", "first", where=Where(hostnames=("p-000",)), gpu=3)
    world.ask("A", "third", where=Where(hostnames=("p-001",)), priority=5, gpu=3)
    world.cycle()
    world.ask("A", "second", where=Where(hostnames=("p-000",)), priority=1, gpu=3)
    world.ask("B", "b", gpu=2)
    world.run(60)
    assert world.preemptions == [("first", "second")]
    assert world.running("A") == ["second", "third"]


@pytest.mark.parametrize(("limit_s", "gone_at"), [(None, 300 + 200 + 10), (100.0, 300 + 100 + 10)])
def test_a_job_that_was_lost_has_its_time_when_it_starts_again(
    limit_s: float | None, gone_at: int
) -> None:
    """Its gang ends one slice, or its limit, after the restart, not after the first job's start."""
    quota = quota_of(
        *({"gpu": 4}, {"A": {"gpu": 1.0}, "B": {}, "C": {}}),
        min_runtime_s=0, grace_s=10, plan_after_s=60, borrow_slice_s=200,
    )  # fmt: skip
    world = World(quota, machines_of(1, gpu=4))
    for name in ("b0", "b1"):
        world.ask("B", name, gang=("b0", "b1"), gpu=1, max_runtime_s=limit_s)
    world.cycle()
    begun = world.now
    world.pass_time(300)
    world.requeue("b1")
    world.cycle()
    assert world.runs("b1")
    world.ask("C", "c", gpu=4)
    world.pass_time(70)
    world.cycle()
    (planned,) = world.plan.planned
    assert planned.at == begun + gone_at
    assert not world.preemptions


def test_a_victim_whose_room_came_free_in_the_same_cycle_stays() -> None:
    """A gang stops two of its project; another gang does not start after all, so one is enough."""
    tiers = [{"gpu": 8}, {"gpu": 8}]
    shares = {"A": {"gpu": 0.25}, "B": {"gpu": 0.25}, "C": {"gpu": 0.25}}
    machines = machines_of(2, gpu=4) | machines_of(1, "q", gpu=4)
    machines["q-000"] = replace(machines["q-000"], tier=1)
    pools = {"p": pool_of(2, gpu=4), "q": pool_of(2, "q", tier=1, gpu=4)}
    quota = quota_of(tiers, shares, min_runtime_s=0, plan_after_s=60, borrow_slice_s=100)
    world = World(quota, machines, pools)
    first, second = (Where(hostnames=(name,)) for name in ("p-000", "p-001"))

    def ask(project: str, name: str, *units: int, user: str = "u", **more: Any) -> None:
        gang = tuple(f"{name}-{index}" for index in range(len(units)))
        for job, gpu in zip(gang, units):
            world.ask(project, job, gang=gang, user=user, gpu=gpu, **more)

    ask("A", "lower", 1, 2, where=first)
    world.cycle()
    ask("A", "borrower", 2, user="v", where=second)
    world.cycle()
    ask("C", "high", 2, priority=1, where=first)
    world.pass_time(100)
    ask("A", "higher", 2, 2, user="v", priority=1)
    ask("B", "b-one", 1, user="v")
    ask("B", "b-gang", 2, 2, user="v")
    ask("C", "c-later", 1, 2, user="u")
    ask("C", "c-first", 1, 2, user="v")
    world.cycle()
    assert world.preemptions == [("borrower-0", "higher-0")]
    world.run(60)
    assert world.running("A") == ["higher-0", "higher-1", "lower-0", "lower-1"]
    assert world.preemptions == [("borrower-0", "higher-0")]


def test_a_borrower_is_not_rotated_while_its_own_project_takes_what_it_leaves() -> None:
    """However many jobs wait: their plans would otherwise become void one after the other."""
    shares = {"A": {"gpu": 0.75}, "C": {}}
    quota = quota_of({"gpu": 8}, shares, min_runtime_s=0, plan_after_s=60, borrow_slice_s=100)
    world = World(quota, machines_of(1, cpu=16, gpu=4))
    world.ask("A", "borrower", cpu=6)
    world.cycle()
    for number in range(6):
        world.ask("C", f"c{number}", user=f"u-{number}", where=Where(exclusive=True), gpu=1)
    world.pass_time(200)
    world.ask("A", "a", cpu=12, gpu=3)
    world.cycle()
    assert not world.preemptions
    assert not world.plan.planned
    world.end("a")
    world.cycle()
    assert world.preemptions == [("borrower", "c0")]


def test_a_gang_starts_beside_its_drain_though_an_equal_one_goes_behind_that() -> None:
    """The equal gang is first, as its user has used less; a free machine is not for it."""
    shares = {"A": {"gpu": 0.5}, "B": {"gpu": 0.5}}
    world = World(quota_of({"gpu": 16}, shares, plan_after_s=60), machines_of(2, gpu=8))
    world.ask("A", "running", user="v", where=Where(hostnames=("p-000",)), gpu=8)
    world.ask("B", "other", where=Where(hostnames=("p-001",)), gpu=8)
    world.cycle()
    world.ask("A", "first", user="u", gpu=8)
    world.pass_time(61)
    world.cycle()
    assert world.reason("first") == "Planned"
    world.ask("A", "second", user="v", gpu=8)
    world.end("other")
    snapshot = replace(world.snapshot(), decayed_by_user={("A", "u"): 1e6})
    plan = decide(snapshot, world.now)
    assert isinstance(plan.verdicts["first"], Admit)
    assert isinstance(plan.verdicts["second"], Wait)


def test_all_that_waited_behind_a_drain_start_once_its_gang_does() -> None:
    """This includes jobs considered before the gang: nothing is kept for it any longer."""
    shares = {"A": {"gpu": 0.5}, "B": {"gpu": 0.5}}
    world = World(quota_of({"gpu": 16}, shares, plan_after_s=60), machines_of(2, gpu=8))
    world.ask("A", "running", user="v", where=Where(hostnames=("p-000",)), gpu=4)
    world.ask("B", "other", where=Where(hostnames=("p-001",)), gpu=8)
    world.cycle()
    world.ask("A", "gang", user="u", replicas=4, gpu=2)
    world.pass_time(61)
    world.cycle()
    assert world.reason("gang") == "Planned"
    names = ("second", "third")
    for name in names:
        world.ask("A", name, user="v", gpu=1)
    world.end("other")
    snapshot = replace(world.snapshot(), decayed_by_user={("A", "u"): 1e6})
    plan = decide(snapshot, world.now)
    assert all(isinstance(plan.verdicts[name], Admit) for name in ("gang", *names))


@pytest.mark.parametrize("gang", [("a0", "a1"), ()])
def test_a_promise_without_a_place_for_each_replica_is_made_anew(gang: tuple[str, ...]) -> None:
    """A manually repaired root may contain such a promise; half of the gang would start."""
    shares = {"A": {"gpu": 0.5}, "B": {"gpu": 0.5}}
    world = World(quota_of({"gpu": 4}, shares, min_runtime_s=600), machines_of(1, gpu=4))
    world.ask("B", "b", gpu=4)
    world.cycle()
    for name in gang:
        world.ask("A", name, gang=gang, gpu=1)
    if not gang:
        world.ask("A", "a", replicas=2, gpu=1)
    world.cycle()
    (promise,) = world.plan.promises
    half = promise.placements[:1] if gang else (promise.placements[0][:1],)
    world.plan = replace(world.plan, promises=(replace(promise, placements=half),))
    world.end("b")
    world.turn()
    assert world.units("A") == 2


@pytest.mark.parametrize("is_left", [True, False])
def test_a_promise_is_void_where_its_machine_has_lost_the_label_that_it_needs(
    is_left: bool,
) -> None:
    """For example, an image label disappears when no engine answers: the gang moves or waits."""
    quota = quota_of({"gpu": 8}, {"A": {"gpu": 1.0}, "B": {}}, min_runtime_s=600)
    world = World(quota, machines_of(2, gpu=4))
    labelled = {"engine": "yes"}
    world.machines["p-000"] = replace(world.machines["p-000"], labels=labelled)
    world.ask("B", "b0", where=Where(labels=labelled), gpu=4)
    world.ask("B", "b1", gpu=4)
    world.cycle()
    world.ask("A", "a", where=Where(labels=labelled), gpu=4)
    world.cycle()
    (promise,) = world.plan.promises
    assert promise.placements[0][0].hosts[0].machine == "p-000"
    world.machines["p-000"] = replace(world.machines["p-000"], labels={})
    if is_left:
        world.machines["p-001"] = replace(world.machines["p-001"], labels=labelled)
    world.end("b0")
    world.cycle()
    assert not world.runs("a")
    assert world.reason("a") == ("Promised" if is_left else "NoMachineMatches")
