"""
`FileLocks`: named locks between the processes of one machine, released if a holder is killed.

An flock belongs to an open file, so it excludes threads as well as processes, and the kernel
releases it when the process ends. The files are never deleted: otherwise two processes could hold
one name through two files.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import zlib
from collections.abc import Iterator

from bastion.clock import Clock
from bastion.errors import StoreError
from bastion.store.folder.filesystem import Sharing

_LOCKS = 4096
"""Files per folder: two busy names rarely share one, and all of them may be kept permanently."""

_PAUSE_S = (0.0005, 0.02)
"""Shortest and longest pause between two tries; the first is about as long as one write."""


class FileLocks:
    """
    Locks as files in one folder, which is created when needed; its parent must exist.

    Args:
        folder: An absolute path.
        clock: The clock for waiting.
        timeout_s: How long to wait for another holder.
        sharing: Which users besides the owner may take them.
    """

    def __init__(
        self, folder: str, *, clock: Clock, timeout_s: float, sharing: Sharing | None = None
    ) -> None:
        self._folder = folder
        self._sharing = sharing or Sharing(folder=0)
        self._clock = clock
        self._timeout_s = timeout_s

    @contextlib.contextmanager
    def held(self, name: str) -> Iterator[None]:
        """
        Hold the lock of `name` for the duration of the context; not reentrant.

        Raises:
            StoreError: Another process held it for too long; the message has its process id.
        """
        handle = self._open(zlib.crc32(name.encode()) % _LOCKS)
        try:
            self._sharing.open_file(handle)
            self._acquire(handle, name)
            try:
                _sign(handle)
                yield
            finally:
                # Closing is not enough: a child forked in the meantime has the same file open.
                fcntl.flock(handle, fcntl.LOCK_UN)
        finally:
            os.close(handle)

    def _open(self, number: int) -> int:
        path = f"{self._folder}/{number:03x}"
        try:
            return os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
        except FileNotFoundError:
            # Never make the parents of the folder: they may be unmounted.
            with contextlib.suppress(FileExistsError):
                os.mkdir(self._folder)  # noqa: PTH102 - all paths here are strings
                self._sharing.open_folder(self._folder)
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
            hint=f"see what process {holder} is doing; its lock is released when it ends",
        )


def _sign(handle: int) -> None:
    """Write the holder's process id into the file if it is not there; ignore a full disk."""
    mine = b"%d" % os.getpid()
    with contextlib.suppress(OSError):
        if os.pread(handle, 32, 0) != mine:
            os.ftruncate(handle, os.pwrite(handle, mine, 0))
