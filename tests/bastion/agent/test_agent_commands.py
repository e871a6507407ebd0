"""Commands beside a job's processes: a real agent, a real keeper, a folder as the bucket."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from bastion.agent.keeper.fake import FakeKeeper, Script
from bastion.agent.keeper.port import AttemptStart, KeeperGoneError
from bastion.machine import Exec
from bastion.records.coding.codec import encode
from bastion.records.keys import layout
from bastion.records.register import look
from bastion.records.reports.registers import CommandEnd, LongCommand
from bastion.store.memory import Fault, Operation
from tests.bastion.agent.real_machine import Machine, shell
from tests.rigs.agent import MACHINE, OF, Rig, job, start, stop

ID = "01ARZ3NDEKTSV4RRFFQ69G5FA"


@pytest.fixture
def machine(tmp_path: Path) -> Iterator[Machine]:
    """Run a machine with an agent."""
    made = Machine(tmp_path)
    made.begin()
    try:
        yield made
    finally:
        made.close()


def command(line: str, number: int = 1, *, max_runtime_s: float = 600.0, process: int = 0) -> Exec:
    """Return a shell line beside the host `OF`."""
    return Exec(
        id=f"{ID}{number}",
        project=OF.project,
        job=OF.job,
        attempt=OF.attempt,
        nonce=OF.nonce,
        replica=OF.replica,
        host=OF.host,
        process=process,
        argv=("/bin/sh", "-c", line),
        max_runtime_s=max_runtime_s,
    )


def end_of(machine: Machine, number: int = 1) -> CommandEnd | None:
    """Return how a command ended, according to the bucket."""
    prefix = layout.command_log(OF.project, OF.job, f"{ID}{number}")
    return look(machine.bucket.store, layout.command_end(prefix), CommandEnd)


def output_of(machine: Machine, number: int = 1) -> bytes:
    """Return what a command printed, according to the bucket."""
    prefix = layout.command_log(OF.project, OF.job, f"{ID}{number}")
    store = machine.bucket.store
    keys = [entry.key for entry in store.list(prefix) if entry.key.endswith(".log")]
    found = [store.read(key) for key in keys]
    return b"".join(each.data for each in found if each is not None)


def ended(machine: Machine, number: int = 1) -> CommandEnd:
    """Return how a command ended, once it has."""
    machine.until(lambda: end_of(machine, number))
    end = end_of(machine, number)
    assert end is not None
    return end


def run_job(machine: Machine, line: str = "echo up; exec sleep 1000") -> None:
    """Start the job of one host, and wait until it has printed its first line."""
    machine.bucket.spec(shell(line, env={"COLOUR": "red"}))
    machine.bucket.instruct(start(devices={"h100": (2, 3)}))
    machine.until(lambda: machine.bucket.log() == b"up\n")


def test_a_command_sees_what_the_process_sees(machine: Machine) -> None:
    """It has the folder, the variables, the devices and the code of the process beside it."""
    run_job(machine, "touch here; echo up; exec sleep 1000")
    machine.bucket.instruct(
        command("ls; echo $COLOUR $CUDA_VISIBLE_DEVICES $BASTION_JOB_ID; exit 7")
    )
    end = ended(machine)
    assert (end.code, end.signal, end.problem) == (7, None, "")
    assert output_of(machine) == f"here\nred 2,3 {OF.job}\n".encode()
    assert end.size_bytes == len(output_of(machine))
    assert machine.bucket.end() is None


def test_a_command_ends_before_its_host_does(machine: Machine) -> None:
    """A running command is stopped once the job's processes have ended; then the host ends."""
    run_job(machine, "echo up; sleep 0.5; exit 0")
    machine.bucket.instruct(command("echo begun; exec sleep 1000"))
    machine.until(lambda: "drained" in machine.bucket.told())
    end = ended(machine)
    assert (end.signal, end.problem) == (15, "the processes that it ran beside have ended")
    assert output_of(machine) == b"begun\n"
    host = machine.bucket.end()
    assert host is not None
    assert host.codes == (0,)


def test_a_host_ends_though_the_output_of_a_command_is_not_sent_yet() -> None:
    """Devices wait for what runs there, and the drain for what it has printed."""
    prefix = layout.command_log(OF.project, OF.job, f"{ID}1")
    away = True

    def faults(_operation: Operation, key: str) -> Fault | None:
        return Fault.BEFORE if away and key.startswith(prefix) and key.endswith(".log") else None

    printing = Script(output=((0.0, b"much\n"),), runs_s=float("inf"))
    rig = Rig(lambda _: printing, faults=faults)
    rig.bucket.spec(job())
    rig.bucket.instruct(start())
    rig.pass_s(1)
    rig.bucket.instruct(command("yes"))
    rig.pass_s(1)
    rig.bucket.instruct(stop())
    rig.pass_s(5)
    assert rig.bucket.end() is not None
    assert rig.bucket.told()[-1] == "ended"
    away = False
    rig.pass_s(60)
    assert rig.bucket.told()[-1] == "drained"
    end = look(rig.memory, layout.command_end(prefix), CommandEnd)
    assert end is not None
    assert (end.signal, end.size_bytes) == (15, 5)


