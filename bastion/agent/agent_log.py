"""The agent's own log: lines on its standard error, which is kept from growing without end."""

from __future__ import annotations

import fcntl
import os
import stat
import sys
import time
from contextlib import suppress

LIMIT_BYTES = 8 << 20
"""An agent says a line or two for a job that goes wrong: that many are a hundred thousand."""

KEPT_BYTES = 1 << 20
"""Of the end of a log that has reached its limit: what led to now."""


def say(line: str) -> None:
    """Write one line to the log, with the time; a log that takes none stops nothing."""
    now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    with suppress(OSError):
        # Not by sys.stderr, which keeps what a full disk did not take and fails at the exit.
        os.write(sys.stderr.fileno(), f"{now} {line}\n".encode(errors="replace"))
        bound(sys.stderr.fileno())


def bound(file: int, *, limit_bytes: int = LIMIT_BYTES, kept_bytes: int = KEPT_BYTES) -> None:
    """
    Cut what `file` appends to down to its last lines, once it is larger than `limit_bytes`.

    Only a regular file that is appended to (`>>`): no writer of it is disturbed. A pipe or a
    terminal is left alone, and so is a file that nobody may read.
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
