"""Where the installed command begins and ends: quickly, and with a quiet Ctrl-C."""

from __future__ import annotations

import atexit
import os
import signal
import sys


def start() -> int:
    """Load the command line and run this process's; the exit code."""
    # Until our own report can tell of it, an interrupt ends the process as it ends any other tool.
    interrupted = signal.signal(signal.SIGINT, signal.SIG_DFL)
    from launch.cli import main

    signal.signal(signal.SIGINT, interrupted)
    code = main()
    end(code)
    return code


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
        sys.stdout.flush()
        sys.stderr.flush()
    except (OSError, ValueError):
        return
    os._exit(code)


if __name__ == "__main__":
    sys.exit(start())
