"""The agent describes its machine, or loads it, and reports the result once."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

import pytest

from bastion.agent.keeper.fake import Script
from bastion.agent.settings import AgentSettings
from bastion.machine import Check
from bastion.records.keys import layout
from bastion.records.register import look
from bastion.records.reports.facts import Checked
from bastion.records.reports.registers import CheckOutcome
from bastion.store.memory import Fault
from quota.amounts import Amounts
from tests.rigs.agent import MACHINE, Rig, job, start


def asked(rig: Rig, **fields: Any) -> CheckOutcome:
    """Return what the agent wrote about a check."""
    rig.pass_s(1.0)  # its greeting lands first
    told = Check(**{"id": "U1", "by": "burn", "until": rig.clock.wall() + 60.0, **fields})
    rig.bucket.instruct(told)
    rig.pass_s(1.0)
    found = look(rig.memory, layout.check(MACHINE, "U1"), CheckOutcome)
    assert found is not None
    return found


def rig_here(**settings: Any) -> Rig:
    """Return an agent whose home is a folder of this machine, and whose jobs never end."""
    made = AgentSettings(machine=MACHINE, home="/", hostname="gpu7", **settings)
    return Rig(lambda _: Script(runs_s=float("inf")), settings=made, faults=away)


def away(operation: str, key: str) -> Fault | None:
    """Lose the answer to a write of an outcome while `LOST` has anything."""
    return Fault.AFTER if LOST and "/check/" in key else None


LOST: list[str] = []


def facts(rig: Rig) -> list[Checked]:
    """Return the checks that the bastion was told of."""
    return [fact for fact in rig.bucket.facts() if isinstance(fact, Checked)]


def test_hello_describes_the_machine() -> None:
    """It has host, build, life, disk and clock, and no load runs."""
    has = Amounts({"cpu": 208, "h100": 8, "memory": 64 << 30})
    rig = rig_here(version="1.2", build="abcdef0123456789", resources=has)
    found = asked(rig, by="hello", command="exit 1")
    assert (found.problem, found.undone) == ("", "")
    text = "\n".join(found.lines)
    assert "host gpu7, address 127.0.0.1" in text
    assert "bastion 1.2, build abcdef012345, keeper life 1" in text
    assert "its clock is 0.0 s ahead of the bucket's" in text
    assert "has 8 h100 + 208 cpu + 64 GiB memory" in found.lines
    assert " of its disk are free" in text
    assert facts(rig) == [Checked(id="U1", by="hello")]


def test_a_load_of_the_pool_that_succeeds_is_told() -> None:
    """Its output is that of the outcome."""
    rig = rig_here()
    found = asked(rig, command="echo 8 GPUs are well")
    assert found.lines[-1] == "8 GPUs are well"
    assert found.problem == ""


@pytest.mark.parametrize(
    ("command", "max_s", "problem"),
    [
        ("echo first; echo GPU 3 is hot; exit 7", 60.0, "the load exited with 7: GPU 3 is hot"),
        ("kill -9 $$", 60.0, "the load exited with -9: it printed nothing"),
        ("sleep 100 & echo begun; wait", 0.2, "the load took more than 0.2 s: begun"),
    ],
)
def test_a_load_that_fails_is_the_machines_problem(
    command: str, max_s: float, problem: str
) -> None:
    """Exit code, signal or time limit: the last printed line explains it; nothing keeps running."""
    rig = rig_here()
    found = asked(rig, command=command, max_s=max_s)
    assert found.problem == problem
    assert facts(rig) == [Checked(id="U1", by="burn", problem=problem)]


def test_what_leaves_a_load_that_is_killed_does_not_hold_up_the_agent(tmp_path: Path) -> None:
    """A process in its own session keeps the load's output open, and is not waited for."""
    rig, written = rig_here(), tmp_path / "pid"
    line = f"setsid sh -c 'echo $$ > {written}; exec sleep 1000' & sleep 1000"
    try:
        found = asked(rig, command=line, max_s=0.5)
        assert found.problem == "the load took more than 0.5 s: it printed nothing"
    finally:
        os.kill(int(written.read_text()), signal.SIGKILL)


def test_nothing_is_loaded_beside_a_job() -> None:
    """A running job is not disturbed, and the machine is not blamed."""
    rig = rig_here()
    rig.bucket.spec(job("true"))
    rig.bucket.instruct(start())
    found = asked(rig, command="exit 1")
    assert found.undone == "a job runs here that the load would disturb"
    assert found.problem == ""


def test_an_instruction_that_comes_late_loads_nothing() -> None:
    """The bastion has opened the machine again by then: a job may start at any moment."""
    rig = rig_here()
    found = asked(rig, command="exit 1", until=rig.clock.wall() - 9.0)
    assert found.undone == "the instruction came 10 s too late"


def test_an_outage_delays_what_was_found() -> None:
    """A write without an answer is repeated, even by the next agent, and reported once."""
    rig = rig_here()
    rig.pass_s(1.0)
    LOST.append("outcome")
    rig.bucket.instruct(Check(id="U1", by="hello", until=rig.clock.wall() + 60.0))
    rig.pass_s(2.0)
    assert facts(rig) == []
    rig.restart()
    LOST.clear()
    rig.pass_s(30.0)
    assert facts(rig) == [Checked(id="U1", by="hello")]
