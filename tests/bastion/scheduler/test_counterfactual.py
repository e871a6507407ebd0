"""A reason is true: when what it names is removed, the job starts."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.bastion.scheduler import histories, mutants, obstacles
from tests.bastion.scheduler.counterfactual import Tally, reasons_are_true
from tests.bastion.scheduler.features import featured
from tests.bastion.scheduler.world import Decide, World, machines_of, quota_of
from tests.rigs.length import at_length

QUICK = settings(max_examples=10, deadline=None, database=None, derandomize=True)
LONG = settings(max_examples=at_length(350), deadline=None, database=None)
SEEDS = st.integers(0, 2**32)


WORLDS = pytest.mark.parametrize("make", histories.WORLDS)


@WORLDS
@given(seed=SEEDS)
@QUICK
def test_a_job_starts_when_its_reasons_to_wait_are_gone(seed: int, make: histories.Make) -> None:
    """Every reason to wait is checked at every cycle of a random history."""
    histories.run(seed, (), steps=12, after=reasons_are_true, make=make)


@pytest.mark.parametrize(
    ("seed", "make"),
    [
        (35_216, histories.world_of),
        (30_016, histories.mixed_world_of),
        (30_046, histories.mixed_world_of),
        (1_438_028, histories.mixed_world_of),
        (180_920_523, histories.mixed_world_of),
        (2_481_609_806, histories.mixed_world_of),
        (1_382_987_043, histories.mixed_world_of),
        (2_798_570_523, histories.wide_world_of),
        (10_593, histories.wide_world_of),
        (17_643, histories.wide_world_of),
    ],
)
def test_reasons_that_were_once_untrue(seed: int, make: histories.Make) -> None:
    """These histories are kept because a reason in them was wrong."""
    histories.run(seed, (), steps=25, after=reasons_are_true, make=make)


def tally(plain: range, obstructed: range, steps: int) -> Tally:
    """Count every reason in that many histories of all kinds, some with more obstacles."""
    found = Tally()
    kinds = (*histories.WORLDS, histories.grouped_world_of)
    for make in (*kinds, *map(featured, kinds)):
        for seed in plain:
            histories.run(seed, (), steps=steps, after=found.add, make=make)
        for seed in obstructed:
            add = partial(_add_obstructed, found, Random(seed))
            histories.run(seed, (), steps=steps, after=add, make=obstacles.obstructed(make))
    return found


def _add_obstructed(found: Tally, random: Random, world: World) -> None:
    obstacles.obstruct(random, world)
    world.cycle()
    found.add(world)


def test_a_reason_alone_is_true_in_nine_of_ten() -> None:
    """Only what it names changes: the job then starts, or meets what the reason named as next."""
    found = tally(range(3), range(3), 10)
    assert len(found.asked) >= 19
    assert all(found.part(kind) >= 0.9 for kind in found.asked), f"{found}\n{found.untrue}"


@pytest.mark.prove
def test_a_reason_alone_is_true_nearly_always() -> None:
    """Every kind of reason is checked in over a thousand states of every kind of world."""
    found = tally(range(100), range(100), 12)
    often = [kind for kind, number in found.asked.items() if number >= 20]
    assert all(found.part(kind) >= 0.98 for kind in often), str(found)
    assert sum(map(len, found.untrue.values())) <= 0.005 * found.asked.total(), str(found)


def test_a_load_limit_is_taken_at_its_word_too() -> None:
    """A job held back in a random history names the end of others, or the limit, and that helps."""
    found = Tally()

    def make(random: Random, decide: Decide) -> World:
        world = histories.world_of(random, decide)
        limit = random.choice((0.5, 1.0, 1.5))
        options = replace(world.quota.scheduler, admission="load-limit", load_limit=limit)
        world.quota = replace(world.quota, scheduler=options)
        return world

    def after(world: World) -> None:
        found.add(world)
        reasons_are_true(world)

    for seed in range(20):
        histories.run(seed, (), steps=12, after=after, make=make)
    assert found.asked["OverLoad"] > 100
    assert found.part("OverLoad") >= 0.98, found.untrue["OverLoad"]


@pytest.mark.prove
@WORLDS
@given(seed=SEEDS)
@LONG
def test_reasons_are_true_at_length(seed: int, make: histories.Make) -> None:
    """Every reason is checked at every cycle of two thousand histories of all kinds."""
    histories.run(seed, (), steps=25, after=reasons_are_true, make=make)


@pytest.mark.parametrize("inner", [mutants.blames_machines, mutants.blames_the_share])
def test_a_scheduler_that_gives_wrong_reasons_is_noticed(inner: Decide) -> None:
    """A scheduler that names what is not in the way fails the check."""
    with pytest.raises(AssertionError):
        for seed in range(50):
            histories.run(seed, (), steps=12, inner=inner, after=reasons_are_true)


def test_a_plan_waits_for_the_holder_of_its_room_in_the_quota() -> None:
    """A borrower that is in the way only by its quota is named, and rotated after its slice."""
    shares = {"A": {"gpu": 0.75}, "B": {"gpu": 0.25}, "C": {}}
    quota = quota_of(
        {"gpu": 24},
        shares,
        options={"A": "lend = { gpu = 0.5 }"},
        min_runtime_s=0,
        grace_s=10,
        plan_after_s=60,
        borrow_slice_s=100,
    )
    world = World(quota, machines_of(3, gpu=8))
    world.ask("A", "a", gpu=8)
    world.ask("C", "c", gpu=4)
    world.cycle()
    world.ask("B", "b", replicas=3, gpu=4)
    world.cycle()
    world.pass_time(61)
    world.cycle()
    assert world.why("b") == "waits for c to end; planned to start in 49s"
    world.run(60, step_s=5)
    assert world.runs("b")
    assert ("c", "b") in world.preemptions
