"""Which descriptors the keeper's loop waits for, and what it does when one is ready."""

from __future__ import annotations

import select

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable


class Poller:
    """An `epoll` and an act for each descriptor in it; standard library only."""

    def __init__(self) -> None:
        self._epoll = select.epoll()
        self._acts: dict[int, Callable[[], None]] = {}

    def watch(self, file: int, act: Callable[[], None], events: int = select.EPOLLIN) -> None:
        """
        Call `act` whenever `file` is ready.

        Raises:
            OSError: The machine has no room for another one.
        """
        self._epoll.register(file, events)
        self._acts[file] = act

    def unwatch(self, file: int) -> None:
        """Stop watching `file`; none that is not watched."""
        if self._acts.pop(file, None) is not None:
            self._epoll.unregister(file)

    def wait(self, timeout_s: float) -> None:
        """Wait until one is ready, for ever where `timeout_s` is negative, and act on all."""
        for file, _ in self._epoll.poll(timeout_s):
            # One act may end the watch over another.
            if file in self._acts:
                self._acts[file]()
