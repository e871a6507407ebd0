"""
The date by a store's own clock, as its answers tell it.

How old something in a bucket is may not be judged by the clock of the machine that reads it: a
laptop whose clock is minutes off would call a healthy bastion silent. Every answer of a server
bears the date, so knowing it costs no request. A folder is written by this machine's clock.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, runtime_checkable

from bastion.clock import Clock, SystemClock
from bastion.store.port import ObjectStore

_CLOCK = SystemClock()
"""The clock for the time since an answer of a real server; no simulation has any."""


@runtime_checkable
class Dated(Protocol):
    """A store with a clock of its own."""

    def date(self) -> float | None:
        """Seconds since 1970 by the store's clock; None while no answer has told it."""
        ...


class AnswerDate:
    """The date as the last answer of a server told it, plus the time since."""

    def __init__(self) -> None:
        self._heard: tuple[str, float] | None = None

    def hear(self, header: str | None) -> None:
        """Take the header `Date` of an answer that has just begun; None: it has none."""
        if header:
            self._heard = header, _CLOCK.monotonic()

    def now(self) -> float | None:
        """Seconds since 1970 by the server's clock, to a second; None while nothing told it."""
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
    Return what tells the date by the clock of `store`, in seconds since 1970.

    Where the store tells none, as a folder or a server before its first answer, it is `clock`'s.
    """

    def date() -> float:
        told = store.date() if isinstance(store, Dated) else None
        return clock.wall() if told is None else told

    return date
