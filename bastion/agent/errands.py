"""
Errands: calls that the agent makes on other threads, with continuations on its own thread.

Callers are level-triggered: they `send` the same errand at every turn until it has succeeded. While
it runs or waits for a retry, `send` does nothing. A `StoreError` does not reach the caller: it only
delays the next try, and is logged once.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from bastion.errors import StoreError
from bastion.lane import Lane
from bastion.value import value

_T = TypeVar("_T")

_FIRST_RETRY_S = 0.1


@value
class LongLanes:
    """
    Lanes for work that takes longer than calls to the store, by kind.

    An image that is pulled for an hour must not delay the outputs of a preempted host, nor the
    check for a notice of half a minute.
    """

    slow: Lane
    """For work that may take an hour: set-ups, upgrades, checks that an admin requests."""
    looks: Lane
    """For looks at the machine, and at its cloud's announcements."""
    other: Lane
    """For work that takes minutes: saving outputs, cleaning."""


class _Errand:
    __slots__ = ("is_long", "is_look", "otherwise", "then", "wanted_by")

    def __init__(
        self,
        then: Callable[[Any], None],
        otherwise: Callable[[Exception], None],
        *,
        is_long: bool,
        is_look: bool,
    ) -> None:
        self.then = then
        self.otherwise = otherwise
        self.is_long = is_long
        self.is_look = is_look
        self.wanted_by: frozenset[Callable[[], bool]] = frozenset()


class Errands:
    """
    The outside calls of one agent.

    Args:
        lane: Makes calls that take no longer than the store does.
        long_lane: Does work that may take minutes, so that no call waits behind it; by kind, or all
            of it.
        retry_s: Longest pause between two tries.
        say: Writes one line to the agent's log.
        look_lane: Makes the polls; None: `lane`. A look into a folder is finished before a thread
            would have started, while a write waits for the disk.
    """

    def __init__(
        self,
        lane: Lane,
        long_lane: Lane | LongLanes,
        *,
        retry_s: float,
        say: Callable[[str], None],
        look_lane: Lane | None = None,
    ) -> None:
        self._lane = lane
        self._look_lane = look_lane or lane
        if not isinstance(long_lane, LongLanes):
            long_lane = LongLanes(slow=long_lane, looks=long_lane, other=long_lane)
        self._long = long_lane
        long_lanes = (long_lane.slow, long_lane.looks, long_lane.other)
        self._lanes = tuple(dict.fromkeys((lane, *long_lanes, self._look_lane)))
        self._retry_s = retry_s
        self._say = say
        self._then: dict[str, _Errand] = {}
        self._failed: dict[str, tuple[float, float]] = {}
        self._troubles: dict[str, str] = {}
        self._out_since: float | None = None
        self.sent = 0
        """How many errands were sent so far, without polls."""

    def is_free(self, key: str, now: float) -> bool:
        """Whether `send` of `key` would start the errand."""
        if key in self._then:
            return False
        failed = self._failed.get(key)
        return failed is None or now >= failed[0]

    def is_wanted(self, key: str) -> bool:
        """Whether a sender of the errand `key` still waits for it; called on its thread."""
        errand = self._then.get(key)
        return errand is None or any(waits() for waits in errand.wanted_by)

    def trouble(self, key: str) -> str:
        """Return why the store refused the errand `key` at its last try; empty if it did not."""
        return self._troubles.get(key, "")

    def send(
        self,
        key: str,
        work: Callable[[], _T],
        then: Callable[[_T], None],
        *,
        now: float,
        otherwise: Callable[[Exception], None] | None = None,
        is_slow: bool = False,
        is_long: bool = False,
        is_look: bool = False,
        waits: Callable[[], bool] | None = None,
    ) -> None:
        """
        Do `work` in a lane and pass its result to `then` when it is collected.

        Args:
            key: Only one errand per key runs at a time.
            work: The call; it runs on another thread.
            then: Runs on the agent's thread.
            now: The agent's clock.
            otherwise: Gets an exception of `work` other than `StoreError`; without it, it is
                raised.
            is_slow: It may take an hour.
            is_long: It may take minutes.
            is_look: It is a poll, which mostly finds nothing new.
            waits: Whether this sender still waits for it, for `is_wanted`; one of the senders where
                several send the same errand.
        """
        wanted_by = frozenset([waits] if waits else ())
        if key in self._then:
            self._then[key].wanted_by |= wanted_by
        if not self.is_free(key, now):
            return
        has_long = is_long or is_slow
        self._then[key] = _Errand(then, otherwise or _raise, is_long=has_long, is_look=is_look)
        self._then[key].wanted_by = wanted_by
        self.sent += not is_look
        if is_slow:
            lane = self._long.slow
        elif is_long:
            lane = self._long.looks if is_look else self._long.other
        else:
            lane = self._look_lane if is_look else self._lane
        lane.submit(key, work)

    def collect(self, now: float) -> bool:
        """
        Run the continuation of every errand that ended; return whether one succeeded, without
        polls.
        """
        moved = False
        for done in (done for lane in self._lanes for done in lane.collect()):
            errand = self._then.pop(done.key)
            if isinstance(done.error, StoreError):
                self._fail(done.key, done.error, now)
                continue
            self._failed.pop(done.key, None)
            self._troubles.pop(done.key, None)
            self._reached(now)
            moved |= not errand.is_look
            if done.error is not None:
                errand.otherwise(done.error)
            else:
                errand.then(done.result)
        return moved

    def is_calling(self) -> bool:
        """Whether a call is running, excluding long ones."""
        return any(not errand.is_long for errand in self._then.values())

    def _fail(self, key: str, error: StoreError, now: float) -> None:
        if self._out_since is None:
            self._out_since = now
            self._say(f"the store is out of reach, trying again: {error}")
        _, pause_s = self._failed.get(key, (0.0, _FIRST_RETRY_S / 2))
        pause_s = min(2 * pause_s, self._retry_s)
        self._failed[key] = now + pause_s, pause_s
        self._troubles[key] = str(error)

    def _reached(self, now: float) -> None:
        if self._out_since is None:
            return
        if not any(
            self._is_away(key, again_at, now) for key, (again_at, _) in self._failed.items()
        ):
            self._say(f"the store answers again after {now - self._out_since:.1f} s")
            self._out_since = None

    def _is_away(self, key: str, again_at: float, now: float) -> bool:
        """
        Whether a failed errand waits for its next try, or is being retried.

        An errand that is not sent again says nothing about the store.
        """
        trying = self._then.get(key)
        return now < again_at + self._retry_s or (trying is not None and not trying.is_long)


def _raise(error: Exception) -> None:
    raise error
