"""The agent as a program: a real keeper, real processes, a folder as the bucket."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from bastion.agent.keeper_client import KeeperClient
from bastion.agent.keeper_port import KeeperGoneError
from bastion.agent.strays import look
from bastion.records import layout
from bastion.spec import Job, Process
from bastion.store.local import LocalStore
from tests.bastion.agent.rig import MACHINE, OF, Bucket, start

DEADLINE_S = 20.0
HOUSE = Path(__file__).parents[3]


class Machine:
    """One machine: its bucket, its home, and its agent while one runs."""

    def __init__(self, folder: Path) -> None:
        self.root = folder / "root"
        self.home = folder / "home"
        self.bucket = Bucket(LocalStore(self.root))
        self.agent: subprocess.Popen[bytes] | None = None

    def begin(self) -> None:
        """Start an agent."""
        said = [
            sys.executable,
            "-c",
            "import sys; from bastion.agent.main import main; sys.exit(main(sys.argv[1:]))",
        ]
        said += ["--root", f"file://{self.root}", "--machine", MACHINE, "--home", str(self.home)]
        said += ["--resources", "h100=8,cpu=16"]
        self.home.mkdir(exist_ok=True)
        with (self.home / "agent.log").open("ab") as log:
            self.agent = subprocess.Popen(
                said,
                cwd=HOUSE,
                stderr=log,
                start_new_session=True,
                env=dict(os.environ, SECRET="x"),
            )

    def kill(self) -> None:
        """Kill (-9) the agent."""
        assert self.agent is not None
        self.agent.kill()
        self.agent.wait()

    def keeper_pid(self) -> int:
        """The process of the living keeper."""
        return int((self.home / "keeper" / "lock").read_text().split()[1])

    def log(self) -> str:
        """What the agents said."""
        return (self.home / "agent.log").read_text()

    def until(self, holds: Callable[[], object]) -> None:
        """Wait until something holds."""
        deadline = time.monotonic() + DEADLINE_S
        while not holds():
            assert time.monotonic() < deadline, self.log()
            time.sleep(0.005)

    def close(self) -> None:
        """End agent, keeper and jobs."""
        if self.agent is not None:
            self.kill()
        try:
            keeper = KeeperClient(self.home)
            for state in keeper.attempts():
                if hasattr(state, "key"):
                    keeper.stop(state.key, reason="test", by="test", grace_s=0.0)
            keeper.terminate()
            while True:
                keeper.poll(1.0)
        except KeeperGoneError:
            pass


@pytest.fixture
def machine(tmp_path: Path) -> Iterator[Machine]:
    """A machine whose agent runs."""
    made = Machine(tmp_path)
    made.begin()
    try:
        yield made
    finally:
        made.close()


def shell(*lines: str, **fields: object) -> Job:
    """A job of one shell process for each line."""
    return Job(name="train", processes=tuple(Process(line, shell=True) for line in lines), **fields)


def test_a_job_runs_and_its_environment_is_clean(machine: Machine) -> None:
    """A process sees what it was promised and nothing of the agent's; every byte is in the log."""
    machine.bucket.spec(shell("env; pwd", env={"COLOUR": "red"}))
    machine.bucket.instruct(start(devices={"h100": (2, 3)}))
    machine.until(lambda: "drained" in machine.bucket.told())
    end = machine.bucket.end()
    assert end is not None
    assert end.codes == (0,)
    lines = machine.bucket.log().decode().splitlines()
    env = dict(line.split("=", 1) for line in lines[:-1])
    assert env["COLOUR"] == "red"
    assert env["CUDA_VISIBLE_DEVICES"] == "2,3"
    assert env["BASTION_JOB_ID"] == OF.job
    assert "SECRET" not in env
    assert lines[-1].endswith("/code")
    assert machine.bucket.told() == ("claimed", "started", "ended", "drained")


def test_a_killed_agent_is_taken_over(machine: Machine) -> None:
    """An agent that is killed (-9) neither touches a job nor loses a byte of its log."""
    machine.bucket.spec(
        shell("i=0; while [ $i -lt 60 ]; do echo line $i; sleep 0.02; i=$((i+1)); done")
    )
    machine.bucket.instruct(start())
    machine.until(lambda: machine.bucket.log())
    machine.kill()
    machine.begin()
    machine.until(lambda: "drained" in machine.bucket.told())
    expected = "".join(f"line {i}\n" for i in range(60)).encode()
    assert machine.bucket.log() == expected
    end = machine.bucket.end()
    assert end is not None
    assert (end.kind, end.codes, end.sizes) == ("exited", (0,), (len(expected),))


def test_a_killed_keeper_means_a_new_life_and_a_lost_host(machine: Machine) -> None:
    """A killed keeper (-9): strays are killed, the host ends as lost, the next life serves."""
    machine.bucket.spec(shell("echo $$; exec sleep 1000"))
    machine.bucket.instruct(start())
    machine.until(lambda: machine.bucket.log().endswith(b"\n"))
    pid = int(machine.bucket.log())
    os.kill(machine.keeper_pid(), signal.SIGKILL)
    machine.until(lambda: "drained" in machine.bucket.told())
    end = machine.bucket.end()
    assert end is not None
    assert end.kind == "lost"
    stray = look(pid)
    assert stray is None or stray.zombie
    assert len(machine.bucket.store.list(layout.lives(MACHINE))) == 2
