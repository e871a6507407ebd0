"""Run the commands and apply the edits of a page in a folder; no process may remain."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from doctest import ELLIPSIS, OutputChecker
from pathlib import Path

from tests.docs.pages import Edit, Step

LIMIT_S = 60
"""Ends a command that hangs."""


def run(
    steps: Sequence[Edit | Step], folder: Path, *, env: Mapping[str, str] | None = None
) -> None:
    """
    Do `steps` in `folder`; every command must print what its page says.

    Raises:
        AssertionError: A command prints something else, or leaves a process running.
    """
    environment = {
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "HOME": str(folder),
        "NO_COLOR": "1",
        **(env or {}),
    }
    try:
        for step in steps:
            if isinstance(step, Edit):
                step.apply(folder)
            else:
                _run(step, folder, environment)
    finally:
        left = [pid for pid in started_in(folder) if not has_ended(pid, within_s=10)]
        for pid in left:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
    assert not left, "the page leaves processes running"


def _run(step: Step, folder: Path, environment: Mapping[str, str]) -> None:
    ran = subprocess.run(
        ["bash", "-c", step.command],
        cwd=folder,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=LIMIT_S,
    )
    same = OutputChecker().check_output(step.printed, ran.stdout, ELLIPSIS)
    assert same, f"$ {step.command}\nprinted:\n{ran.stdout}\nthe page says:\n{step.printed}"


def started_in(folder: Path) -> list[int]:
    """Return the living processes whose working directory or command line is in `folder`."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            said = (process / "cmdline").read_bytes().decode(errors="replace")
            here = os.fspath((process / "cwd").readlink())
        except OSError:
            continue
        if f"{folder}/" in said or here == str(folder) or here.startswith(f"{folder}/"):
            found.append(int(process.name))
    return found


def has_ended(pid: int, *, within_s: float) -> bool:
    """Whether the process ends in time: a stopped process may need a moment."""
    try:
        handle = os.pidfd_open(pid)
    except ProcessLookupError:
        return True
    try:
        return bool(select.select([handle], [], [], within_s)[0])
    finally:
        os.close(handle)
