"""Where the installed command begins and ends: quickly, and with a quiet Ctrl-C."""

from __future__ import annotations

import atexit
import gc
import os
import sys

COLLECT_AFTER = 100_000
"""
Objects between two searches for garbage, in place of Python's 700.

Ten thousand jobs are hundreds of thousands of objects that all live until the end: looking through
them again and again took a quarter of the time of `bastion list`.
"""


def start() -> int:
    """Load the command line and run this process's; the exit code."""
    gc.set_threshold(COLLECT_AFTER)  # at once: loading modules makes objects too
    try:
        from launch.cli import main
    except KeyboardInterrupt:
        return _interrupted()
    code = main()
    end(code)
    return code


def _interrupted() -> int:
    """End as any other tool does that is interrupted: our own report cannot tell of it yet."""
    import signal

    signal.signal(signal.SIGINT, signal.SIG_DFL)
    signal.raise_signal(signal.SIGINT)
    return 128 + signal.SIGINT  # where the signal is blocked


def end(code: int) -> None:
    """
    End this process with `code`, or return where Python has to end it itself.

    Python frees every object and module one by one, which takes a quarter of a short command; the
    system frees them all at once. What was registered with `atexit` is done. Threads that have to
    be waited for, and output that cannot be written, are left to Python.
    """
    threading = sys.modules.get("threading")
    if threading is not None and threading.active_count() > 1:
        return
    atexit._run_exitfuncs()
    try:
        for stream in (sys.stdout, sys.stderr):
            if stream is not None:  # it was closed before the start
                stream.flush()
    except (OSError, ValueError):
        return
    os._exit(code)


if __name__ == "__main__":
    sys.exit(start())
