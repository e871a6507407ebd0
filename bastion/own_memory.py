"""Keeping other processes of the same user out of this one's memory; standard library only."""

from __future__ import annotations

import contextlib
import os

_PR_SET_DUMPABLE = 4
"""Source: Linux, include/uapi/linux/prctl.h; PR_SET_DUMPABLE in prctl(2)."""

_INSIDE = "BASTION_MARK"
"""Set in a process that a keeper started, as in a Bastion that a job runs."""


def hide_memory() -> None:
    """
    Let only root read this process's memory and environment, and let no crash write it to a disk.

    Jobs of the same user could otherwise read the credentials of an agent, and secrets of other
    projects, in /proc. Programs that this process starts are as before. A process inside a job is
    left as it is: the job's keeper finds it by its environment. Where the kernel has no such thing,
    nothing changes.
    """
    if _INSIDE in os.environ:
        return
    # Some minimal builds of Python are without ctypes.
    with contextlib.suppress(ImportError, OSError):
        import ctypes

        ctypes.CDLL(None).prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)
