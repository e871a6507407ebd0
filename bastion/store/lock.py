"""
`FileLocks`: one process at a time for each name, on one machine, even if holders are killed.

An flock belongs to an open file, so threads exclude each other as processes do, and the kernel
drops it with the process. The files are never deleted: two processes could then hold one name by
two files.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import zlib
from collections.abc import Iterator

from bastion.clock import Clock
from bastion.errors import StoreError

_LOCKS = 4096
"""Files a folder: two busy names hardly ever share one, and all of them may be kept for ever."""

_PAUSE_S = (0.0005, 0.02)
"""Between two tries: at first about as long as a holder needs for one write, at last polite."""


class FileLocks:
    """
    Locks as files of one folder, which is made when needed; the one above it must be there.

    Args:
        folder: An absolute path.
        clock: What waiting is measured on.
        timeout_s: How long to wait for another holder.
    """

    def __init__(self, folder: str, *, clock: Clock, timeout_s: float) -> None:
        self._folder = folder
        self._clock = clock
        self._timeout_s = timeout_s

    @contextlib.contextmanager
    def held(self, name: str) -> Iterator[None]:
        """
        Hold the lock of `name` meanwhile; not reentrant.

        Raises:
            StoreError: Another process holds it for too long; the message has its process id.
        """
        handle = self._open(zlib.crc32(name.encode()) % _LOCKS)
        try:
            self._acquire(handle, name)
            try:
                _sign(handle)
                yield
            finally:
                # Closing is not enough: a child forked meanwhile has the same file open.
                fcntl.flock(handle, fcntl.LOCK_UN)
        finally:
            os.close(handle)

    def _open(self, number: int) -> int:
        path = f"{self._folder}/{number:03x}"
        try:
            return os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
        except FileNotFoundError:
            # Never what lies above the folder of the locks: it may be away.
            with contextlib.suppress(FileExistsError):
                os.mkdir(self._folder)  # noqa: PTH102 - all paths here are strings
            return os.open(path, os.O_RDWR | os.O_CREAT, 0o666)

    def _acquire(self, handle: int, name: str) -> None:
        deadline = self._clock.monotonic() + self._timeout_s
        pause_s, longest_s = _PAUSE_S
        while True:
            try:
                return fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                if self._clock.monotonic() >= deadline:
                    break
            self._clock.sleep(pause_s)
            pause_s = min(2 * pause_s, longest_s)
        holder = os.pread(handle, 32, 0).decode(errors="replace")
        raise StoreError(
            f"{name!r} has been locked by process {holder} for more than {self._timeout_s:g} s",
            hint=f"see what process {holder} is doing; its lock goes when it ends",
        )


def _sign(handle: int) -> None:
    """Write the holder's process id into the file, unless it is there; a full disk is ignored."""
    mine = b"%d" % os.getpid()
    with contextlib.suppress(OSError):
        if os.pread(handle, 32, 0) != mine:
            os.ftruncate(handle, os.pwrite(handle, mine, 0))
