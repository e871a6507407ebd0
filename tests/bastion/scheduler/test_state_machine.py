"""
The laws as a state machine: anything happens to a small world, and every plan keeps every law.

The seeded histories in `test_laws.py` are faster. A failure here is shrunk to the few events that
it needs.
"""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    rule,
    run_state_machine_as_test,
)

from bastion.scheduler.cycle import decide
from tests.bastion.scheduler import histories, laws, mutants
from tests.bastion.scheduler.world import Decide, World
from tests.rigs.length import at_length

RANDOMS = st.randoms(use_true_random=False)
QUICK = settings(
    max_examples=12,
    stateful_step_count=50,
    deadline=None,
    database=None,
    derandomize=True,
    suppress_health_check=list(HealthCheck),
)
LONG = settings(QUICK, max_examples=at_length(1_500), derandomize=False)


class Life(RuleBasedStateMachine):
    """The life of one small world."""

    world: World

    @rule(random=RANDOMS, jobs=st.integers(1, 3))
    def ask(self, random: Random, jobs: int) -> None:
        """Submit jobs."""
        for _ in range(jobs):
            histories.ask(random, self.world)

    @rule(random=RANDOMS)
    def end(self, random: Random) -> None:
        """End a job."""
        histories.end(random, self.world)

    @rule(random=RANDOMS)
    def change(self, random: Random) -> None:
        """Edit the quota file, break or heal something, or act as an admin."""
        kinds = [histories.edit, histories.hurt, *([histories.upset] * self.world.is_wide)]
        random.choice(kinds)(random, self.world)

    @rule(seconds=st.sampled_from((1.0, 10.0, 50.0, 200.0)))
    def wait(self, seconds: float) -> None:
        """Let time pass, and let the bastion take a turn."""
        self.world.pass_time(seconds)
        self.world.cycle()

    @rule()
    def turn(self) -> None:
        """Let the bastion take a turn."""
        self.world.cycle()


def machine(make: histories.Make, inner: Decide) -> type[Life]:
    """Return the life of worlds of `make`, with every plan of `inner` checked against the laws."""

    class Here(Life):
        @initialize(random=RANDOMS)
        def begin(self, random: Random) -> None:
            self.world = make(random, histories.watched(laws.LAWS, inner))

    return Here


WORLDS = pytest.mark.parametrize("make", histories.WORLDS)


@WORLDS
def test_whatever_happens_every_plan_keeps_every_law(make: histories.Make) -> None:
    """It holds in any order of events."""
    run_state_machine_as_test(machine(make, decide), settings=QUICK)


@pytest.mark.prove
@WORLDS
def test_whatever_happens_at_length(make: histories.Make) -> None:
    """It holds in ten thousand lives in all kinds of worlds."""
    run_state_machine_as_test(machine(make, decide), settings=LONG)


FOUND_AT_ONCE = ("holds back", "says nothing", "torn gangs")
"""The others take too long here; `test_laws.py` detects each of them in random histories."""


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=() if name in FOUND_AT_ONCE else pytest.mark.prove)
        for name in sorted(mutants.MUTANTS)
    ],
)
def test_what_breaks_a_law_is_found(name: str) -> None:
    """No broken scheduler survives a few hundred of them."""
    broken, _ = mutants.MUTANTS[name]
    few = settings(QUICK, max_examples=300, phases=[Phase.generate])
    with pytest.raises(AssertionError):
        run_state_machine_as_test(machine(histories.wide_world_of, broken), settings=few)
