"""
Another build of Bastion on this machine: installed beside the running one, by the bootstrap that
installed that one. The start-up script starts the agent of the build that `agent` names.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from bastion.agent.begin.setup_commands import TEXT_CHARACTERS
from bastion.errors import BastionError
from bastion.machine import Build

INSTALL_S = 1800.0
"""Longest installation, with packages over a slow line."""
_BOOT = "boot.json"
_OLD = "boot.old.json"


class UpgradeError(BastionError):
    """The build is not installed, and the machine stays as it is."""


def install(build: Build, folder: Path, machine: str) -> None:
    """
    Install `build` below the start-up script's `folder`, and make it the build of the next agent.

    Raises:
        UpgradeError: It could not be installed.
    """
    boot = folder / _BOOT
    old = boot.read_text()
    said: dict[str, Any] = json.loads(old)
    agent = [f"--build={build.digest}" if a.startswith("--build=") else a for a in said["agent"]]
    said |= {"wheel": build.wheel, "digest": build.digest, "agent": agent}
    (folder / _OLD).write_text(old)
    _replace(boot, json.dumps(said))
    command = [sys.executable, "bootstrap.py", str(folder)]
    environ = {**os.environ, "BASTION_MACHINE": machine}
    environ.pop("PYTHONPATH", None)
    try:
        done = subprocess.run(
            command,
            cwd=folder,
            env=environ,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=INSTALL_S,
        )
        text = done.stdout.decode(errors="replace").strip()[-TEXT_CHARACTERS:]
        why = "" if done.returncode == 0 else f"exited with {done.returncode}: {text}"
    except subprocess.TimeoutExpired:
        why = f"took more than {INSTALL_S:g} s"
    if why:
        _replace(boot, old)
        raise UpgradeError(f"build {build.digest[:12]} cannot be installed: {why}")


def _replace(path: Path, text: str) -> None:
    new = path.with_suffix(".new")
    descriptor = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "w") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    new.rename(path)
