"""Commands that users run beside their jobs: who may, where, and what is told."""

from __future__ import annotations

import pytest

from bastion.errors import SpecError
from bastion.machine import Exec
from bastion.records.request import MAX_ARGUMENT_BYTES, ExecRequest
from tests.rigs.leader import Rig


def asked(rig: Rig, job: str, *argv: str, user: str = "ann", **of: int) -> str:
    """What the bastion answers to a command: why not, or nothing."""
    request = rig.ask(user, "blue", "exec", ExecRequest(job=job, argv=argv or ("true",), **of))
    rig.turn()
    answer = rig.answer(request, user=user)
    return "" if answer.accepted else "; ".join(answer.problems)


def test_a_command_goes_to_the_machine_of_its_host() -> None:
    """The instruction names the host's attempt and the request, and history tells of it."""
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
    """A job that waits, has ended or is unknown, and a replica that is none, are told apart."""
    rig = Rig()
    job = rig.start()
    assert asked(rig, job, replica=1) == (
        f"{job}: replica 1 is none of it; it has 1, the first is 0"
    )
    assert asked(rig, job, host=2) == f"{job}: host 2 is none of a replica; each has 1, from 0"
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
        ({"argv": ("true",), "max_runtime_s": 0.0}, "max_runtime_s: 0.0 is not allowed"),
    ],
)
def test_a_command_that_cannot_be_is_refused(fields: dict[str, object], problem: str) -> None:
    """A request is checked when it is made, with every number and text bounded."""
    with pytest.raises(SpecError, match=problem):
        ExecRequest(job="j", **fields)  # type: ignore[arg-type]