def test_a_command_is_stopped_at_its_limit(machine: Machine) -> None:
    """A command that exceeds its limit is stopped, and its job continues."""
    run_job(machine)
    machine.bucket.instruct(command("exec sleep 1000", max_runtime_s=0.2))
    assert ended(machine).problem == "its time limit was over"
    assert machine.bucket.end() is None


def test_a_program_that_is_not_there_is_told(machine: Machine) -> None:
    """The error has the system's words, and nothing else is affected."""
    run_job(machine)
    machine.bucket.instruct(replace(command(""), argv=("no-such-program",)))
    assert "no-such-program" in ended(machine).problem
    machine.bucket.instruct(command("true", 2, process=3))
    assert (
        ended(machine, 2).problem == "process: this host has no process 3; it has 1, counted from 0"
    )
    assert machine.bucket.end() is None


def test_a_command_for_a_host_that_is_gone_is_told(machine: Machine) -> None:
    """A command for a host that is not here gets an end that says so."""
    run_job(machine)
    machine.bucket.instruct(replace(command("true"), attempt=2, nonce="n2"))
    assert ended(machine).problem == "this host no longer runs here"
    assert machine.bucket.end() is None


def test_a_killed_agent_goes_on_with_commands(machine: Machine) -> None:
    """A command outlives its agent; the next agent ships the rest, and starts more."""
    run_job(machine)
    machine.bucket.instruct(command("mkfifo go; echo one; read _ <go; echo two"))
    machine.until(lambda: output_of(machine) == b"one\n")
    machine.kill()
    machine.begin()
    machine.bucket.instruct(command("echo $COLOUR; echo >go", 2))
    assert ended(machine, 2).code == 0
    assert output_of(machine, 2) == b"red\n"
    assert ended(machine).code == 0
    assert output_of(machine) == b"one\ntwo\n"


def test_a_long_command_is_read_and_run(machine: Machine) -> None:
    """Its arguments are a separate object; if that is missing, the error says so."""
    machine.bucket.spec(shell("sleep 60"))
    machine.bucket.instruct(start())
    machine.until(lambda: "started" in machine.bucket.told())
    data = encode(LongCommand(argv=("/bin/sh", "-c", "echo long")))
    machine.bucket.store.create(layout.argv(MACHINE, f"{ID}1", "d1"), data)
    for number in (1, 2):
        told = replace(command("", number), argv=(), argv_digest=f"d{number}")
        machine.bucket.instruct(told)
    assert ended(machine, 1).code == 0
    assert output_of(machine, 1) == b"long\n"
    assert ended(machine, 2).problem == "its arguments are not in the bucket"


def test_a_command_runs_once_whatever_becomes_of_its_agent(machine: Machine) -> None:
    """Its end is in the bucket when its instruction is read again: it does not run again."""
    run_job(machine)
    waits = replace(OF, attempt=2, nonce="n2")
    machine.bucket.instruct(
        start(waits, barrier=True)
    )  # later instructions are read again meanwhile
    machine.until(lambda: machine.bucket.claim(waits))
    count = machine.root.parent / "count"
    machine.bucket.instruct(command(f"echo ran >> {count}"))
    ended(machine)
    machine.kill()
    machine.begin()
    machine.bucket.instruct(command("true", 2))
    ended(machine, 2)
    assert count.read_text() == "ran\n"


def test_a_command_whose_start_was_not_answered_is_told_as_it_ended(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It may be running, so it is not reported as refused."""
    rig = Rig(lambda _: Script(runs_s=float("inf")))
    rig.bucket.spec(job())
    rig.bucket.instruct(start())
    rig.pass_s(1)

    def lost(attempt: AttemptStart) -> None:
        FakeKeeper.start(rig.keeper, attempt)
        raise KeeperGoneError("no answer")

    rig.bucket.instruct(command("true"))
    with monkeypatch.context() as patched, pytest.raises(KeeperGoneError):
        patched.setattr(rig.keeper, "start", lost)
        rig.pass_s(1)
    rig.restart()
    rig.pass_s(1)
    rig.bucket.instruct(stop(grace_s=0.0))
    rig.pass_s(10)
    key = layout.command_end(layout.command_log(OF.project, OF.job, f"{ID}1"))
    end = look(rig.memory, key, CommandEnd)
    assert end is not None
    assert end.problem == "the processes that it ran beside have ended"
