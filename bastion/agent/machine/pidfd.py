"""
A process that signals can be sent to, held by a pidfd; standard library only.

A pid can be used again for another process; a pidfd cannot. Linux has pidfds since 5.3 (RHEL 8 has
4.18), some sandboxes refuse them, and a Python that was built for an old C library lacks the
functions, as those of uv did until August 2026. Then a signal goes to the pid. A caller that checks
the process immediately before leaves a few microseconds for its end and for the return of its pid,
and the kernel gives out all other pids first.
"""

from __future__ import annotations

import errno
import os
import signal

_ABSENT = frozenset({errno.ENOSYS, errno.EPERM})
"""Errors of pidfd_open(2) that an old kernel or a sandbox gives; it has no others of its own."""


class Held:
    """
    The process that has `pid` now; to be closed.

    Raises:
        OSError: There is none, or the machine is out of descriptors or memory.
    """

    def __init__(self, pid: int) -> None:
        self._pid, self._handle = pid, _opened(pid)

    def send(self, number: int) -> None:
        """
        Send the signal `number`.

        Raises:
            OSError: It has ended, or belongs to another user.
        """
        if self._handle < 0:
            os.kill(self._pid, number)
        else:
            signal.pidfd_send_signal(self._handle, number)

    def close(self) -> None:
        """Let go of it."""
        if self._handle >= 0:
            os.close(self._handle)


def _opened(pid: int) -> int:
    """Return a pidfd; -1 if this system has none."""
    if not hasattr(os, "pidfd_open"):
        return -1
    try:
        return os.pidfd_open(pid)
    except OSError as error:
        if error.errno in _ABSENT:
            return -1
        raise
