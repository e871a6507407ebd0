"""Every safeguard of the bucket, taken out, is missed by the simulation."""

from __future__ import annotations

import pytest

from tests.simulation.baton import SimulationError
from tests.simulation.invariants import NAMES
from tests.simulation.mutants import MUTANTS
from tests.simulation.processes import SOUND
from tests.simulation.schedules import SCHEDULES

SEEDS = range(1, 40)
"""A schedule says what goes wrong; the seed, who goes first and how long things take."""


def breach(name: str, seed: int) -> str:
    """The invariant that the mutant of that name breaks on its own schedule; empty for none."""
    try:
        SCHEDULES[name](seed, MUTANTS[name]).run()
    except SimulationError as error:
        return error.name
    return ""


def test_every_mutant_has_its_schedule() -> None:
    """None is without, and there is no schedule for none."""
    assert SCHEDULES.keys() == MUTANTS.keys()


@pytest.mark.parametrize("name", MUTANTS)
def test_a_mutant_is_seen(name: str) -> None:
    """Without this safeguard an invariant breaks; that the mutant stumbles would not count."""
    assert breach(name, 0) in NAMES


@pytest.mark.parametrize("name", MUTANTS)
def test_the_schedules_are_harmless_to_the_sound_product(name: str) -> None:
    """What catches a mutant does not break the product itself."""
    SCHEDULES[name](0, SOUND).run()


@pytest.mark.prove
@pytest.mark.parametrize("name", MUTANTS)
def test_a_mutant_is_seen_whoever_goes_first(name: str) -> None:
    """The schedule is what catches it, not the luck of one seed: so it is on all of them."""
    unseen = [seed for seed in SEEDS if breach(name, seed) not in NAMES]
    assert unseen == []
