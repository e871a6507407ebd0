"""
SIGTERM and SIGINT: a graceful stop, with a deadline that no store can delay.

A stop has two deadlines. After `GIVE_UP_S` a commit that is still in doubt is abandoned, and the
process ends on its own. After `STOP_S`, or at a second signal, the process exits immediately,
because the main thread may hang in a read that checks no flag. Nothing is lost: a bastion can be
killed at any time, and the next one waits until the lease is over.
"""

from __future__ import annotations

import os
import signal
import socket
import threading
from contextlib import suppress
from typing import Any, Self

from bastion.clock import Clock

GIVE_UP_S = 5.0
"""Time for the last commit: a store that answers needs one second, or two when it is busy."""
STOP_S = 8.0
"""Time until the process exits in any case: less than the 10 s after which `docker stop` kills."""
SIGNALS = (signal.SIGTERM, signal.SIGINT)


class Stopping:
    """
    A context in which SIGTERM and SIGINT are recorded, with the time of the first.

    It must be entered on the main thread.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._asked_at: float | None = None
        self._signals, self._wakeup = socket.socketpair()
        self._wakeup.setblocking(False)
        self._before: dict[int, Any] = {}

    def __enter__(self) -> Self:
        for number in SIGNALS:
            self._before[number] = signal.signal(number, self._ask)
        # A main thread that is blocked in C runs no handler, but this socket is written to.
        signal.set_wakeup_fd(self._wakeup.fileno(), warn_on_full_buffer=False)
        threading.Thread(target=self._watch, name="stopping", daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        signal.set_wakeup_fd(-1)
        self._wakeup.close()
        for number, earlier in self._before.items():
            signal.signal(number, earlier)

    def is_asked(self) -> bool:
        """Whether the process was asked to stop."""
        return self._asked_at is not None

    def is_over(self) -> bool:
        """Whether it was asked to stop so long ago that a commit in doubt is abandoned."""
        asked_at = self._asked_at
        return asked_at is not None and self._clock.monotonic() - asked_at >= GIVE_UP_S

    def _ask(self, *_: object) -> None:
        if self._asked_at is None:
            self._asked_at = self._clock.monotonic()

    def _watch(self) -> None:
        """End the process at its deadline, or at a second signal."""
        if not self._wait_for_signal():
            return
        self._ask()
        self._signals.settimeout(STOP_S)
        try:
            if not self._wait_for_signal():
                return
            why = "asked to stop a second time"
        except TimeoutError:
            why = f"not done {STOP_S:g} s after it was asked to stop"
        line = (
            f"{why}: exits without giving up the lead; the next bastion waits until the lease is"
            " over\n"
        )
        with suppress(OSError):  # on a full disk it still exits
            os.write(2, line.encode())
        os._exit(1)

    def _wait_for_signal(self) -> bool:
        """Wait for one of `SIGNALS` within the socket's timeout; False once the context ends."""
        while received := self._signals.recv(1):
            if received[0] in SIGNALS:
                return True
        return False
