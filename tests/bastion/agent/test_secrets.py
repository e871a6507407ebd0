"""Secrets on their way through an agent: to the processes, and never to disk or bucket."""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import pytest

from bastion.agent.home import Marks
from bastion.agent.host.marks import Marking
from bastion.agent.report.redaction import Redaction
from bastion.agent.settings import AgentSettings
from bastion.lane import InlineLane
from bastion.records.keys import layout
from bastion.records.reports.facts import Reported
from bastion.spec import Job, Process, PythonEnv, Secret
from bastion.value import replace
from tests.bastion.agent.real_machine import Machine, shell
from tests.rigs.agent import MACHINE, OF, Rig, start, stop

if TYPE_CHECKING:
    from bastion.agent.host.context import Surroundings
    from bastion.agent.host.output_saving import Saving

VALUE = "hf_s3cr3t-token"
STARS = "*" * len(VALUE)


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Machine]:
    """Provide a machine whose folder of secrets has one for the project vision."""
    folder = tmp_path / "etc"
    (folder / "vision").mkdir(parents=True)
    (folder / "vision" / "HF_TOKEN").write_text(f"{VALUE}\n")
    monkeypatch.setenv("BASTION_SECRETS_DIR", str(folder))
    made = Machine(tmp_path)
    made.begin()
    try:
        yield made
    finally:
        made.close()


def traces(machine: Machine) -> list[str]:
    """Return every file of the bucket and the machine that holds the value, except raw output."""
    return [
        str(path)
        for top in (machine.root, machine.home)
        for folder, _, names in os.walk(top)  # which a folder that is just deleted does not disturb
        for path in (Path(folder, name) for name in names)
        if "spool" not in path.parts and VALUE.encode() in read(path)
    ]


def read(path: Path) -> bytes:
    """Return the contents of a file, if it still exists."""
    with contextlib.suppress(OSError):
        return path.read_bytes()
    return b""


def job(line: str, **fields: Any) -> Job:
    """Return a job with the secret."""
    return shell(line, secrets=[Secret("HF_TOKEN", **fields)])


def begin(machine: Machine, of: Job) -> None:
    """Start it as a bastion would."""
    machine.bucket.spec(of)
    machine.bucket.instruct(start(secrets={"HF_TOKEN": "file:vision/HF_TOKEN"}))


def test_a_process_has_its_secret_and_nothing_else_has_it(machine: Machine) -> None:
    """The process has the value; the bucket, the journal and the agent's log do not."""
    line = "echo ${#HF_TOKEN} $HF_TOKEN; printf hf_s3; sleep 0.1; printf cr3t-token; exit 3"
    begin(machine, job(line))
    machine.until(lambda: machine.bucket.end())
    assert not traces(machine)
    machine.until(lambda: "drained" in machine.bucket.told())
    assert machine.bucket.log().decode() == f"15 {STARS}\n{STARS}"
    end = machine.bucket.end()
    assert end is not None
    assert (end.codes, end.detail) == ((3,), f"15 {STARS}\n{STARS}")
    assert not traces(machine)


def test_why_it_failed_is_not_what_its_clean_up_printed(machine: Machine) -> None:
    """The last lines are those of the failed process, as for a job without secrets."""
    of = job("echo bad token $HF_TOKEN; exit 3")
    begin(machine, replace(of, on_end=("sh", "-c", "echo tidied $HF_TOKEN; exit 4")))
    machine.until(lambda: machine.bucket.end())
    end = machine.bucket.end()
    assert end is not None
    assert (end.detail, end.on_end) == (f"bad token {STARS}\n", "exited with code 4")
    machine.until(lambda: "drained" in machine.bucket.told())
    assert f"tidied {STARS}\n" in machine.bucket.log().decode()


def test_a_secret_as_a_file_is_gone_after_the_job(machine: Machine) -> None:
    """Only the job's user can read the file, and it is deleted when the job has ended."""
    begin(machine, job("cat $HF_TOKEN_FILE; stat -c ' %a' $HF_TOKEN_FILE; exit 1", file=True))
    machine.until(lambda: "drained" in machine.bucket.told())
    assert machine.bucket.log().decode() == f"{STARS} 600\n"
    assert not traces(machine)


def test_an_agent_that_is_killed_leaves_masking_to_the_next(machine: Machine) -> None:
    """The next agent masks what the first could not send, though the source has changed."""
    begin(machine, job("echo up; while [ ! -e go ]; do sleep 0.02; done; echo $HF_TOKEN; exit 1"))
    machine.until(lambda: machine.bucket.log())
    machine.kill()
    (code,) = machine.home.glob("work/*/code")
    Path(os.environ["BASTION_SECRETS_DIR"], "vision", "HF_TOKEN").write_text("another-value")
    (code / "go").touch()
    machine.until(
        lambda: any(VALUE in p.read_text() for p in machine.home.glob("keeper/spool/*/*"))
    )
    machine.begin()
    machine.until(lambda: "drained" in machine.bucket.told())
    assert machine.bucket.log().decode() == f"up\n{STARS}\n"
    end = machine.bucket.end()
    assert end is not None
    assert end.detail == f"up\n{STARS}\n"
    assert not traces(machine)


def test_what_a_dead_keeper_knew_is_masked_whole(machine: Machine) -> None:
    """If agent and keeper are killed, nothing that may be a secret is sent."""
    line = "echo up; while [ ! -e go ]; do sleep 0.02; done; echo $HF_TOKEN and more; sleep 1000"
    begin(machine, job(line))
    machine.until(lambda: machine.bucket.log())
    machine.kill()
    (code,) = machine.home.glob("work/*/code")
    (code / "go").touch()
    machine.until(
        lambda: any(VALUE in p.read_text() for p in machine.home.glob("keeper/spool/*/*"))
    )
    os.kill(machine.keeper_pid(), signal.SIGKILL)
    machine.begin()
    machine.until(lambda: "drained" in machine.bucket.told())
    assert machine.bucket.log().decode() == f"up\n{STARS}*********\n"
    assert not traces(machine)


