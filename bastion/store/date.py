"""
The date by a store's own clock, from its answers.

The age of an object in a bucket must not be judged by the clock of the machine that reads it: a
laptop whose clock is minutes off would call a healthy bastion silent. Every answer of a server has
the date, so reading it costs no request. In a folder the kernel stamps each file that is written:
a program whose own clock is off writes the same times, and sees the same ages, as all others.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from typing import Protocol, runtime_checkable

from bastion.clock import Clock, SystemClock
from bastion.store.port import ObjectStore

_CLOCK = SystemClock()
"""The clock for the time since a real server's answer; no simulation has one."""
_SAME_NS = 1_000_000_000
"""
Times closer than this are by one clock. The clock of this process is finer: a kernel stamps files
with the time of its last tick.
"""
_UNNAMED: int | None = None
"""Opens a new file without a name, which is no news for those that watch the folder; Linux only."""
if sys.platform == "linux":
    _UNNAMED = os.O_TMPFILE


@runtime_checkable
class Dated(Protocol):
    """A store with a clock of its own."""

    def date(self) -> float | None:
        """Return seconds since 1970 by the store's clock; None before its first answer."""
        ...


class AnswerDate:
    """The date in a server's last answer, plus the time since."""

    def __init__(self) -> None:
        self._heard: tuple[str, float] | None = None

    def hear(self, header: str | None) -> None:
        """Take the header `Date` of an answer that has just started; None if it has none."""
        if header:
            self._heard = header, _CLOCK.monotonic()

    def now(self) -> float | None:
        """Return seconds since 1970 by the server's clock, to a second; None while unknown."""
        from email.utils import parsedate_to_datetime

        if self._heard is None:
            return None
        header, at = self._heard
        try:
            told = parsedate_to_datetime(header).timestamp()
        except (ValueError, OverflowError):
            return None
        return told + _CLOCK.monotonic() - at


class FolderDate:
    """
    The date of a folder, by the clock that stamps its files.

    Args:
        temps: The folder of temporary files.
        own: The clock of this process.
        is_own: Whether that is also the folder's, for tests.
    """

    def __init__(self, temps: str, own: Clock, *, is_own: bool) -> None:
        self._temps = temps
        self._own = own
        self._is_own = is_own

    def now_ns(self, handle: int) -> int:
        """Return the time just after a write to the file `handle`, in nanoseconds since 1970."""
        ours_ns = int(self._own.wall() * 1e9)
        if self._is_own:
            return ours_ns
        files_ns = os.fstat(handle).st_mtime_ns
        return ours_ns if abs(ours_ns - files_ns) < _SAME_NS else files_ns

    def date(self) -> float | None:
        """Return seconds since 1970; None for a user who may not write here."""
        if self._is_own:
            return self._own.wall()
        if _UNNAMED is None:
            return None
        try:
            handle = os.open(self._temps, _UNNAMED | os.O_WRONLY, 0o600)
        except OSError:
            return None
        try:
            return os.fstat(handle).st_mtime
        finally:
            os.close(handle)


def date_of(store: ObjectStore, clock: Clock) -> Callable[[], float]:
    """
    Return a function for the date by the clock of `store`, in seconds since 1970.

    If the store has no date, such as a server before its first answer or a folder that this user
    may not write to, it uses `clock`.
    """

    def date() -> float:
        told = store.date() if isinstance(store, Dated) else None
        return clock.wall() if told is None else told

    return date
