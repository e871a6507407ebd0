"""The agent's own log: lines on its standard error, bounded in size."""

from __future__ import annotations

import fcntl
import os
import stat
import sys
import time
from contextlib import suppress

LIMIT_BYTES = 8 << 20
"""An agent writes a line or two per failed job, so this is about a hundred thousand lines."""

KEPT_BYTES = 1 << 20
"""Bytes kept from the end of a log that has reached its limit."""


def say(line: str) -> None:
    """Write one line with the time to the log; ignore a log that cannot be written."""
    now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    with suppress(OSError):
        # Not sys.stderr, which keeps the output that a full disk refused and fails at the exit.
        os.write(sys.stderr.fileno(), f"{now} {line}\n".encode(errors="replace"))
        bound(sys.stderr.fileno())


def bound(file: int, *, limit_bytes: int = LIMIT_BYTES, kept_bytes: int = KEPT_BYTES) -> None:
    """
    Cut the file behind `file` to its last lines if it is larger than `limit_bytes`.

    This is for regular files that are appended to (`>>`), so no writer is disturbed. A pipe, a
    terminal or an unreadable file is not changed.
    """
    seen = os.fstat(file)
    is_appended = fcntl.fcntl(file, fcntl.F_GETFL) & os.O_APPEND
    if not stat.S_ISREG(seen.st_mode) or not is_appended or seen.st_size <= limit_bytes:
        return
    try:
        reader = os.open(f"/proc/self/fd/{file}", os.O_RDONLY)
    except OSError:
        return
    try:
        last = os.pread(reader, kept_bytes, seen.st_size - kept_bytes)
    finally:
        os.close(reader)
    whole = last[last.find(b"\n") + 1 :]
    os.ftruncate(file, 0)
    os.write(file, b"[%d bytes of this log were cut]\n" % (seen.st_size - len(whole)) + whole)
