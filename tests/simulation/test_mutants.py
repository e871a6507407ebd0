"""Every safeguard of the bucket, taken out, is missed by the simulation."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.simulation.baton import SimulationError
from tests.simulation.fates import Choice, Fate
from tests.simulation.invariants import NAMES
from tests.simulation.mutants import MUTANTS
from tests.simulation.processes import SOUND, Parts
from tests.simulation.scenario import calm, comings, stormy
from tests.simulation.world import World

SEEDS = range(40)
"""
Tried one after the other until one sees the mutant.

Not one pinned seed each: whatever changes in the product changes what a seed does, and a pin would
have to be moved by hand with every commit.
"""


def gap(seed: int, parts: Parts) -> World:
    """The scenario, where one write of an instruction fails."""
    fates = Choice("north", "create", "/instructions/", Fate.REFUSED, nth=2)
    return calm(seed, parts, fates=fates)


WORLDS: dict[str, Callable[[int, Parts], World]] = {
    "naive orphan deletion": comings,
    "instruction numbers chosen when writing": gap,
}
"""Where a mutant shows soonest, if not in a storm."""


def test_the_schedules_are_harmless_to_the_sound_product() -> None:
    """What catches a mutant does not break the product itself."""
    gap(0, SOUND).run()


@pytest.mark.parametrize("name", MUTANTS)
def test_a_mutant_is_seen(name: str) -> None:
    """Without this safeguard an invariant breaks on one of a few seeds."""
    build = WORLDS.get(name, stormy)
    for seed in SEEDS:
        try:
            build(seed, MUTANTS[name]).run()
        except SimulationError as error:
            # One that only stumbles over itself was not seen by an invariant: the next seed, then.
            if error.name in NAMES:
                return
    pytest.fail(f"no seed of {SEEDS} sees {name!r}")
