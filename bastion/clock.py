"""
Time for everything above the core: a `Clock` that is passed in.

`monotonic` measures durations on one machine and has no meaning elsewhere. `wall` is the date of
this machine: it is for names (ULIDs) and must never be compared with another machine's. Commits
carry the store's time (see `bastion.records.root`).
"""

from __future__ import annotations

import sys
import time
from typing import Protocol

if sys.platform == "linux":
    _WITH_SLEEP = time.CLOCK_BOOTTIME
else:
    _WITH_SLEEP = time.CLOCK_MONOTONIC
"""
The clock that counts suspended time; on Linux, CLOCK_MONOTONIC stands still in that time.

Source: clock_gettime(2) of Linux, clock_gettime(3) of macOS.
"""


class Clock(Protocol):
    """The clock of a loop."""

    def wall(self) -> float:
        """Seconds since 1970 by this machine's date; for names only."""
        ...

    def monotonic(self) -> float:
        """Seconds since an arbitrary point; never goes back, and includes suspended time."""
        ...

    def sleep(self, seconds: float) -> None:
        """Return after `seconds` or later."""
        ...


class SystemClock:
    """The system clock."""

    def wall(self) -> float:
        """Return the seconds since 1970."""
        return time.time()

    def monotonic(self) -> float:
        """
        Return the seconds since boot, including suspended time.

        A lease or a permit must not stand still while a paused virtual machine sleeps.
        """
        return time.clock_gettime(_WITH_SLEEP)

    def sleep(self, seconds: float) -> None:
        """Sleep for `seconds` of real time."""
        time.sleep(max(0.0, seconds))


class VirtualClock:
    """A clock that stands still; `sleep` and `advance` move it."""

    def __init__(self, *, wall: float = 1_700_000_000.0, monotonic: float = 1_000.0) -> None:
        self._wall = wall
        self._monotonic = monotonic

    def wall(self) -> float:
        """Return the date that it was set to, plus the time that has passed."""
        return self._wall

    def monotonic(self) -> float:
        """Return the virtual seconds."""
        return self._monotonic

    def sleep(self, seconds: float) -> None:
        """Advance by `seconds` immediately."""
        self.advance(max(0.0, seconds))

    def advance(self, seconds: float) -> None:
        """Move `wall` and `monotonic` forward by `seconds` (never back)."""
        if seconds < 0:
            raise ValueError(f"a clock cannot go back: advance({seconds})")
        self._wall += seconds
        self._monotonic += seconds
