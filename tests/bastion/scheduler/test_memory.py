"""What a cycle remembers of the one before changes nothing but time."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bastion.scheduler.cycle import decide
from bastion.scheduler.plan import Plan
from bastion.scheduler.queue.order import Standing
from bastion.scheduler.snapshot import Snapshot
from bastion.scheduler.state.memory import Memory
from tests.bastion.scheduler import histories


class Blurred(Memory):
    """Takes every job that waits for one like the first it saw."""

    def keep_ready(self, standing: Sequence[Standing], *, new: Iterable[Standing]) -> None:
        """All of them in one line."""
        blurred = [(job, *standing[0][1:3], entry) for job, _, _, entry in new]
        super().keep_ready(standing, new=blurred)


def play(seed: int, make: histories.Make, memory: Memory, steps: int) -> None:
    """One history: every plan is the one that is made without `memory`."""

    def both(snapshot: Snapshot, now: float) -> Plan:
        plan = decide(snapshot, now, memory)
        assert plan == decide(snapshot, now)
        return plan

    histories.run(seed, (), steps=steps, inner=both, make=make)


@pytest.mark.parametrize("make", [histories.world_of, histories.mixed_world_of])
@given(seed=st.integers(0, 2**32))
@settings(max_examples=40, deadline=None, database=None, derandomize=True)
def test_a_plan_is_the_same_with_and_without_a_memory(seed: int, make: histories.Make) -> None:
    """At every cycle of a random history: what cycles before it left behind changes nothing."""
    play(seed, make, Memory(), steps=15)


def test_a_memory_of_the_wrong_thing_is_noticed() -> None:
    """One that mixes up who waits in which line leads to other plans."""
    with pytest.raises(AssertionError):
        for seed in range(50):
            play(seed, histories.world_of, Blurred(), steps=15)
