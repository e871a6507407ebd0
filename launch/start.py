"""Start and end of the installed command: fast, and quiet on Ctrl-C."""

from __future__ import annotations

import atexit
import gc
import os
import sys

COLLECT_AFTER = 100_000
"""
Allocations between two garbage collections, instead of Python's 700.

Ten thousand jobs are hundreds of thousands of objects that live until the end. Scanning them over
and over took 25 % of the time of `bastion list`.
"""


def start() -> int:
    """Load the command line and run this process's words; return the exit code."""
    if os.name != "posix":
        sys.stderr.write(
            "error: Bastion runs on Linux and macOS only\n"
            "hint: on Windows, use the Windows Subsystem for Linux (WSL)\n"
        )
        return 1
    gc.set_threshold(COLLECT_AFTER)  # first, because loading modules allocates objects too
    try:
        from launch.cli import main
    except KeyboardInterrupt:
        return _interrupted()
    code = main()
    end(code)
    return code


def _interrupted() -> int:
    """End like any interrupted program: our own report is not loaded yet."""
    import signal

    signal.signal(signal.SIGINT, signal.SIG_DFL)
    signal.raise_signal(signal.SIGINT)
    return 128 + signal.SIGINT  # where the signal is blocked


def end(code: int) -> None:
    """
    End this process with `code`, or return if Python has to end it.

    Python frees every object and module one by one, which takes 25 % of a short command; the
    system frees them all together. Functions registered with `atexit` run. Python handles threads
    that it must wait for, and output that cannot be written.
    """
    threading = sys.modules.get("threading")
    if threading is not None and threading.active_count() > 1:
        return
    atexit._run_exitfuncs()
    try:
        for stream in (sys.stdout, sys.stderr):
            if stream is not None:  # closed before the start
                stream.flush()
    except (OSError, ValueError):
        return
    os._exit(code)


if __name__ == "__main__":
    sys.exit(start())
