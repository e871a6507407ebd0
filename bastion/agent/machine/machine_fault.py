"""
The one list of errors that are a fault of the machine and not of a job.

A machine whose disk is full, broken or read-only, or which is out of file descriptors or memory,
fails every job alike. The same job runs elsewhere, so an attempt that meets such an error is
`lost`, never failed. Standard library only, because the keeper uses it too.

Source: errno(3).
"""

from __future__ import annotations

import errno
import os

MACHINE_FAULTS = frozenset(
    {
        errno.ENOSPC,
        errno.EDQUOT,
        errno.EROFS,
        errno.EIO,
        errno.EMFILE,
        errno.ENFILE,
        errno.ENOMEM,
    }
)
"""Error numbers that the state of a machine causes in any call."""

SPAWN_FAULTS = MACHINE_FAULTS | {errno.EAGAIN}
"""More of them for the start of a process: the machine or its user has no room for another one."""


def is_machine_fault(error: BaseException | None) -> bool:
    """Whether `error`, or an error that it was raised from, is a fault of the machine."""
    while error is not None:
        if isinstance(error, MemoryError):
            return True
        if isinstance(error, OSError) and error.errno in MACHINE_FAULTS:
            return True
        error = error.__cause__
    return False


def fault_text(error: BaseException) -> str:
    """Return the text of `error` without a path, such as "No space left on device"."""
    if isinstance(error, OSError) and error.errno is not None:
        return os.strerror(error.errno)
    if isinstance(error, MemoryError):
        return os.strerror(errno.ENOMEM)
    return " ".join(str(error).split()) or repr(error)
