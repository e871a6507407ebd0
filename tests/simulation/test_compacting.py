"""Compactions that are killed at any point lose no row of the record and duplicate none."""

from __future__ import annotations

import pytest

from tests.simulation.baton import SimulationError
from tests.simulation.compacting import (
    WHOLE,
    TrustsItsFurthestTable,
    compacting,
    days_closed,
)

pytestmark = pytest.mark.prove  # the quick suite kills compactions in tests/bastion/history


def deaths(seed: int) -> int:
    """Return the compactions that died in one run in which days were closed."""
    world = compacting(seed)
    world.run()
    assert days_closed(world) >= 3
    return sum(step.operation == "compaction dies" for step in world.baton.trace)


def test_killed_at_any_write_the_record_is_whole() -> None:
    """Two programs that compact concurrently and die at their writes leave every row once."""
    assert deaths(0)


def test_a_compaction_that_trusts_its_furthest_table_is_detected() -> None:
    """Without its safeguard, a compaction that was killed loses rows of one table."""
    with pytest.raises(SimulationError) as caught:
        for seed in range(5):
            compacting(seed, TrustsItsFurthestTable).run()
    assert caught.value.name == WHOLE


@pytest.mark.parametrize("seed", range(1, 40, 3))
def test_killed_at_any_write_in_any_order_the_record_is_whole(seed: int) -> None:
    """The same holds for many seeds: other jobs, orders, deaths and days; few have no death."""
    assert sum(map(deaths, range(seed, seed + 3)))
