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
from concurrent.futures import Future, ThreadPoolExecutor
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
    """Does the work on at most `workers` threads of its own."""

    def __init__(self, name: str, *, workers: int) -> None:
        self._pool = ThreadPoolExecutor(max_workers=workers, thread_name_prefix=name)
        self._changed = threading.Condition()
        self._in_flight: set[str] = set()
        self._done: list[Done] = []

    def submit(self, key: str, work: Callable[[], object]) -> None:
        """Hand `work` to a thread."""
        with self._changed:
            if key in self._in_flight:
                return
            self._in_flight.add(key)
        future = self._pool.submit(work)
        future.add_done_callback(lambda ended: self._end(key, ended))

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
        self._pool.shutdown(wait=False, cancel_futures=True)

    def _end(self, key: str, ended: Future[object]) -> None:
        if ended.cancelled():
            return
        error = ended.exception()
        if error is not None and not isinstance(error, Exception):
            raise error
        with self._changed:
            self._in_flight.discard(key)
            self._done.append(Done(key=key, result=None if error else ended.result(), error=error))
            self._changed.notify_all()
