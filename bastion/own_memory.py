"""Protection of this process's memory from other processes of its user; standard library only."""

from __future__ import annotations

import contextlib
import os

_PR_SET_DUMPABLE = 4
"""Source: Linux, include/uapi/linux/prctl.h; PR_SET_DUMPABLE in prctl(2)."""

_INSIDE = "BASTION_MARK"
"""Set in every process that a keeper started, including a Bastion that runs inside a job."""


def hide_memory() -> None:
    """
    Let only root read this process's memory and environment, and disable core dumps.

    Otherwise jobs of the same user could read an agent's credentials, and secrets of other
    projects, in /proc. Programs that this process starts are not affected. A process inside a job
    is not changed, because the job's keeper finds it by its environment. If the kernel does not
    support it, nothing changes.
    """
    if _INSIDE in os.environ:
        return
    # Some minimal builds of Python have no ctypes.
    with contextlib.suppress(ImportError, OSError):
        import ctypes

        ctypes.CDLL(None).prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)
