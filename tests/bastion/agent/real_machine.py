"""A machine with a real agent, a real keeper, and a folder as its bucket."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from bastion.agent.keeper.port import KeeperGoneError
from bastion.agent.keeper.socket.client import KeeperClient
from bastion.records.reports.facts import HostFact
from bastion.spec import Job, Process
from bastion.store.folder.local import LocalStore
from tests.rigs.agent import MACHINE, OF, Bucket
from tests.rigs.limits import killed

DEADLINE_S = 20.0
REPOSITORY = Path(__file__).parents[3]


class Machine:
    """One machine: its bucket, its home, and its agent while one runs."""

    def __init__(self, folder: Path, *options: str, **env: str) -> None:
        self.options = options
        self.env = {"SECRET": "x", **env}
        self.root = folder / "root"
        self.home = folder / "home"
        self.bucket = Bucket(LocalStore(self.root, makes_root=True))
        self._agent: subprocess.Popen[bytes] | None = None

    @property
    def agent(self) -> subprocess.Popen[bytes]:
        """Return the agent that was started last."""
        assert self._agent is not None
        return self._agent

    def begin(self) -> None:
        """Start an agent."""
        said = [sys.executable, "-m", "bastion", "agent"]
        said += ["--root", f"file://{self.root}", "--machine", MACHINE, "--home", str(self.home)]
        said += ["--resources", "h100=8,cpu=16", *self.options]
        self.home.mkdir(exist_ok=True)
        with (self.home / "agent.log").open("ab") as log:
            self._agent = subprocess.Popen(
                said,
                cwd=REPOSITORY,
                stderr=log,
                start_new_session=True,
                env={**os.environ, **self.env},
            )

    def kill(self) -> None:
        """Kill (-9) the agent."""
        killed(self.agent)

    def keeper_pid(self) -> int:
        """Return the process of the living keeper."""
        return int((self.home / "keeper" / "lock").read_text().split()[1])

    def log(self) -> str:
        """Return the output of the agents."""
        return (self.home / "agent.log").read_text()

    def until(self, holds: Callable[[], object], *, patience_s: float = DEADLINE_S) -> None:
        """Wait until something holds."""
        deadline = time.monotonic() + patience_s
        while not holds():
            assert time.monotonic() < deadline, self.log()
            time.sleep(0.005)

    def drained(self, of: HostFact = OF, *, patience_s: float = DEADLINE_S) -> None:
        """Wait until everything of a host is reported."""
        self.until(lambda: "drained" in self.bucket.told(of), patience_s=patience_s)

    def close(self) -> None:
        """End agent, keeper and jobs."""
        if self._agent is not None:
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


def agent_with(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Return the result of an agent with these arguments."""
    said = [sys.executable, "-m", "bastion", "agent", "--machine", MACHINE, *arguments]
    return subprocess.run(said, cwd=REPOSITORY, capture_output=True, text=True, timeout=DEADLINE_S)


def shell(*lines: str, **fields: Any) -> Job:
    """Return a job with one shell process per line."""
    return Job(name="train", processes=tuple(Process(line, shell=True) for line in lines), **fields)
