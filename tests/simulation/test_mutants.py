"""The simulation detects the removal of every safeguard."""

from __future__ import annotations

import pytest

from tests.simulation.baton import SimulationError
from tests.simulation.invariants import NAMES
from tests.simulation.mutants import MUTANTS
from tests.simulation.processes import SOUND
from tests.simulation.schedules import SCHEDULES

SEEDS = range(1, 40)
"""A schedule determines the faults; the seed, the order of actors and durations."""


def breach(name: str, seed: int) -> str:
    """Return the invariant that this mutant breaks on its own schedule; empty for none."""
    try:
        SCHEDULES[name](seed, MUTANTS[name]).run()
    except SimulationError as error:
        return error.name
    return ""


def test_every_mutant_has_its_schedule() -> None:
    """Every mutant has one schedule, and every schedule a mutant."""
    assert SCHEDULES.keys() == MUTANTS.keys()


@pytest.mark.parametrize("name", MUTANTS)
def test_a_mutant_is_detected(name: str) -> None:
    """Without this safeguard an invariant breaks; a crash of the mutant would not count."""
    assert breach(name, 0) in NAMES


@pytest.mark.parametrize("name", MUTANTS)
def test_the_schedules_are_harmless_to_the_sound_product(name: str) -> None:
    """The schedule of a mutant breaks no invariant of the product."""
    SCHEDULES[name](0, SOUND).run()


@pytest.mark.prove
@pytest.mark.parametrize("name", MUTANTS)
def test_a_mutant_is_detected_in_any_order_of_actors(name: str) -> None:
    """The schedule detects it, not a lucky seed: every seed does."""
    unseen = [seed for seed in SEEDS if breach(name, seed) not in NAMES]
    assert unseen == []
