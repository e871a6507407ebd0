"""What keeps jobs off a machine: its clock, and its burn."""

from __future__ import annotations

from pathlib import Path

import pytest

from bastion.agent.begin.begin import BeginSettings, Begun, begin, burnt
from bastion.agent.begin.clock_check import look_at_clock
from bastion.agent.begin.devices import DeviceReport
from bastion.agent.settings import AgentSettings
from bastion.clock import VirtualClock
from bastion.machine import Check
from bastion.records.keys import layout
from bastion.records.reports.facts import Health
from bastion.store.memory import Fault, FaultyStore, MemoryStore
from tests.rigs.agent import MACHINE, Rig

OFF = "its clock is 95 s ahead of the bucket's"


class Ahead:
    """The clock of a machine that is ahead of the store's."""

    def __init__(self, clock: VirtualClock, ahead_s: float) -> None:
        self._clock = clock
        self.ahead_s = ahead_s

    def __getattr__(self, name: str) -> object:
        return getattr(self._clock, name)

    def wall(self) -> float:
        """Return its wall clock."""
        return self._clock.wall() + self.ahead_s


def test_a_bad_clock_is_told_with_the_greeting() -> None:
    """The first bell of a machine with a wrong clock says so: it is never ready before."""
    settings = AgentSettings(machine=MACHINE, boot="/var/lib/bastion")
    rig = Rig(settings=settings, begun=Begun(clock="its clock is 95 s ahead of the bucket's"))
    clock = Ahead(rig.clock, 95.0)
    rig.clock = clock  # type: ignore[assignment]
    rig.restart()
    rig.agent.turn()
    assert len(rig.memory.list(layout.BELLS)) == 1
    hello, health, *_ = rig.bucket.facts()
    assert (hello.kind, health) == ("hello", Health(text=OFF, unwell=OFF))
    rig.pass_s(5.0)
    assert [fact for fact in rig.bucket.facts() if isinstance(fact, Health)] == [health]
    clock.ahead_s = 0.0
    rig.pass_s(20.0)
    *_, last = (fact for fact in rig.bucket.facts() if isinstance(fact, Health))
    assert last.unwell == ""


@pytest.mark.parametrize(
    ("ahead_s", "told"),
    [(95.0, OFF), (-95.0, "its clock is 95 s behind the bucket's"), (50.0, "")],
)
def test_the_clock_is_looked_at_before_the_greeting(
    tmp_path: Path, ahead_s: float, told: str
) -> None:
    """The last step before the greeting compares the clock with the bucket's time."""
    clock = VirtualClock()
    store = MemoryStore(clock.wall)
    ahead = Ahead(clock, ahead_s)
    begun = begin(BeginSettings(folder=tmp_path), MACHINE, store, ahead, print)  # type: ignore[arg-type]
    assert begun.clock == told
    again = begin(BeginSettings(folder=tmp_path), MACHINE, store, ahead, print)  # type: ignore[arg-type]
    assert again.clock == told, "a number that is taken is passed over"


def test_a_bucket_that_is_away_says_nothing_of_the_clock() -> None:
    """The check is repeated with the first bell; until then nothing is known."""
    clock = VirtualClock()
    away = FaultyStore(MemoryStore(clock.wall), lambda *_: Fault.BEFORE)
    assert look_at_clock(away, MACHINE, 0, clock) == ""


@pytest.mark.parametrize(("boot", "told"), [("/var/lib/bastion", True), ("", False)])
def test_a_clock_that_is_wrong_makes_a_new_machine_unwell(boot: str, told: bool) -> None:
    """It is reported right after the greeting, and again once the clock is correct."""
    rig = Rig(settings=AgentSettings(machine=MACHINE, boot=boot))
    clock = Ahead(rig.clock, 95.0)
    rig.clock = clock  # type: ignore[assignment]
    rig.restart()
    rig.pass_s(1.0)
    health = [fact for fact in rig.bucket.facts() if isinstance(fact, Health)]
    assert [fact.unwell for fact in health] == (["", OFF] if told else [""])
    clock.ahead_s = -50.0
    rig.pass_s(20.0)
    health = [fact for fact in rig.bucket.facts() if isinstance(fact, Health)]
    assert health[-1].unwell == ""


def test_an_agent_that_begins_again_takes_back_what_the_one_before_it_told() -> None:
    """The bastion uses the latest report: a repaired device is used again."""
    rig = Rig(begun=Begun(report=DeviceReport(bad={"h100": (3,)}), burn="its burn failed"))
    rig.pass_s(1.0)
    rig.begun = Begun()
    rig.restart()
    rig.pass_s(15.0)
    first, last = (fact for fact in rig.bucket.facts() if isinstance(fact, Health))
    assert (first.bad_devices, first.unwell) == ({"h100": (3,)}, "its burn failed")
    assert last == Health()


def test_a_burn_that_failed_counts_until_one_passes() -> None:
    """Later checks of the devices find nothing, and the machine still stays unwell."""
    failed = "its burn failed: 'dcgmi diag' exited with 1: GPU 3"
    settings = AgentSettings(machine=MACHINE, devices={"cpu": 4}, home="/")
    rig = Rig(settings=settings, begun=Begun(burn=failed))
    rig.pass_s(200.0, step_s=5.0)
    health = [fact for fact in rig.bucket.facts() if isinstance(fact, Health)]
    assert [fact.unwell for fact in health] == [failed]
    rig.bucket.instruct(
        Check(id="U1", by="burn", command="exit 1", until=rig.clock.wall() + 60.0),
        Check(id="U2", by="burn", command="true", until=rig.clock.wall() + 60.0),
    )
    rig.pass_s(30.0)
    health = [fact for fact in rig.bucket.facts() if isinstance(fact, Health)]
    assert [fact.unwell for fact in health] == [failed, ""]


def test_a_burn_runs_until_it_passes_and_not_again(tmp_path: Path) -> None:
    """A restarted agent may have jobs: what passed before is not loaded again."""
    log = tmp_path / "runs"
    command = f"echo x >> {log}; test $(wc -l < {log}) -ge 2"
    settings = BeginSettings(folder=tmp_path, burn=command)
    clock = VirtualClock()
    store = MemoryStore(clock.wall)
    found = [begin(settings, MACHINE, store, clock, print).burn for _ in range(3)]
    assert found[0].startswith("its burn failed: 'echo x")
    assert found[1:] == ["", ""]
    assert log.read_text() == "x\nx\n"


def test_a_burn_that_an_admin_asked_for_is_not_run_again(tmp_path: Path) -> None:
    """It also counts for the next start of the agent."""
    settings = AgentSettings(machine=MACHINE, begin=str(tmp_path), home="/")
    rig = Rig(settings=settings)
    rig.pass_s(1.0)
    command = f"echo x >> {tmp_path}/runs"
    rig.bucket.instruct(Check(id="U1", by="burn", command=command, until=rig.clock.wall() + 60.0))
    rig.pass_s(1.0)
    assert burnt(command, tmp_path) == ""
    assert (tmp_path / "runs").read_text() == "x\n"
