"""
The date by a store's own clock, from its answers.

The age of an object in a bucket must not be judged by the clock of the machine that reads it: a
laptop whose clock is minutes off would call a healthy bastion silent. Every answer of a server has
the date, so reading it costs no request. In a folder the kernel stamps a new file with its date.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, runtime_checkable

from bastion.clock import Clock, SystemClock
from bastion.store.port import ObjectStore

_CLOCK = SystemClock()
"""The clock for the time since a real server's answer; no simulation has one."""


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
