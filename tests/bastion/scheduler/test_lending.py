"""What a project does not lend stays its own, even while a start is planned for it."""

from __future__ import annotations

from random import Random

import pytest

from bastion.scheduler.cycle import decide
from tests.bastion.scheduler import histories, laws, mutants
from tests.bastion.scheduler.world import Decide, World, machines_of, quota_of

HALVES = {"A": {"gpu": 0.5}, "B": {"gpu": 0.5}}


def lender_world_of(random: Random, inner: Decide) -> World:
    """Return B that lends little or nothing of its half; gangs of both soon have planned starts."""
    lent = random.choice((0.1, 0.2))
    quota = quota_of(
        {"gpu": 12},
        HALVES,
        options={"B": f"lend = {{ gpu = {lent} }}"},
        plan_after_s=60,
        borrow_slice_s=random.choice((500, 100_000)),
        min_runtime_s=0,
        grace_s=10,
    )
    return World(quota, machines_of(3, gpu=4), decide=inner)


def play(seed: int, steps: int, inner: Decide = decide) -> None:
    """Play one history, with the laws checked at every cycle."""
    random = Random(seed)
    world = lender_world_of(random, histories.watched(laws.LAWS, inner))
    for _ in range(steps):
        kind = random.random()
        if kind < 0.6:
            _ask(random, world)
        elif kind < 0.7:
            histories.end(random, world)
        else:
            world.pass_time(random.choice((10.0, 70.0, 200.0)))
        world.cycle()


def _ask(random: Random, world: World) -> None:
    project, limit = random.choice("AAB"), random.choice((None, 200.0, 20_000.0))
    size, replicas = random.choice((1, 1, 2, 4)), random.choice((1, 2, 3))
    name = f"{project}-{world.seq}-{len(world.jobs)}"
    world.ask(project, name, gpu=size, replicas=replicas, max_runtime_s=limit, runs_s=limit)


def test_borrowers_do_not_take_what_a_planned_gang_of_the_lender_would_leave() -> None:
    """B keeps all of its 6: a start planned for B beside A's end gives A nothing before that."""
    options = {"B": "lend = { gpu = 0.0 }"}
    quota = quota_of({"gpu": 12}, HALVES, options=options, plan_after_s=60, min_runtime_s=0)
    world = World(quota, machines_of(12, gpu=1))
    for n in range(5):
        world.ask("A", f"a{n}", max_runtime_s=20_000.0, gpu=1)
    world.ask("A", "a5", gpu=1)
    world.ask("B", "own", gpu=1)
    world.cycle()
    world.ask("B", "gang", replicas=6, gpu=1)
    world.pass_time(100.0)
    world.cycle()
    assert world.reason("gang") == "Planned"
    for n in range(3):
        world.ask("A", f"x{n}", gpu=1)
    world.cycle()
    assert world.units("A") == 6
    world.ask("B", "now", replicas=4, gpu=1, priority=1)
    world.cycle()
    assert world.runs("now")


@pytest.mark.parametrize("seed", [20, 56, 65, 82])
def test_what_was_once_lent_against_the_quota_file_is_kept(seed: int) -> None:
    """In these histories, a borrower once started on what was not lent."""
    play(seed, steps=40)


def test_a_scheduler_that_lends_all_is_noticed() -> None:
    """The law fails in one of a few histories if the scheduler keeps nothing for the lender."""
    with pytest.raises(AssertionError, match="not lent"):
        for seed in range(10):
            play(seed, steps=20, inner=mutants.seeing(mutants.all_is_lent))


@pytest.mark.prove
@pytest.mark.parametrize("seed", range(1_000, 1_500))
def test_what_is_not_lent_is_kept_at_length(seed: int) -> None:
    """Five hundred histories of a project that lends little are checked."""
    play(seed, steps=40)
