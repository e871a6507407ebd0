"""How the keeper's loop hears of signals; standard library only."""

from __future__ import annotations

import os
import signal


def signal_pipe() -> int:
    """A pipe that is readable when a signal has come: what `epoll` waits on for them."""
    read_end, write_end = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
    signal.set_wakeup_fd(write_end, warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, lambda _number, _frame: None)
    return read_end


def drain(pipe: int) -> None:
    """Forget the signals that have come."""
    os.read(pipe, 1 << 12)
