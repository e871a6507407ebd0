"""
`guarded`: everything that a benchmark started ends with it, however the benchmark ends.

Bastions, agents, keepers and jobs leave the process group and the session of their parent. So the
benchmark runs in a child of a process that adopts orphans and kills what is left.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import sys
from collections.abc import Callable

import psutil

_DEATH_SIGNAL, _SUBREAPER = 1, 36
"""Source: prctl(2), PR_SET_PDEATHSIG and PR_SET_CHILD_SUBREAPER."""
_ENDS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


def guarded(main: Callable[[], object]) -> None:
    """Run `main` in a child process, kill what it left behind, and exit as it did."""
    libc = ctypes.CDLL(None)
    libc.prctl(_SUBREAPER, 1)
    child = os.fork()
    if child == 0:
        libc.prctl(_DEATH_SIGNAL, int(signal.SIGKILL))
        main()
        sys.stdout.flush()
        os._exit(0)
    for each in _ENDS:
        signal.signal(each, lambda *_: os.kill(child, signal.SIGKILL))
    try:
        _, status = os.waitpid(child, 0)
    finally:
        _end_rest()
    sys.exit(os.waitstatus_to_exitcode(status) & 0xFF)


def _end_rest() -> None:
    """Kill every descendant; killing one may turn another into a direct child."""
    while left := psutil.Process().children(recursive=True):
        for each in left:
            with contextlib.suppress(psutil.NoSuchProcess):
                each.kill()
        psutil.wait_procs(left, timeout=1)
