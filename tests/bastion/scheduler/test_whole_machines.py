"""Jobs that take whole machines: which machines they get, and what they are charged."""

from __future__ import annotations

from dataclasses import replace

import pytest

from bastion.spec.where import Where
from tests.bastion.scheduler.world import World, machines_of, pool_of, quota_of

ALONE = Where(exclusive=True)
HALVES = {"A": {"gpu": 0.5}, "B": {"gpu": 0.5}}


def small_and_large() -> World:
    """Return a machine of 4 and one of 12; A and B have half of each."""
    machines = machines_of(1, "large", gpu=12) | machines_of(1, "small", gpu=4)
    return World(quota_of({"gpu": 16}, HALVES, options={"A": "ceiling = { gpu = 0.5 }"}), machines)


def test_whole_machines_of_several_tiers_are_taken_where_the_charge_is_allowed() -> None:
    """A borrower begins with the worst tier; if that costs too much, one machine is used."""
    machines = machines_of(1, gpu=4)
    worse = machines_of(1, "q", gpu=4)["q-000"]
    machines["q-000"] = replace(worse, tier=1, bad_devices={"gpu": (0,)})
    options = {"A": "ceiling = { gpu = 0.5 }"}
    quota = quota_of([{"gpu": 4}, {"gpu": 4}], {"A": {}, "B": {"gpu": 0.5}}, options=options)
    world = World(quota, machines)
    world.ask("A", "pair", replicas=2, where=ALONE, gpu=2)
    world.cycle()
    assert world.runs("pair"), world.why("pair")
    assert world.units("A") == 4


def test_no_whole_machine_is_taken_that_the_others_make_needless() -> None:
    """One machine holds two of three replicas, and another holds four: the second is enough."""
    machines = machines_of(1, "two", gpu=2) | machines_of(1, "four", gpu=4)
    world = World(quota_of({"gpu": 6}, {"A": {"gpu": 1.0}}), machines)
    world.ask("A", "three", replicas=3, where=ALONE, gpu=1)
    world.ask("A", "next", gpu=2)
    world.cycle()
    assert world.runs("three")
    assert world.runs("next"), world.why("next")


@pytest.mark.parametrize("ceiling", [0.5, 1.0])
def test_a_victim_is_found_on_the_machine_that_the_share_allows(ceiling: float) -> None:
    """The free machine is beyond A's share: A borrows it, or reclaims the small one."""
    world = small_and_large()
    world.ask("B", "own", where=Where(pool="large"), gpu=8)
    world.ask("B", "borrowed", where=Where(pool="small"), gpu=1)
    world.cycle()
    world.end("own")
    shares, options = {"A": {"gpu": 0.5}, "B": {}}, {"A": f"ceiling = {{ gpu = {ceiling} }}"}
    world.quota = quota_of({"gpu": 16}, shares, options=options, min_runtime_s=0)
    world.ask("A", "alone", where=ALONE, gpu=1)
    world.run(60)
    assert world.runs("alone")
    assert world.preemptions == ([("borrowed", "alone")] if ceiling == 0.5 else [])


def test_a_new_small_machine_is_made_where_the_free_one_costs_too_much() -> None:
    """An existing machine comes first, unless it is beyond what the project may hold."""
    pools = {"large": pool_of(1, "large", gpu=12), "small": pool_of(1, "small", gpu=4)}
    quota = quota_of({"gpu": 16}, {"A": {"gpu": 0.25}}, options={"A": "ceiling = { gpu = 0.25 }"})
    world = World(quota, machines_of(1, "large", gpu=12), pools)
    world.ask("A", "alone", where=ALONE, gpu=1)
    world.cycle()
    assert world.runs("alone"), world.why("alone")


def test_a_job_waiting_for_a_cheaper_machine_is_told_what_the_quota_lacks() -> None:
    """The free machine is larger than the ceiling: it is not reported as scattered."""
    world = small_and_large()
    world.ask("B", "b", where=Where(pool="small"), gpu=4)
    world.cycle()
    world.ask("A", "alone", where=ALONE, gpu=1)
    world.cycle()
    assert world.why("alone") == (
        "waits for 4 gpu (it asks for 1 gpu, and takes whole machines); B holds 4 gpu; starts when"
        " running jobs free 4 gpu"
    )
    world.end("b")
    world.cycle()
    assert world.runs("alone")


def test_one_large_machine_is_taken_where_the_totals_have_no_room_for_a_small_one_too() -> None:
    """The small one costs less per replica but is not enough, and both are more than the total."""
    machines = machines_of(1, "large", gpu=4) | machines_of(1, "small", gpu=2)
    world = World(quota_of({"gpu": 4}, {"A": {"gpu": 1.0}}), machines)
    world.ask("A", "three", replicas=3, where=ALONE, gpu=1)
    world.cycle()
    assert world.runs("three"), world.why("three")


def test_a_whole_machine_is_asked_for_while_a_pool_is_gone_from_the_settings() -> None:
    """No pool creates more of an existing machine, and the job asks for none of its types."""
    world = World(quota_of({"gpu": 4}, {"A": {"gpu": 1.0}}), machines_of(1, gpu=4), {})
    world.ask("A", "first", where=ALONE)
    world.ask("A", "second", where=ALONE)
    world.cycle()
    assert world.runs("first"), world.why("first")
    assert world.why("second").startswith("waits for 4 gpu"), world.why("second")
