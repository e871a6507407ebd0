"""
Lanes: queues with a few threads for slow outside calls, so that no call delays its loop.

A loop submits work under a key, continues, and collects finished work in its next turn, in sorted
order. Work under a key that is still in flight is not started again. A lane has a limited number of
threads, and other work waits. A simulation uses `InlineLane`, which does the work in `submit`.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Collection
from queue import SimpleQueue
from typing import Protocol

from bastion.errors import StoreError
from bastion.value import value

_NO_THREAD = "no thread can be started: this machine is short of memory, or allows no more"


@value
class Done:
    """Finished work: `result` is what it returned, `error` what it raised."""

    key: str
    result: object = None
    error: Exception | None = None


class Lane(Protocol):
    """A place to make outside calls."""

    def submit(self, key: str, work: Callable[[], object], *, is_urgent: bool = False) -> None:
        """
        Do `work` soon, unless work with the same key is in flight.

        Urgent work starts before all waiting work that is not urgent.
        """
        ...

    def collect(self) -> tuple[Done, ...]:
        """Return the work that finished since the last call, sorted by key."""
        ...

    def has_failed(self) -> bool:
        """Whether work that raised an error can be collected."""
        ...

    def has_work(self) -> bool:
        """Whether anything is in flight or can be collected."""
        ...

    def wait(self, timeout_s: float) -> None:
        """Wait until something can be collected, or nothing is in flight."""
        ...

    def settle(self, timeout_s: float, *, keys: Collection[str] | None = None) -> None:
        """Wait until nothing is in flight, or no work with these `keys`."""
        ...

    def close(self) -> None:
        """Accept no more work, and drop what has not started."""
        ...


class InlineLane:
    """Does the work in `submit`. It catches only `Exception`: a simulated crash passes through."""

    def __init__(self) -> None:
        self._done: list[Done] = []

    def submit(self, key: str, work: Callable[[], object], *, is_urgent: bool = False) -> None:
        """Do `work` now, urgent or not."""
        del is_urgent
        try:
            self._done.append(Done(key=key, result=work()))
        except Exception as error:  # noqa: BLE001 - the submitter decides what an error means
            self._done.append(Done(key=key, error=error))

    def collect(self) -> tuple[Done, ...]:
        """Return the work that was submitted since the last call."""
        done, self._done = self._done, []
        return tuple(sorted(done, key=lambda one: one.key))

    def has_failed(self) -> bool:
        """Whether work that raised an error can be collected."""
        return any(done.error is not None for done in self._done)

    def has_work(self) -> bool:
        """Whether anything can be collected."""
        return bool(self._done)

    def wait(self, timeout_s: float) -> None:
        """Return immediately: nothing is ever in flight."""

    def settle(self, timeout_s: float, *, keys: Collection[str] | None = None) -> None:
        """Return immediately: nothing is ever in flight."""

    def close(self) -> None:
        """Drop what was not collected."""
        self._done = []


class ThreadLane:
    """
    Does the work on at most `workers` threads of its own.

    It is a plain queue instead of `concurrent.futures`: a lane gets thousands of calls per second,
    and a future costs more than most of the work here.
    """

    def __init__(self, name: str, *, workers: int) -> None:
        self._name = name
        self._workers = workers
        self._started = 0
        self._changed = threading.Condition()
        self._queue: SimpleQueue[bool] = SimpleQueue()
        """One True for each waiting piece of work; False ends a thread."""
        self._urgent: deque[tuple[str, Callable[[], object]]] = deque()
        self._other: deque[tuple[str, Callable[[], object]]] = deque()
        self._in_flight: set[str] = set()
        self._done: list[Done] = []
        self._is_closed = False

    def submit(self, key: str, work: Callable[[], object], *, is_urgent: bool = False) -> None:
        """Hand `work` to a thread."""
        with self._changed:
            if key in self._in_flight or self._is_closed:
                return
            self._in_flight.add(key)
            needs_thread = self._started < min(self._workers, len(self._in_flight))
            self._started += needs_thread
            (self._urgent if is_urgent else self._other).append((key, work))
            self._queue.put(True)
        if needs_thread:
            try:
                threading.Thread(target=self._serve, name=self._name, daemon=True).start()
            except (RuntimeError, MemoryError):
                self._miss_thread()

    def _miss_thread(self) -> None:
        """
        Continue with the existing threads; if there are none, all waiting work fails.

        It fails like a call that the store did not answer: its submitter tries again and does not
        blame the work. The next work requests a thread again.
        """
        with self._changed:
            self._started -= 1
            if self._started:
                return
            for key, _ in (*self._urgent, *self._other):
                self._queue.get()
                self._in_flight.discard(key)
                self._done.append(Done(key=key, error=StoreError(_NO_THREAD)))
            self._urgent.clear()
            self._other.clear()
            self._changed.notify_all()

    def collect(self) -> tuple[Done, ...]:
        """Return the work that finished since the last call, sorted by key."""
        with self._changed:
            done, self._done = self._done, []
        return tuple(sorted(done, key=lambda one: one.key))

    def has_failed(self) -> bool:
        """Whether work that raised an error can be collected."""
        with self._changed:
            return any(done.error is not None for done in self._done)

    def has_work(self) -> bool:
        """Whether anything is in flight or can be collected."""
        with self._changed:
            return bool(self._in_flight or self._done)

    def wait(self, timeout_s: float) -> None:
        """Wait at most `timeout_s` for one piece of work to finish."""
        with self._changed:
            self._changed.wait_for(lambda: self._done or not self._in_flight, timeout_s)

    def settle(self, timeout_s: float, *, keys: Collection[str] | None = None) -> None:
        """Wait at most `timeout_s` for all work, or that of `keys`, to finish."""
        with self._changed:
            awaited = self._in_flight if keys is None else set(keys)
            self._changed.wait_for(lambda: not (self._in_flight & awaited), timeout_s)

    def close(self) -> None:
        """Start no more work; a call in flight runs until its own deadline."""
        self._is_closed = True
        self._queue.put(False)

    def _serve(self) -> None:
        while self._queue.get():
            with self._changed:
                key, work = (self._urgent or self._other).popleft()
            if self._is_closed:
                with self._changed:
                    self._in_flight.discard(key)
                    self._changed.notify_all()
                continue
            try:
                done = Done(key=key, result=work())
            except Exception as error:  # noqa: BLE001 - the submitter decides what an error means
                done = Done(key=key, error=error)
            with self._changed:
                self._in_flight.discard(key)
                self._done.append(done)
                self._changed.notify_all()
        self._queue.put(False)
