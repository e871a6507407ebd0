"""The descriptors that the keeper's loop waits for, signals included; standard library only."""

from __future__ import annotations

import os
import select
import signal

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable


class Poller:
    """An `epoll`, and a callback for each descriptor in it."""

    def __init__(self) -> None:
        self._epoll = select.epoll()
        self._callbacks: dict[int, Callable[[], None]] = {}

    def watch(self, file: int, callback: Callable[[], None], events: int = select.EPOLLIN) -> None:
        """
        Call `callback` whenever `file` is ready.

        Raises:
            OSError: The kernel has no room for another descriptor.
        """
        self._epoll.register(file, events)
        self._callbacks[file] = callback

    def unwatch(self, file: int) -> None:
        """Stop watching `file`, if it is watched."""
        if self._callbacks.pop(file, None) is not None:
            self._epoll.unregister(file)

    def wait(self, timeout_s: float) -> None:
        """Wait until one is ready, without limit where `timeout_s` is negative; run callbacks."""
        for file, _ in self._epoll.poll(timeout_s):
            # A callback may unwatch another descriptor.
            if file in self._callbacks:
                self._callbacks[file]()


def signal_pipe() -> int:
    """Return a pipe that is readable once a signal has arrived, for the poller to watch."""
    read_end, write_end = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
    signal.set_wakeup_fd(write_end, warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, lambda _number, _frame: None)
    return read_end


def drain(pipe: int) -> None:
    """Discard the signals in the pipe."""
    os.read(pipe, 1 << 12)
