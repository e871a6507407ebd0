"""What a cycle remembers of the one before changes nothing but time."""

from __future__ import annotations

from collections.abc import Collection

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bastion.scheduler.cycle import decide
from bastion.scheduler.memory import Memory
from bastion.scheduler.plan import Plan
from bastion.scheduler.shape import Shapes
from bastion.scheduler.snapshot import Snapshot
from quota.tree import Quota
from tests.bastion.scheduler import histories


class Stubborn(Memory):
    """Goes on with what it knew under another quota file."""

    def recall(self, quota: Quota, policy: object, jobs: Collection[str], now: float) -> Shapes:
        """As under the first one."""
        first = self._quota or quota
        return super().recall(first, policy, jobs, now)


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


def test_a_memory_that_holds_on_to_the_wrong_thing_is_noticed() -> None:
    """One that does not see that the quota file was edited leads to other plans."""
    with pytest.raises(AssertionError):
        for seed in range(200):
            play(seed, histories.mixed_world_of, Stubborn(), steps=25)
