"""Where the installed command begins: Ctrl-C is quiet while the rest is still being loaded."""

from __future__ import annotations

import signal
import sys


def start() -> int:
    """Load the command line and run this process's; the exit code."""
    # Until our own report can tell of it, an interrupt ends the process as it ends any other tool.
    interrupted = signal.signal(signal.SIGINT, signal.SIG_DFL)
    from launch.cli import main

    signal.signal(signal.SIGINT, interrupted)
    return main()


if __name__ == "__main__":
    sys.exit(start())
