"""Faults from outside: vanishing buckets, unreadable objects, hostile machines and members."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.rigs.length import at_length
from tests.simulation.away import away
from tests.simulation.clocks import clocks
from tests.simulation.hostile import hostile
from tests.simulation.hosts import hosts
from tests.simulation.mischief import mischief
from tests.simulation.poor import all_poor, poor
from tests.simulation.processes import SOUND, Parts
from tests.simulation.unreadable import unreadable
from tests.simulation.world import World

QUICK, PROVE, PORTION = 2, at_length(300), at_length(100)
WORLDS: tuple[Callable[[int, Parts], World], ...] = (
    away,
    unreadable,
    hostile,
    clocks,
    poor,
    mischief,
    hosts,
)


@pytest.mark.parametrize("seed", range(QUICK))
@pytest.mark.parametrize("world", WORLDS)
def test_invariants_hold_against_the_outside(
    world: Callable[[int, Parts], World], seed: int
) -> None:
    """Whatever happens to the bucket, no invariant breaks and honest jobs end correctly."""
    world(seed, SOUND).run()


def test_want_of_memory_costs_no_job() -> None:
    """Each machine in turn can create no process after it reported a start: no job is lost."""
    all_poor(38, SOUND).run()


@pytest.mark.prove
@pytest.mark.parametrize("first", range(0, PROVE, PORTION))
@pytest.mark.parametrize("world", WORLDS)
def test_invariants_hold_against_much_of_the_outside(
    world: Callable[[int, Parts], World], first: int
) -> None:
    """The same holds for many seeds of each world."""
    for seed in range(first, first + PORTION):
        world(seed, SOUND).run()
