"""Commands that users run beside their jobs: who may, where, and what is recorded."""

from __future__ import annotations

from typing import Any

import pytest

from bastion.errors import SpecError, StoreError
from bastion.machine import Exec
from bastion.records.coding.codec import encode
from bastion.records.keys import layout
from bastion.records.reports.registers import LongCommand
from bastion.records.requests.job_request import MAX_ARGUMENT_BYTES, ExecRequest
from bastion.store.memory import Fault, FaultyStore
from tests.rigs.leader import Rig


def asked(rig: Rig, job: str, *argv: str, user: str = "ann", **of: Any) -> str:
    """Return why the bastion refuses a command; empty if it accepts it."""
    request = rig.ask(user, "blue", "exec", ExecRequest(job=job, argv=argv or ("true",), **of))
    rig.turn()
    answer = rig.answer(request, user=user)
    return "" if answer.accepted else "; ".join(answer.problems)


def test_a_command_goes_to_the_machine_of_its_host() -> None:
    """The instruction names the host's attempt and the request, and the history records it."""
    rig = Rig()
    job = rig.start()
    request = rig.ask("ann", "blue", "exec", ExecRequest(job=job, argv=("nvidia-smi", "-L")))
    rig.turn(3)
    assert rig.answer(request).accepted
    told = [each for each in rig.agent_of(job).told if isinstance(each, Exec)]
    (command,) = told
    attempt = rig.job(job).attempt
    assert attempt is not None
    assert (command.id, command.job, command.argv) == (request, job, ("nvidia-smi", "-L"))
    assert (command.attempt, command.nonce) == (attempt.number, attempt.nonce)
    assert [event.text for event in rig.history() if event.what == "exec"] == ["nvidia-smi -L"]


def test_only_its_owner_may_run_a_command_beside_a_job() -> None:
    """A command sees the job's secrets: another member of the project is refused."""
    rig = Rig()
    job = rig.start()
    problem = asked(rig, job, user="ben")
    assert problem == f"{job}: is ann's; ann or an admin of blue (none is named) may exec it"


def test_what_does_not_run_takes_no_command() -> None:
    """A job that waits, has ended or is unknown, and an unknown replica, have separate errors."""
    rig = Rig()
    job = rig.start()
    assert asked(rig, job, replica=1) == (f"{job} has no replica 1; it has 1, counted from 0")
    assert asked(rig, job, host=2) == f"{job} has no host 2; each replica has 1, counted from 0"
    waiting = rig.submit("later", hold=True)
    rig.turn()
    assert asked(rig, waiting) == (
        f"{waiting}: is queued; a command runs beside the processes of a running job"
    )
    assert asked(rig, "none-0123456789") == "none-0123456789: no such active job in project blue"


@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        ({"argv": ()}, "argv: names no program"),
        ({"argv": ("a" * (MAX_ARGUMENT_BYTES + 1),)}, "at most 256 and 8192"),
        ({"argv": ("a\0b",)}, "a zero byte"),
        ({"argv": ("true",), "replica": -1}, "replica: -1 is not allowed"),
        ({"argv": ("true",), "max_runtime_s": 0.0}, "max_runtime: 0.0 is not allowed"),
    ],
)
def test_a_command_that_cannot_be_is_refused(fields: dict[str, Any], problem: str) -> None:
    """A request is checked when it is made; every number and text has bounds."""
    with pytest.raises(SpecError, match=problem):
        ExecRequest(job="j", **fields)


def test_a_long_command_is_an_object_of_its_own() -> None:
    """Root holds only its digest; the object exists before the instruction does."""
    rig = Rig()
    job = rig.start()
    line = "echo " + "x" * 5000
    request = rig.ask("ann", "blue", "exec", ExecRequest(job=job, argv=("sh", "-c", line)))
    size = len(encode(rig.root))
    rig.leader.turn()
    assert len(encode(rig.root)) - size < 2500
    agent = rig.agent_of(job)
    rig.turn(2)
    (told,) = [each for each in agent.told if isinstance(each, Exec)]
    assert told.argv == ()
    found = rig.read(layout.argv(agent.name, request, told.argv_digest), LongCommand)
    assert found is not None and found.argv == ("sh", "-c", line)


def test_a_flood_of_commands_leaves_root_small() -> None:
    """Two hundred of the longest add a few hundred bytes each until their machine is told."""
    rig = Rig()
    job = rig.start()
    size = len(encode(rig.root))
    for _ in range(100):
        rig.ask("ann", "blue", "exec", ExecRequest(job=job, argv=("x" * MAX_ARGUMENT_BYTES,)))
    rig.leader.turn()
    assert len(encode(rig.root)) - size < 100 * 1500


def test_a_turn_without_the_arguments_is_not_committed() -> None:
    """If the store refuses the object, no instruction names it, and the next turn tries again."""
    refuses: list[str] = []
    rig = Rig(spoil=lambda store: FaultyStore(store, lambda _, key: _fault(refuses, key)))
    job = rig.start()
    refuses.append("/argv/")
    rig.ask("ann", "blue", "exec", ExecRequest(job=job, argv=("x" * 5000,)))
    with pytest.raises(StoreError):
        rig.leader.turn()
    assert not [each for each in rig.agent_of(job).told if isinstance(each, Exec)]
    refuses.clear()
    rig.turn(3)
    assert [each for each in rig.agent_of(job).told if isinstance(each, Exec)]


def _fault(refuses: list[str], key: str) -> Fault | None:
    return Fault.BEFORE if any(part in key for part in refuses) else None
