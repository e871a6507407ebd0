"""
Lanes: where slow outside calls are made, so that none of them delays the loop that asked for it.

A loop submits work under a key, goes on, and collects what is done at its next turn, in sorted
order. Work of a key that is still in flight is not started again. A lane is bounded: what does not
fit waits its turn. In simulation the lane is `InlineLane` and the work is done where it is
submitted.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from queue import SimpleQueue
from typing import Protocol

from bastion.value import value


@value
class Done:
    """Work that ended: `result` is what it returned, `error` what it raised."""

    key: str
    result: object = None
    error: Exception | None = None


class Lane(Protocol):
    """Where outside calls are made."""

    def submit(self, key: str, work: Callable[[], object]) -> None:
        """Do `work` soon, unless work of the same key is in flight."""
        ...

    def collect(self) -> tuple[Done, ...]:
        """What ended since the last call, sorted by key."""
        ...

    def wait(self, timeout_s: float) -> None:
        """Return when something can be collected, at once when nothing is in flight."""
        ...

    def settle(self, timeout_s: float) -> None:
        """Return when nothing is in flight any more."""
        ...

    def close(self) -> None:
        """Take no more work and forget what has not begun."""
        ...


class InlineLane:
    """Does the work where it is submitted; what is no `Exception` (a crash) passes through."""

    def __init__(self) -> None:
        self._done: list[Done] = []

    def submit(self, key: str, work: Callable[[], object]) -> None:
        """Do `work` now."""
        try:
            self._done.append(Done(key=key, result=work()))
        except Exception as error:  # noqa: BLE001 - the submitter decides what an error means
            self._done.append(Done(key=key, error=error))

    def collect(self) -> tuple[Done, ...]:
        """What was submitted since the last call."""
        done, self._done = self._done, []
        return tuple(sorted(done, key=lambda one: one.key))

    def wait(self, timeout_s: float) -> None:
        """Return at once: nothing is ever in flight."""

    def settle(self, timeout_s: float) -> None:
        """Return at once: nothing is ever in flight."""

    def close(self) -> None:
        """Forget what was not collected."""
        self._done = []


class ThreadLane:
    """
    Does the work on at most `workers` threads of its own.

    A plain queue and not `concurrent.futures`: a lane is asked thousands of times a second, and a
    future costs more than most of the work that is done here.
    """

    def __init__(self, name: str, *, workers: int) -> None:
        self._name = name
        self._workers = workers
        self._started = 0
        self._changed = threading.Condition()
        self._queue: SimpleQueue[tuple[str, Callable[[], object]] | None] = SimpleQueue()
        self._in_flight: set[str] = set()
        self._done: list[Done] = []
        self._is_closed = False

    def submit(self, key: str, work: Callable[[], object]) -> None:
        """Hand `work` to a thread."""
        with self._changed:
            if key in self._in_flight or self._is_closed:
                return
            self._in_flight.add(key)
            needs_thread = self._started < min(self._workers, len(self._in_flight))
            self._started += needs_thread
        self._queue.put((key, work))
        if needs_thread:
            threading.Thread(target=self._serve, name=self._name, daemon=True).start()

    def collect(self) -> tuple[Done, ...]:
        """What ended since the last call, sorted by key."""
        with self._changed:
            done, self._done = self._done, []
        return tuple(sorted(done, key=lambda one: one.key))

    def wait(self, timeout_s: float) -> None:
        """Wait for one piece of work to end, `timeout_s` at most."""
        with self._changed:
            self._changed.wait_for(lambda: self._done or not self._in_flight, timeout_s)

    def settle(self, timeout_s: float) -> None:
        """Wait for all work to end, `timeout_s` at most."""
        with self._changed:
            self._changed.wait_for(lambda: not self._in_flight, timeout_s)

    def close(self) -> None:
        """Start nothing more; what hangs is left to its own deadline."""
        self._is_closed = True
        self._queue.put(None)

    def _serve(self) -> None:
        while (asked := self._queue.get()) is not None:
            key, work = asked
            if self._is_closed:
                continue
            try:
                done = Done(key=key, result=work())
            except Exception as error:  # noqa: BLE001 - the submitter decides what an error means
                done = Done(key=key, error=error)
            with self._changed:
                self._in_flight.discard(key)
                self._done.append(done)
                self._changed.notify_all()
        self._queue.put(None)
