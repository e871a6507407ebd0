"""A gang that must lie where a label, or the pool, is the same."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pytest

from bastion.machine import Machine, Pool
from bastion.spec.where import Where
from tests.bastion.scheduler import histories, laws, mutants
from tests.bastion.scheduler.byhand import placed
from tests.bastion.scheduler.racks import racked
from tests.bastion.scheduler.world import World, machines_of, pool_of, quota_of
from tests.rigs.length import at_length

RACK = Where(same="rack")
KINDS = (
    histories.world_of,
    histories.mixed_world_of,
    histories.wide_world_of,
    histories.grouped_world_of,
)


def hall(racks: Mapping[str, tuple[str, int]], **shares: float) -> World:
    """
    Return a world of pools with machines of four devices.

    Args:
        racks: Pool -> its rack (empty for none), and the number of its machines.
        shares: Project -> share; without it, A has everything.
    """
    machines: dict[str, Machine] = {}
    pools: dict[str, Pool] = {}
    for name, (rack, count) in racks.items():
        machines |= machines_of(count, name, gpu=4)
        labels = {"rack": rack} if rack else {}
        pools[name] = replace(pool_of(count, name, gpu=4), labels=labels)
    total = sum(4 * count for _, count in racks.values())
    owners = {name: {"gpu": share} for name, share in (shares or {"A": 1.0}).items()}
    quota = quota_of({"gpu": total}, owners, min_runtime_s=0, grace_s=10, plan_after_s=60)
    return World(quota, machines, pools)


def machines_with(world: World, *names: str) -> set[str]:
    """Return where the jobs `names` are placed."""
    places = (each for name in names for each in placed(world.jobs[name]))
    return {host.machine for place in places for host in place.hosts}


def test_a_gang_lies_in_one_rack_of_several_pools() -> None:
    """Two pools form one rack; the other rack is too small."""
    world = hall({"p": ("a", 1), "q": ("b", 1), "r": ("a", 1)})
    world.ask("A", "gang", replicas=2, where=RACK, gpu=4)
    world.cycle()
    assert machines_with(world, "gang") == {"p-000", "r-000"}


def test_of_racks_that_hold_a_gang_the_one_with_least_free_is_taken() -> None:
    """The larger rack is left whole for a larger gang."""
    world = hall({"p": ("a", 3), "q": ("b", 2)})
    world.ask("A", "small", replicas=2, where=RACK, gpu=4)
    world.cycle()
    world.ask("A", "large", replicas=3, where=RACK, gpu=4)
    world.cycle()
    assert machines_with(world, "small") == {"q-000", "q-001"}
    assert machines_with(world, "large") == {"p-000", "p-001", "p-002"}


def test_a_gang_waits_rather_than_span_racks_and_is_told_so() -> None:
    """It starts when the running job in its rack has ended."""
    world = hall({"p": ("a", 2), "q": ("b", 1)})
    world.ask("A", "runs", where=Where(pool="p"), gpu=4)
    world.cycle()
    world.ask("A", "gang", replicas=2, where=RACK, gpu=4)
    world.cycle()
    assert world.why("gang") == (
        "waits for room in one rack: 8 gpu are free, but scattered over several, and 1 of 2"
        " replicas fits; starts when runs has ended"
    )
    world.end("runs")
    world.cycle()
    assert machines_with(world, "gang") == {"p-000", "p-001"}


@pytest.mark.parametrize(
    ("where", "told"),
    [
        (
            RACK,
            "can never run: it asks for 12 gpu in one rack, and none of those it may use (2"
            " machines of p, 2 machines of q) holds all of it, even with all machines free; ask"
            " for less, or leave out same=rack",
        ),
        (
            Where(same="pool", exclusive=True),
            "can never run: it asks for 12 gpu in one pool, and none of those it may use (2"
            " machines of p, 2 machines of q) holds all of it, even with all machines free; ask"
            " for less, or leave out same=pool",
        ),
        (
            Where(same="row"),
            "waits for a machine with the label row, which none of 4 machines has; submit it again"
            " with another filter, or with none",
        ),
    ],
)
def test_what_no_rack_could_ever_hold_is_told(where: Where, told: str) -> None:
    """Such a gang is refused, or waits for machines, with a reason that says what lets it run."""
    world = hall({"p": ("a", 2), "q": ("b", 2)})
    world.ask("A", "gang", replicas=3, where=where, gpu=4)
    world.cycle()
    assert world.why("gang") == told


def test_machines_without_the_label_are_left_out() -> None:
    """Not even a single job is placed there, because its rack is unknown."""
    world = hall({"p": ("", 2), "q": ("b", 1)})
    world.ask("A", "one", where=RACK, gpu=4)
    world.cycle()
    assert machines_with(world, "one") == {"q-000"}


def test_the_jobs_of_one_launch_lie_in_one_rack() -> None:
    """Both jobs are one gang."""
    world = hall({"p": ("a", 1), "q": ("b", 2)})
    gang = ("x", "y")
    for name in gang:
        world.ask("A", name, gang=gang, where=RACK, gpu=3)
    world.cycle()
    assert machines_with(world, *gang) == {"q-000", "q-001"}


def test_a_label_of_single_machines_divides_a_pool() -> None:
    """Agents can report labels of their own machines."""
    world = hall({"p": ("", 4)})
    for name, machine in world.machines.items():
        world.machines[name] = replace(machine, labels={"rack": "ab"[int(name[-1]) % 2]})
    world.ask("A", "gang", replicas=2, where=RACK, gpu=4)
    world.cycle()
    assert machines_with(world, "gang") in ({"p-000", "p-002"}, {"p-001", "p-003"})


def test_borrowers_are_stopped_in_the_rack_that_then_holds_the_gang() -> None:
    """Victims are not taken one from each rack, although that would free as much."""
    world = hall({"p": ("a", 2), "q": ("b", 2)}, A=0.5, B=0.5)
    for name in ("p-000", "p-001", "q-000", "q-001"):
        world.ask("B", f"on-{name}", where=Where(hostnames=(name,)), gpu=4)
        world.cycle()
    world.ask("A", "gang", replicas=2, where=RACK, gpu=4)
    world.cycle()
    world.pass_time(20.0)
    world.cycle()
    assert world.runs("gang")
    assert len({name[0] for name in machines_with(world, "gang")}) == 1
    assert len(world.running("B")) == 2


def test_an_elastic_job_grows_in_its_rack_alone() -> None:
    """This includes a job with a minimum of one replica, which could be placed anywhere."""
    world = hall({"p": ("a", 2), "q": ("b", 3)})
    world.ask("A", "grows", most=5, where=RACK, gpu=4)
    world.cycle()
    assert machines_with(world, "grows") in ({"p-000", "p-001"}, {"q-000", "q-001", "q-002"})


def test_a_pool_is_a_block_under_every_placement() -> None:
    """`consolidated` means the same for all gangs."""
    world = hall({"p": ("a", 1), "q": ("a", 1)})
    options = replace(world.quota.scheduler, placement="consolidated")
    world.quota = replace(world.quota, scheduler=options)
    world.ask("A", "gang", replicas=2, where=RACK, gpu=4)
    world.cycle()
    assert not world.runs("gang")
    assert world.why("gang").endswith(
        'or an admin chooses another placement than "consolidated" in the quota file'
    )


@pytest.mark.parametrize("make", [*map(racked, KINDS)])
@pytest.mark.parametrize("seed", range(6))
def test_every_plan_keeps_every_law_in_racks(seed: int, make: histories.Make) -> None:
    """The laws include that a gang lies in one block."""
    histories.run(seed, laws.LAWS, steps=20, make=make)


def test_a_scheduler_that_scatters_gangs_is_noticed() -> None:
    """The law fails if the scheduler ignores that a gang has to lie in one block."""
    scatters = mutants.seeing(mutants.without_blocks)
    make = racked(histories.wide_world_of)
    with pytest.raises(AssertionError, match="spans"):
        for seed in range(100):
            histories.run(seed, [laws.blocks_are_kept], steps=20, inner=scatters, make=make)


@pytest.mark.prove
@pytest.mark.parametrize("make", [*map(racked, KINDS)])
def test_many_plans_keep_every_law_in_racks(make: histories.Make) -> None:
    """The same holds in long runs."""
    for seed in range(1_000, 1_000 + at_length(300)):
        histories.run(seed, laws.LAWS, steps=20, make=make)
