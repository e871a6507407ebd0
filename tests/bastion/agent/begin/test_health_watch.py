"""The clock of a new machine is held against the store's."""

from __future__ import annotations

import pytest

from bastion.agent.settings import AgentSettings
from bastion.clock import VirtualClock
from bastion.records.facts import Health
from tests.rigs.agent import MACHINE, Rig


class Ahead:
    """The clock of a machine that is ahead of the store's."""

    def __init__(self, clock: VirtualClock, ahead_s: float) -> None:
        self._clock = clock
        self.ahead_s = ahead_s

    def __getattr__(self, name: str) -> object:
        return getattr(self._clock, name)

    def wall(self) -> float:
        """Its wall clock."""
        return self._clock.wall() + self.ahead_s


@pytest.mark.parametrize(("boot", "told"), [("/var/lib/bastion", True), ("", False)])
def test_a_clock_that_is_wrong_makes_a_new_machine_unwell(boot: str, told: bool) -> None:
    """It is told right after the greeting, and that it is well once the clock is set."""
    rig = Rig(settings=AgentSettings(machine=MACHINE, boot=boot))
    clock = Ahead(rig.clock, 95.0)
    rig.clock = clock  # type: ignore[assignment]
    rig.restart()
    rig.pass_s(1.0)
    health = [fact for fact in rig.bucket.facts() if isinstance(fact, Health)]
    assert [fact.unwell for fact in health] == (
        ["its clock is 95 s ahead of the bucket's"] if told else []
    )
    clock.ahead_s = -50.0
    rig.pass_s(20.0)
    health = [fact for fact in rig.bucket.facts() if isinstance(fact, Health)]
    assert not health or health[-1].unwell == ""
