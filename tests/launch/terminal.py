"""What a command draws on a terminal."""

from __future__ import annotations

import contextlib
import os
import pty
import subprocess
import termios
from pathlib import Path

from tests.launch.bucket import Bucket
from tests.launch.process import COMMAND, environment


def drawn(
    words: list[str], bucket: Bucket, tmp_path: Path, *, columns: int, zone: str = "UTC0"
) -> list[str]:
    """Return what a command draws on a terminal of that many columns, in a time zone."""
    ours, theirs = pty.openpty()
    termios.tcsetwinsize(theirs, (40, columns))
    env = environment(bucket, tmp_path) | {"TERM": "xterm-256color", "NO_COLOR": "1", "TZ": zone}
    with subprocess.Popen([*COMMAND, *words], env=env, stdout=theirs, stderr=theirs) as process:
        os.close(theirs)
        shown = b""
        with contextlib.suppress(OSError):  # Linux says EIO where the other side is closed
            while data := os.read(ours, 4096):
                shown += data
        assert process.wait(30) == 0
    os.close(ours)
    return shown.decode().splitlines()
