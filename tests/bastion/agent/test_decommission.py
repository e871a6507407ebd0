"""The end of a home, whatever its keeper does."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from bastion.agent.decommission import LOCK, end_home
from tests.rigs.limits import joined, killed, on_thread

HANGS = """
import fcntl, os, signal, sys
lock = open(sys.argv[1], "w")
fcntl.flock(lock, fcntl.LOCK_EX)
lock.write(f"pid {os.getpid()} life 1\\n")
lock.flush()
print("up", flush=True)
signal.pause()
"""
"""A keeper that holds its lock and answers nothing, as with a blocked disk."""


def test_a_keeper_that_does_not_answer_is_killed_when_patience_is_over(tmp_path: Path) -> None:
    """The machine is given back nevertheless."""
    (tmp_path / LOCK).touch()
    (tmp_path / "keeper" / "spool").mkdir(parents=True)
    command = [sys.executable, "-I", "-S", "-c", HANGS, str(tmp_path / "keeper" / "lock")]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as keeper:
        assert keeper.stdout is not None
        assert keeper.stdout.readline() == b"up\n"
        try:
            joined(on_thread(lambda: end_home(tmp_path, patience_s=0.1)))
            assert (tmp_path / "ended").exists()
        finally:
            killed(keeper)
