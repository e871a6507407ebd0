"""
Time, as everything above the core receives it: an object handed in, never a module read.

`monotonic` carries durations on one machine and means nothing elsewhere. `wall` is this machine's
opinion of the date: it may name things (ULIDs) and may never be compared with another machine's.
What is committed is the store's time (see `bastion.records.root`).
"""

from __future__ import annotations

import time
from typing import Protocol


class Clock(Protocol):
    """The three things a loop may ask of time."""

    def wall(self) -> float:
        """Seconds since 1970 in this machine's opinion; for names only."""
        ...

    def monotonic(self) -> float:
        """Seconds since an arbitrary point; never goes back, goes on while the machine sleeps."""
        ...

    def sleep(self, seconds: float) -> None:
        """Return after `seconds` or later."""
        ...


class SystemClock:
    """The machine's own clock."""

    def wall(self) -> float:
        """Seconds since 1970."""
        return time.time()

    def monotonic(self) -> float:
        """
        Seconds since boot, suspended time included.

        CLOCK_BOOTTIME and not CLOCK_MONOTONIC: a lease or a permit must not stand still while a
        paused virtual machine sleeps.
        """
        return time.clock_gettime(time.CLOCK_BOOTTIME)

    def sleep(self, seconds: float) -> None:
        """Sleep on the machine's own clock."""
        time.sleep(max(0.0, seconds))


class VirtualClock:
    """A clock that stands still until told to move; `sleep` moves it."""

    def __init__(self, *, wall: float = 1_700_000_000.0, monotonic: float = 1_000.0) -> None:
        self._wall = wall
        self._monotonic = monotonic

    def wall(self) -> float:
        """The date it was set to, plus what has passed."""
        return self._wall

    def monotonic(self) -> float:
        """Virtual seconds."""
        return self._monotonic

    def sleep(self, seconds: float) -> None:
        """Pass `seconds` at once."""
        self.advance(max(0.0, seconds))

    def advance(self, seconds: float) -> None:
        """Move both faces of the clock forward by `seconds` (never back)."""
        if seconds < 0:
            raise ValueError(f"a clock cannot go back: advance({seconds})")
        self._wall += seconds
        self._monotonic += seconds
