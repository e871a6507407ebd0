"""Arrays under crashes, lost answers, late writes and dying machines."""

from __future__ import annotations

import pytest

from tests.simulation.fates import Calm, Choice, Fate
from tests.simulation.final_records import OTHERS, PORTION, PROVE, results
from tests.simulation.sweeps import sweeps


def test_without_faults_every_task_ends_as_it_should() -> None:
    """Each array ends according to its tasks: retried, cancelled in part, held, limited."""
    world = sweeps(0, fates=Calm())
    world.run()
    found = {name: result for name, result in results(world).items() if result.tasks}
    assert {name: result.outcome for name, result in found.items()} == {
        "wide": "cancelled",
        "narrow": "succeeded",
        "crooked": "failed",
        "pairs": "succeeded",
        "unwanted": "cancelled",
        "patient": "succeeded",
        "brittle": "failed",
        "own": "succeeded",
    }
    assert str(found["wide"].tasks["cancelled"]) == "3-5,18-20"
    assert str(found["crooked"].tasks["failed"]) == "0-3,10-11"
    assert sum(map(len, found["unwanted"].tasks.values())) == 5000
    assert len(found["brittle"].tasks["failed"]) in (1, 2)


@pytest.mark.parametrize("seed", range(OTHERS))
def test_invariants_hold_for_arrays(seed: int) -> None:
    """No task is lost and none is in two places, whatever crashes at the moment of an admission."""
    sweeps(seed).run()


@pytest.mark.parametrize("fate", [Fate.CRASH_BEFORE, Fate.CRASH_AFTER])
@pytest.mark.parametrize("nth", range(20, 420, 200))
def test_a_leader_of_arrays_may_die_at_some_operations(nth: int, fate: Fate) -> None:
    """The next leader finds the tasks that it admitted, counted and cancelled."""
    sweeps(1, fates=Choice("north", "", "", fate, nth=nth)).run()


@pytest.mark.prove
@pytest.mark.parametrize("first", range(0, PROVE // 4, PORTION))
def test_invariants_hold_for_many_arrays(first: int) -> None:
    """The same holds for many storms over arrays."""
    for seed in range(first, first + PORTION):
        sweeps(seed).run()


@pytest.mark.prove
@pytest.mark.parametrize("fate", [Fate.CRASH_BEFORE, Fate.CRASH_AFTER])
@pytest.mark.parametrize("first", range(1, 501, 50))
def test_a_leader_of_arrays_may_die_at_any_operation(first: int, fate: Fate) -> None:
    """The same holds between any two of the first 500 operations of a leader of arrays."""
    for nth in range(first, first + 50, 2):
        sweeps(1, fates=Choice("north", "", "", fate, nth=nth)).run()
