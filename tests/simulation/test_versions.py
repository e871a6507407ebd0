"""An older bastion that meets what a newer version wrote starts nothing twice, and waits."""

from __future__ import annotations

import pytest

from tests.simulation.baton import SimulationError
from tests.simulation.final_records import results
from tests.simulation.invariants import ACCOUNTS, ALONE, ONCE
from tests.simulation.versions import Careless, mixed


@pytest.mark.parametrize("seed", range(3))
def test_an_older_bastion_waits_for_who_has_won(seed: int) -> None:
    """Nothing is judged by a claim that it cannot read; once it can, all ends in one try."""
    world = mixed(seed)
    world.run()
    found = results(world)
    outcomes = {name: (result.outcome, result.attempts) for name, result in found.items()}
    assert outcomes == {
        "first": ("succeeded", 1),
        "unwanted": ("cancelled", 1),
        "next": ("succeeded", 1),
    }


def test_to_take_it_for_nobodys_would_start_twice() -> None:
    """What is right for an object that nobody can read is wrong for one that somebody can."""
    with pytest.raises(SimulationError) as caught:
        mixed(0, Careless).run()
    assert caught.value.name in (ONCE, ALONE, ACCOUNTS)
