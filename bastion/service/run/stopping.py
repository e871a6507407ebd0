"""
Stopping in time: what SIGTERM and SIGINT ask for, and the deadline that no store can hold up.

A stop has two deadlines. After `GIVE_UP_S` a commit that is still in doubt is given up, and the
process ends by itself. After `STOP_S`, or at a second signal, the process ends where it stands: the
main thread may hang in a read that no flag reaches. Nothing is lost by that: a bastion may be
killed at any moment, and the next one waits until the lease is over.
"""

from __future__ import annotations

import os
import signal
import socket
import threading
from typing import Any, Self

from bastion.clock import Clock

GIVE_UP_S = 5.0
"""For the last commit: a store that answers needs one second of it, or two when it is busy."""
STOP_S = 8.0
"""Until the process ends whatever it does: less than the 10 s after which `docker stop` kills."""
SIGNALS = (signal.SIGTERM, signal.SIGINT)


class Stopping:
    """
    Whether SIGTERM or SIGINT came, and since when.

    It holds from `with` to its end, on the main thread.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._asked_at: float | None = None
        self._ear, self._mouth = socket.socketpair()
        self._mouth.setblocking(False)
        self._before: dict[int, Any] = {}

    def __enter__(self) -> Self:
        for number in SIGNALS:
            self._before[number] = signal.signal(number, self._ask)
        # A main thread that is blocked in C runs no handler. This is written to all the same.
        signal.set_wakeup_fd(self._mouth.fileno(), warn_on_full_buffer=False)
        threading.Thread(target=self._watch, name="stopping", daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        signal.set_wakeup_fd(-1)
        self._mouth.close()
        for number, earlier in self._before.items():
            signal.signal(number, earlier)

    def is_asked(self) -> bool:
        """Whether the process was told to stop."""
        return self._asked_at is not None

    def is_over(self) -> bool:
        """Whether it was told to stop so long ago that a commit in doubt is given up."""
        asked_at = self._asked_at
        return asked_at is not None and self._clock.monotonic() - asked_at >= GIVE_UP_S

    def _ask(self, *_: object) -> None:
        if self._asked_at is None:
            self._asked_at = self._clock.monotonic()

    def _watch(self) -> None:
        """End the process at its deadline, or at a second signal."""
        if not self._hears():
            return
        self._ask()
        self._ear.settimeout(STOP_S)
        try:
            if not self._hears():
                return
            why = "told to stop a second time"
        except TimeoutError:
            why = f"not done {STOP_S:g} s after it was told to stop"
        line = f"{why}: ends without giving up the lead; another bastion waits out the lease\n"
        os.write(2, line.encode())
        os._exit(1)

    def _hears(self) -> bool:
        """Wait for one of `SIGNALS`, as long as the socket waits; False when there is no use."""
        while heard := self._ear.recv(1):
            if heard[0] in SIGNALS:
                return True
        return False
