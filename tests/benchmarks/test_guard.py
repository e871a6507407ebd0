"""A benchmark that is killed leaves no process behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import psutil
import pytest

PROGRAM = """
import os, subprocess, sys, time
from benchmarks.guard import guarded

def main():
    told, tell = os.pipe()
    os.set_inheritable(tell, True)
    inner = f"import os, time; print(os.getpid(), flush=True); os.write({tell}, b'.')"
    inner += "; time.sleep(1000)"
    outer = "import subprocess, sys; "
    outer += f"subprocess.Popen([sys.executable, '-c', {inner!r}], close_fds=False)"
    subprocess.run([sys.executable, "-c", outer], start_new_session=True, close_fds=False)
    os.read(told, 1)  # the orphan has begun
    if sys.argv[1] == "ends":
        return
    time.sleep(1000)

guarded(main)
"""


@pytest.mark.parametrize("how", ["ends", "killed"])
def test_what_a_benchmark_started_ends_with_it(how: str) -> None:
    """This includes a process in its own session whose parent has ended."""
    argv = [sys.executable, "-c", PROGRAM, how]
    guard = subprocess.Popen(argv, stdout=subprocess.PIPE, text=True)
    assert guard.stdout is not None
    orphan = psutil.Process(int(guard.stdout.readline()))
    if how == "killed":
        os.kill(guard.pid, signal.SIGTERM)
    guard.wait(timeout=60)
    guard.stdout.close()
    assert not orphan.is_running()
