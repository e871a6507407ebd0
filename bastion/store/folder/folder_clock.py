"""
The clock of a folder: the kernel stamps each file that is written.

So a program whose own clock is off writes the same times, and sees the same ages, as all others.
"""

from __future__ import annotations

import os

from bastion.clock import Clock

_SAME_NS = 1_000_000_000
"""
Times closer than this are by one clock. The clock of this process is finer: a kernel stamps files
with the time of its last tick.
"""


class FolderClock:
    """
    The clock of a folder.

    Args:
        temps: The folder of temporary files.
        own: The clock of this process.
        is_own: Whether that is also the folder's, for tests.
    """

    def __init__(self, temps: str, own: Clock, *, is_own: bool) -> None:
        self._temps = temps
        self._own = own
        self._is_own = is_own

    def now_ns(self, handle: int) -> int:
        """Return the time just after a write to the file `handle`, in nanoseconds since 1970."""
        ours_ns = int(self._own.wall() * 1e9)
        if self._is_own:
            return ours_ns
        files_ns = os.fstat(handle).st_mtime_ns
        return ours_ns if abs(ours_ns - files_ns) < _SAME_NS else files_ns

    def date(self) -> float | None:
        """Return seconds since 1970; None for a user who may not write here."""
        if self._is_own:
            return self._own.wall()
        try:  # a file without a name is no news for those that watch the folder
            handle = os.open(self._temps, os.O_TMPFILE | os.O_WRONLY, 0o600)
        except OSError:
            return None
        try:
            return os.fstat(handle).st_mtime
        finally:
            os.close(handle)
