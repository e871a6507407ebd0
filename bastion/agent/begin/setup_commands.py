"""
The pool's own commands, which a new machine runs once, in order, before it takes jobs.

They run as the agent's user with `/bin/sh`, and stop at the first that fails. The folder records
the commands that were run, so a reboot does not run them again; changed commands are run.

A command outlives an agent that dies. The next agent waits for it if it is to run the same one, and
ends it otherwise: two at the same time would lock each other out, and write to one log.
"""

from __future__ import annotations

import hashlib
import json
import os
import signal
import subprocess
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import psutil

from bastion.agent.machine.stray_processes import boot_id, look

COMMAND_S = 3600.0
"""Longest command: building drivers takes less."""
TEXT_CHARACTERS = 900
"""Characters of a failed command's output: it is kept in the state of the bastion."""
_DONE = "setup-done"
_LAST_S = 2.0
"""How long to wait for a killed command to end."""


def run_setup(commands: Sequence[str], folder: Path, *, timeout_s: float = COMMAND_S) -> str:
    """Run `commands` unless they ran here before; return why they failed, or empty."""
    digest = hashlib.sha256(json.dumps(list(commands)).encode()).hexdigest()
    done = folder / _DONE
    if not commands or (done.exists() and done.read_text() == digest):
        return ""
    log = folder / "setup.log"
    settle_left(log, commands, timeout_s)
    log.write_bytes(b"")
    for number, command in enumerate(commands, start=1):
        why = failure_of(command, log, timeout_s)
        if why:
            which = f"command {number} of {len(commands)}"
            return f"{which}, {command[:200]!r}, {why}: {last_words(log)}"
    done.write_text(digest)
    return ""


def last_words(log: Path) -> str:
    """Return the end of a log, with as many characters as a bastion keeps."""
    with log.open("rb") as file:
        file.seek(max(0, log.stat().st_size - TEXT_CHARACTERS))
        return file.read().decode(errors="replace").strip() or "it printed nothing"


def failure_of(command: str, log: Path, timeout_s: float) -> str:
    """
    Run one command, and add its output to `log`; return how it failed, or empty.

    A command that takes too long is killed with everything that it started in its session.
    """
    running = _running(log)
    with log.open("ab") as output:
        process = subprocess.Popen(
            ["/bin/sh", "-c", command],
            cwd=log.parent,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        seen = look(process.pid)
        # Its start in ticks since boot: the clock of a starting machine is being set.
        note = [process.pid, boot_id(), seen.start if seen is not None else 0, command]
        running.write_text(json.dumps(note))
        try:
            code = process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            with suppress(subprocess.TimeoutExpired):
                process.wait(_LAST_S)  # a broken driver may hold it forever
            return f"took more than {timeout_s:g} s"
        finally:
            running.unlink(missing_ok=True)
    return "" if code == 0 else f"exited with {code}"


def settle_left(log: Path, commands: Sequence[str], timeout_s: float) -> None:
    """
    End a command that a dead agent left running and whose output goes to `log`.

    One of `commands` gets `timeout_s` to end on its own, and any other is killed.
    """
    running = _running(log)
    try:
        pid, boot, started, command = json.loads(running.read_text())
        seen = look(pid)
        if seen is not None and (boot, started) == (boot_id(), seen.start):
            process = psutil.Process(pid)
            with suppress(psutil.TimeoutExpired):
                process.wait(timeout_s if command in commands else 0.0)
            if process.is_running():
                os.killpg(pid, signal.SIGKILL)
                process.wait(_LAST_S)
    except (OSError, ValueError, TypeError, psutil.Error):
        pass  # there is none, it has ended, or a broken driver holds it
    running.unlink(missing_ok=True)


def _running(log: Path) -> Path:
    """Return the file that records the running command: its process, its start, and its text."""
    return log.with_suffix(".running")
