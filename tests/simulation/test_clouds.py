"""Clouds: what providers do to machines, and what is left in the end."""

from __future__ import annotations

import pytest

from tests.simulation.clouds import clouds, killed, queues
from tests.simulation.fates import Fate
from tests.simulation.final_records import OTHERS, PORTION, PROVE


@pytest.mark.parametrize("seed", range(OTHERS))
def test_invariants_hold_in_a_cloud(seed: int) -> None:
    """Zones run dry, lists lag, deletes are not done: no job and no machine is lost or left."""
    clouds(seed).run()


@pytest.mark.parametrize("seed", range(OTHERS))
def test_invariants_hold_for_queued_slices(seed: int) -> None:
    """A slice is asked for, made and deleted as a whole, however long its request is kept."""
    queues(seed).run()


@pytest.mark.parametrize("fate", [Fate.CRASH_BEFORE, Fate.CRASH_AFTER, Fate.UNANSWERED])
@pytest.mark.parametrize("operation", ["create machine", "list machines", "delete machine"])
def test_a_bastion_may_die_at_every_call_of_a_provider(operation: str, fate: Fate) -> None:
    """The next one asks again by the same name, and nothing is made twice or left."""
    for nth in (1, 2):
        killed(nth, operation, fate, nth=nth).run()


@pytest.mark.prove
@pytest.mark.parametrize("first", range(0, PROVE // 4, PORTION))
def test_invariants_hold_in_many_clouds(first: int) -> None:
    """The same for 2,500 clouds of each kind."""
    for seed in range(first, first + PORTION):
        clouds(seed).run()
        queues(seed).run()
