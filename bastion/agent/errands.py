"""
Errands: outside calls that are under way, and what is done on the agent's own thread after each.

Callers are level-triggered: they `send` the same errand at every turn until it has succeeded. While
it is under way, or waits for another try, that does nothing. A `StoreError` is never told to the
caller: it only makes the next try wait, and is logged once, not thousands of times.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from bastion.errors import StoreError
from bastion.lane import Lane

_T = TypeVar("_T")

_FIRST_RETRY_S = 0.1


class Errands:
    """
    The outside calls of one agent.

    Args:
        lane: Where they are made.
        retry_s: Longest pause between two tries.
        say: Takes one line for the agent's log.
    """

    def __init__(self, lane: Lane, *, retry_s: float, say: Callable[[str], None]) -> None:
        self._lane = lane
        self._retry_s = retry_s
        self._say = say
        self._then: dict[str, tuple[Callable[[Any], None], Callable[[Exception], None]]] = {}
        self._failed: dict[str, tuple[float, float]] = {}
        self._out_since: float | None = None
        self.sent = 0
        """How many were sent so far: a turn that sent one did something."""

    @property
    def under_way(self) -> bool:
        """Whether anything is."""
        return bool(self._then)

    def is_free(self, key: str, now: float) -> bool:
        """Whether `send` of `key` would do something."""
        if key in self._then:
            return False
        failed = self._failed.get(key)
        return failed is None or now >= failed[0]

    def send(
        self,
        key: str,
        work: Callable[[], _T],
        then: Callable[[_T], None],
        *,
        now: float,
        otherwise: Callable[[Exception], None] | None = None,
    ) -> None:
        """
        Do `work` in the lane and hand its result to `then` at a later turn.

        Args:
            key: One errand of a key is under way at a time.
            work: The call; it runs on another thread.
            then: Runs on the agent's thread.
            now: The agent's clock.
            otherwise: Gets what `work` raised and is no `StoreError`; without it, it is raised.
        """
        if not self.is_free(key, now):
            return
        self._then[key] = then, otherwise or _raise
        self.sent += 1
        self._lane.submit(key, work)

    def collect(self, now: float) -> bool:
        """Run what follows every errand that ended; tell whether one succeeded."""
        moved = False
        for done in self._lane.collect():
            then, otherwise = self._then.pop(done.key)
            if isinstance(done.error, StoreError):
                self._fail(done.key, done.error, now)
                continue
            self._failed.pop(done.key, None)
            self._reached(now)
            moved = True
            if done.error is not None:
                otherwise(done.error)
            else:
                then(done.result)
        return moved

    def wait(self, timeout_s: float) -> None:
        """Wait for an errand to end, `timeout_s` at most."""
        self._lane.wait(timeout_s)

    def _fail(self, key: str, error: StoreError, now: float) -> None:
        if self._out_since is None:
            self._out_since = now
            self._say(f"the store is out of reach, trying again: {error}")
        _, pause_s = self._failed.get(key, (0.0, _FIRST_RETRY_S / 2))
        pause_s = min(2 * pause_s, self._retry_s)
        self._failed[key] = now + pause_s, pause_s

    def _reached(self, now: float) -> None:
        if self._out_since is not None and not self._failed:
            self._say(f"the store answers again after {now - self._out_since:.1f} s")
            self._out_since = None


def _raise(error: Exception) -> None:
    raise error
