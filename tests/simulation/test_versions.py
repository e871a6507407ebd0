"""An older bastion that reads records of a newer version starts nothing twice, and waits."""

from __future__ import annotations

import pytest

from tests.simulation.baton import SimulationError
from tests.simulation.capacity import ALONE
from tests.simulation.final_records import results
from tests.simulation.invariants import ACCOUNTS, ONCE
from tests.simulation.versions import Careless, mixed


@pytest.mark.parametrize("seed", range(3))
def test_an_older_bastion_waits_for_the_winner_of_a_claim(seed: int) -> None:
    """It concludes nothing from a newer claim; once upgraded, it ends all in one try."""
    world = mixed(seed)
    world.run()
    found = results(world)
    outcomes = {name: (result.outcome, result.attempts) for name, result in found.items()}
    assert outcomes == {
        "first": ("succeeded", 1),
        "unwanted": ("cancelled", 1),
        "next": ("succeeded", 1),
    }


def test_treating_such_a_claim_as_unreadable_would_start_twice() -> None:
    """The rule for unreadable objects is wrong for objects of another version."""
    with pytest.raises(SimulationError) as caught:
        mixed(0, Careless).run()
    assert caught.value.name in (ONCE, ALONE, ACCOUNTS)
