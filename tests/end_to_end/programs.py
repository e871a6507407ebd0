"""The programs of this tree, run as a user runs them, and their processes."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import psutil

from bastion import Client, Job, JobView, Launch, Process, Secret
from tests.end_to_end.roots import Place

REPOSITORY = Path(__file__).resolve().parents[2]
DEADLINE_S = 60.0
"""Limit for what a real bastion does within a second or two on an idle machine."""
BOUND = ["setpriv", "--bounding-set=-dac_override,-dac_read_search"] if not os.geteuid() else []
"""A command prefix: with it, even root can only read what file modes allow."""


class Programs:
    """
    The command, the bastions and the user of one root.

    Args:
        folder: For all files of these programs.
        place: The root.
    """

    def __init__(self, folder: Path, place: Place) -> None:
        self.folder = folder
        self.place = place
        self.machines = folder / "machines"
        self.project = folder / "project"
        home = folder / "home"
        for made in (home, self.project):
            made.mkdir()
        self.env = {
            "PATH": os.environ["PATH"],
            "HOME": str(home),
            "PYTHONPATH": str(REPOSITORY),
            "BASTION_ROOT": place.url,
            "USER": "alice",
            "LOGNAME": "alice",
            **place.env,
        }
        # The installed program: `-m` would find a user's own launch.py first.
        self.command = [str(Path(sys.executable).with_name("bastion"))]

    def run(
        self, *arguments: str, check: bool = True, timeout_s: float = DEADLINE_S
    ) -> subprocess.CompletedProcess[str]:
        """Run the command in the user's project folder."""
        done = subprocess.run(
            [*self.command, *arguments],
            cwd=self.project,
            env=self.env,
            capture_output=True,
            text=True,
            timeout=timeout_s,
            check=False,
        )
        if check and done.returncode:
            raise AssertionError(f"{arguments}: {done.returncode}\n{done.stdout}\n{done.stderr}")
        return done

    def clear_project(self) -> None:
        """Empty the user's project folder."""
        shutil.rmtree(self.project)
        self.project.mkdir()

    def json(self, *arguments: str) -> Any:
        """Run a command, and return its JSON."""
        return json.loads(self.run(*arguments, "--json").stdout)

    @property
    def client(self) -> Client:
        """Return a client of the same user."""
        return Client(self.place.url, user="alice", store=self.place.store)

    def printed(self, job: str) -> str:
        """Return the output of all processes of a job."""
        return b"".join(chunk.data for chunk in self.client.logs(job)).decode()

    def prints(self, job: str, text: str) -> None:
        """Wait until the output of a job is `text`."""
        until(lambda: self.printed(job) == text, f"{job} prints {text!r}")

    def follow(self, *words: str) -> tuple[str, str]:
        """Launch and follow a job by the command; return its id and its output."""
        ran = self.run("run", *words, check=False)
        return ran.stderr.partition("following ")[2].partition(";")[0], ran.stdout

    def launch(self, line: str, *, secrets: Sequence[Secret] = (), **fields: Any) -> JobView:
        """Launch a job of one shell line by the Python API; return it once it has ended."""
        job = Job(name="api", processes=[Process(line, shell=True)], secrets=secrets)
        handle = self.client.launch(Launch(name="api", jobs=[job], **fields))
        (ended,) = handle.wait(timeout_s=DEADLINE_S).jobs
        return ended

    def wait(self, job: str) -> JobView:
        """Wait until a job has ended, and return it."""
        (ended,) = self.client.wait([job], timeout_s=DEADLINE_S)
        return ended

    def serve(
        self, *arguments: str, env: Mapping[str, str] | None = None
    ) -> subprocess.Popen[bytes]:
        """Start a bastion; no other program gets the variables `env`."""
        argv = [*self.command, "serve", f"--machines_dir={self.machines}", *arguments]
        own = {**self.env, **(env or {})}
        with (self.folder / "serve.log").open("ab") as log:
            return subprocess.Popen(argv, cwd=self.project, env=own, stdout=log, stderr=log)

    @property
    def served(self) -> str:
        """Return the logs of all bastions of this folder."""
        log = self.folder / "serve.log"
        return log.read_text() if log.exists() else ""

    def processes(self, *words: str) -> list[psutil.Process]:
        """Return processes of this installation whose command line contains all of `words`."""
        found = []
        for process in psutil.process_iter(["cmdline", "status"]):
            line = " ".join(process.info["cmdline"] or [])
            is_ours = str(self.folder) in line and process.info["status"] != psutil.STATUS_ZOMBIE
            if is_ours and all(word in line for word in words):
                found.append(process)
        return found

    def stop_everything(self) -> None:
        """Stop all remaining processes by id, including those that they start in the meantime."""
        end = time.monotonic() + DEADLINE_S
        while left := self.processes():
            assert time.monotonic() < end, f"they cannot be killed: {left}"
            for process in left:
                try:
                    process.kill()
                except psutil.NoSuchProcess:
                    continue
            psutil.wait_procs(left, timeout=DEADLINE_S)


def until(done: Callable[[], object], what: str, timeout_s: float = DEADLINE_S) -> None:
    """Wait until `done()` is true."""
    end = time.monotonic() + timeout_s
    while not done():
        assert time.monotonic() < end, f"not within {timeout_s:g} s: {what}"
        time.sleep(0.1)


def alive_in(folder: Path) -> list[str]:
    """Return the command lines of processes that name `folder` or run in it."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            words = (process / "cmdline").read_bytes().replace(b"\0", b" ").decode()
            here = os.fspath((process / "cwd").readlink())
        except OSError:
            continue
        if str(folder) in words or here.startswith(str(folder)):
            found.append(words)
    return found
