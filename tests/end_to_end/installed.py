"""The installed command: a wheel built from this tree, in a place of its own, run as users do."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil

from bastion import Client
from tests.end_to_end.roots import Place

REPOSITORY = Path(__file__).resolve().parents[2]
DEADLINE_S = 60.0
"""For anything that a real bastion does within a second or two when the machine is not busy."""


def build_wheel(into: Path) -> Path:
    """A wheel of this tree."""
    argv = [sys.executable, "-m", "pip", "wheel", "--no-deps", "--no-build-isolation", "--quiet"]
    subprocess.run([*argv, f"--wheel-dir={into}", str(REPOSITORY)], check=True)
    (wheel,) = into.glob("*.whl")
    return wheel


class Installed:
    """
    Bastion as a user has it: installed apart, and a project folder whose scripts carry names of
    ours.
    """

    def __init__(self, folder: Path, wheel: Path, place: Place) -> None:
        self.site = folder / "site"
        self.home = folder / "home"
        self.project = folder / "project"
        self.place = place
        self.machines = folder / "machines"
        self.folder = folder
        argv = [
            sys.executable,
            "-m",
            "pip",
            "install",
            "--no-deps",
            "--quiet",
            f"--target={self.site}",
        ]
        subprocess.run([*argv, str(wheel)], check=True)
        for made in (self.home, self.project):
            made.mkdir()
        shadow = "raise SystemExit('the user\\'s own launch.py was imported')\n"
        (self.project / "launch.py").write_text(shadow)
        self.env = {
            "PATH": os.environ["PATH"],
            "HOME": str(self.home),
            "PYTHONPATH": str(self.site),
            "BASTION_ROOT": place.url,
            "USER": "alice",
            "LOGNAME": "alice",
            **place.env,
        }

    @property
    def command(self) -> list[str]:
        """How the console script is run."""
        return [sys.executable, str(self.site / "bin" / "bastion")]

    def run(self, *arguments: str, check: bool = True) -> subprocess.CompletedProcess[str]:
        """Run the command in the user's project folder."""
        done = subprocess.run(
            [*self.command, *arguments],
            cwd=self.project,
            env=self.env,
            capture_output=True,
            text=True,
            timeout=DEADLINE_S,
            check=False,
        )
        if check and done.returncode:
            raise AssertionError(f"{arguments}: {done.returncode}\n{done.stdout}\n{done.stderr}")
        return done

    def json(self, *arguments: str) -> Any:
        """What a command says as JSON."""
        return json.loads(self.run(*arguments, "--json").stdout)

    @property
    def client(self) -> Client:
        """The same user's Python."""
        return Client(self.place.url, user="alice", store=self.place.store)

    def serve(self, *arguments: str) -> subprocess.Popen[bytes]:
        """Start a bastion."""
        argv = [*self.command, "serve", f"--machines_dir={self.machines}", *arguments]
        with (self.folder / "serve.log").open("ab") as log:
            return subprocess.Popen(argv, cwd=self.project, env=self.env, stdout=log, stderr=log)

    @property
    def served(self) -> str:
        """What all bastions of this folder have said."""
        return (self.folder / "serve.log").read_text()

    def processes(self, *words: str) -> list[psutil.Process]:
        """Processes of this installation whose command line holds all of `words`."""
        found = []
        for process in psutil.process_iter(["cmdline", "status"]):
            line = " ".join(process.info["cmdline"] or [])
            is_ours = str(self.folder) in line and process.info["status"] != psutil.STATUS_ZOMBIE
            if is_ours and all(word in line for word in words):
                found.append(process)
        return found

    def stop_everything(self) -> None:
        """Stop what is left, by process id."""
        for process in self.processes():
            try:
                process.kill()
            except psutil.NoSuchProcess:
                continue


def until(done: Callable[[], object], what: str, timeout_s: float = DEADLINE_S) -> None:
    """Wait until `done()` is true."""
    end = time.monotonic() + timeout_s
    while not done():
        assert time.monotonic() < end, f"not within {timeout_s:g} s: {what}"
        time.sleep(0.1)