@pytest.mark.parametrize(
    ("granted", "why"),
    [
        ({}, "secret HF_TOKEN: this job may no longer use it"),
        ({"HF_TOKEN": "file:vision/NONE"}, "secret HF_TOKEN: file:vision/NONE: no such file"),
        ({"HF_TOKEN": "file:vision/HF_TOKEN/x"}, "file:vision/HF_TOKEN/x: no such file"),
        ({"HF_TOKEN": "file:vision/DIR"}, "file:vision/DIR: a folder, not a file, in this"),
        ({"HF_TOKEN": "file:vision/PIPE"}, "file:vision/PIPE: a pipe or a device, not a file"),
        ({"HF_TOKEN": "file:vision/LOOP"}, "LOOP cannot be read: Too many levels of symbolic"),
    ],
)
def test_a_secret_that_cannot_be_had_fails_the_set_up(
    machine: Machine, granted: dict[str, str], why: str
) -> None:
    """The outcome names the secret, and nothing was started or unpacked."""
    folder = Path(os.environ["BASTION_SECRETS_DIR"], "vision")
    (folder / "DIR").mkdir()
    os.mkfifo(folder / "PIPE")
    (folder / "LOOP").symlink_to("LOOP")
    machine.bucket.spec(job("echo up"))
    machine.bucket.instruct(start(secrets=granted))
    machine.until(lambda: "drained" in machine.bucket.told())
    end = machine.bucket.end()
    assert end is not None
    assert end.kind == "setup_failed"
    assert why in end.detail
    assert not machine.bucket.store.list(
        layout.log(OF.project, OF.job, 1, replica=0, host=0, process=0)
    )


def test_each_process_has_its_own_secrets(machine: Machine) -> None:
    """A secret of one process is not in another's environment."""
    with_it = Process('echo "<$HF_TOKEN>"', shell=True, secrets=[Secret("HF_TOKEN")])
    without = Process('echo "<$HF_TOKEN>"', shell=True)
    begin(machine, Job(name="train", processes=(with_it, without)))
    machine.until(lambda: "drained" in machine.bucket.told())
    assert machine.bucket.log(0) == f"<{STARS}>\n".encode()
    assert machine.bucket.log(1) == b"<>\n"


class LateLane(InlineLane):
    """A lane whose work starts on request."""

    def __init__(self) -> None:
        super().__init__()
        self._waiting: list[tuple[str, Callable[[], object]]] = []

    def submit(self, key: str, work: Callable[[], object], *, is_urgent: bool = False) -> None:
        """Keep the work."""
        self._waiting.append((key, work))

    def let_go(self) -> None:
        """Do what was kept."""
        for key, work in self._waiting:
            super().submit(key, work)
        self._waiting = []


@pytest.mark.parametrize("fails", [False, True])
def test_a_set_up_that_outlasts_its_host_leaves_no_secret(*, fails: bool) -> None:
    """A job cancelled while its code is fetched has ended when its secrets are written."""
    lane = LateLane()
    settings = AgentSettings(machine=MACHINE, environ={"BASTION_SECRET_HF_TOKEN": VALUE})
    rig = Rig(settings=settings, long_lane=lane)
    lock = PythonEnv() if fails else None  # there is no code, and so no lock file
    secrets = [Secret("HF_TOKEN", file=True)]
    rig.bucket.spec(Job(name="train", processes=(Process(["true"]),), secrets=secrets), python=lock)
    rig.bucket.instruct(start(secrets={"HF_TOKEN": "env:HF_TOKEN"}))
    rig.pass_s(1)
    rig.bucket.instruct(stop())
    rig.pass_s(1)
    assert rig.bucket.told()[-1] == "drained"
    lane.let_go()
    rig.pass_s(1)
    assert rig.executions() == 0
    assert [path for path in rig.home_folder.rglob("*") if VALUE.encode() in read(path)] == []


def test_numbers_are_not_told_where_secrets_are_not_known() -> None:
    """Fully masked names would be the same."""
    rung: list[object] = []
    marks = Marks(report={"loss": 1.0, "step": 2.0})
    around = SimpleNamespace(
        home=SimpleNamespace(marks=lambda key: marks), bells=SimpleNamespace(ring=rung.append)
    )
    for values, is_told in ((("secret-value",), True), (None, False)):
        marking = Marking(
            OF,
            "key",
            cast("Surroundings", around),
            cast("Saving", None),
            Redaction(values),
            is_new=True,
        )
        marking.turn(0.0)
        assert bool(rung) is is_told
        rung.clear()


@pytest.mark.parametrize("is_long", [False, True])
def test_a_number_that_is_called_as_a_secret_is_reported_masked(
    machine: Machine, *, is_long: bool
) -> None:
    """Names of numbers go to the bucket too; the rest of one that is cut is masked."""
    value = VALUE * 8 if is_long else VALUE
    Path(os.environ["BASTION_SECRETS_DIR"], "vision", "HF_TOKEN").write_text(value)
    line = 'echo "{\\"loss\\": 1, \\"for $HF_TOKEN\\": 2}" > $BASTION_MARKS_DIR/report'
    begin(machine, job(line))
    machine.until(lambda: "drained" in machine.bucket.told())
    (told,) = (each for each in machine.bucket.facts() if isinstance(each, Reported))
    assert told.numbers == {"loss": 1.0, f"for {STARS * 8 if is_long else STARS}"[:64]: 2.0}
