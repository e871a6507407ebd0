"""The deadline of a stop, in a separate process."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

HANGS = """
import os, signal, time
from bastion.clock import SystemClock
from bastion.service.run.stopping import Stopping

with Stopping(SystemClock()):
    for _ in range(2):
        os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(600)
"""


def test_a_second_signal_ends_it_at_once_also_on_a_full_disk() -> None:
    """It ends even if it cannot write a byte about it."""
    with Path("/dev/full").open("wb") as full:
        done = subprocess.run([sys.executable, "-c", HANGS], stderr=full, timeout=60, check=False)
    assert done.returncode == 1
