"""
Answers about periods, kept for a minute: one question is asked once, however many readers wait.

The record is asked by a program of its own, one at a time, with a deadline. While it is asked again
the old answer is shown; where it cannot be read, or is older than readers expect, its age is told.
A page waits for a first answer only as long as it is not noticed: then it is shown without, and
asks again.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor
from dataclasses import replace
from threading import Lock

from bastion.clock import Clock
from bastion.errors import BastionError
from bastion.value import value
from bastion.web.record.summary import Summary

KEPT_S = 60.0
OLD_S = 2 * KEPT_S
"""Age of an answer that is told while the record is asked anew."""
NEAR_S = 900.0
"""How far apart the ends of two periods may be of which one stands for the other meanwhile."""
WAIT_S = 0.05
"""How long a page waits for a first answer before it is shown without."""
RETRY_S = 10.0
"""A record that cannot be read is asked again after so long, however many readers wait."""
MOST_KEPT = 12
"""Periods that are kept: those that people look at, and what they zoomed to last."""

Ask = Callable[[float, float, int], Summary]
"""(since, until, parts) -> what happened; raises BastionError."""


@value
class Period:
    """What is asked about."""

    since: float
    until: float
    parts: int


@value
class Known:
    """The answer to a question, and what is wrong with it."""

    summary: Summary | None = None
    age_s: float = 0.0
    trouble: str = ""
    is_pending: bool = False
    """Whether the record is being asked, and there is nothing to show meanwhile."""
    is_old: bool = False
    """Whether it is being asked anew because this answer is older than a page may pass over."""
    answered_at: float = 0.0
    """When the record gave this summary, by the clock of the reader; none shares it with another
    of the same period."""


class RecordReader:
    """
    The record of one bucket.

    Args:
        ask: Asks it; takes seconds.
        clock: For ages.
        wait_s: How long `of` waits for a first answer.
    """

    def __init__(self, ask: Ask, clock: Clock, *, wait_s: float = WAIT_S) -> None:
        self._ask = ask
        self._clock = clock
        self._wait_s = wait_s
        self._lock = Lock()
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="record")
        self._wanted: OrderedDict[Period, Future[Known]] = OrderedDict()
        self._asking: tuple[Period, Future[Known]] | None = None
        self._trouble, self._failed_at = "", 0.0
        self._known: OrderedDict[Period, tuple[float, Summary]] = OrderedDict()

    def of(self, period: Period, *, wait_s: float | None = None) -> Known:
        """
        What happened in `period`.

        Where something is known of nearly the same period it is shown, and the record is asked
        meanwhile; else this waits `wait_s` for the answer, and says that it is pending.
        """
        fresh = self._known.get(period)
        if fresh is not None and self._age_s(fresh) < KEPT_S:
            return self._told(fresh)
        near, asked = self._near(period), self._asked_meanwhile(period)
        if near is not None:
            told = self._told(near, self._trouble)
            return replace(told, is_old=told.age_s > OLD_S and not told.trouble)
        try:
            return asked.result(self._wait_s if wait_s is None else wait_s)
        except (TimeoutError, CancelledError):
            return Known(is_pending=True)

    def close(self) -> None:
        """Ask no more."""
        self._thread.shutdown(wait=False, cancel_futures=True)

    def _near(self, period: Period) -> tuple[float, Summary] | None:
        """The newest answer about a period as long that ends at nearly the same time."""
        length = period.until - period.since
        found = [
            answer
            for known, answer in tuple(self._known.items())
            if known.parts == period.parts
            and abs(known.until - known.since - length) < 1.0
            and abs(known.until - period.until) <= NEAR_S
        ]
        return max(found, key=lambda answer: answer[1].until, default=None)

    def _asked_meanwhile(self, period: Period) -> Future[Known]:
        """The answer about `period` that is on its way; asked for now if it is not."""
        with self._lock:
            if self._asking is not None and self._asking[0] == period:
                return self._asking[1]
            if period not in self._wanted:
                self._wanted[period] = Future()
                self._thread.submit(self._answer_next)
            self._wanted.move_to_end(period)
            while len(self._wanted) > MOST_KEPT:
                self._wanted.popitem(last=False)[1].cancel()
            return self._wanted[period]

    def _answer_next(self) -> None:
        """Answer what was wanted last: readers who zoom on do not wait for what they have left."""
        with self._lock:
            if not self._wanted:
                return
            period, future = self._asking = self._wanted.popitem()
        try:
            future.set_result(self._asked(period))
        except BaseException as error:  # noqa: BLE001 - the reader who waits is told
            future.set_exception(error)
        finally:
            with self._lock:
                self._asking = None

    def _asked(self, period: Period) -> Known:
        known = self._known.get(period)
        if known is not None and self._age_s(known) < KEPT_S:  # asked for while it was answered
            return self._told(known)
        if self._trouble and self._clock.monotonic() - self._failed_at < RETRY_S:
            return Known(trouble=self._trouble)
        try:
            summary = self._ask(period.since, period.until, period.parts)
        except BastionError as error:
            self._trouble, self._failed_at = error.message, self._clock.monotonic()
            return Known(trouble=error.message)
        self._trouble = ""
        self._known[period] = answer = (self._clock.monotonic(), summary)
        self._known.move_to_end(period)
        while len(self._known) > MOST_KEPT:
            self._known.popitem(last=False)
        return self._told(answer)

    def _told(self, answer: tuple[float, Summary], trouble: str = "") -> Known:
        at, summary = answer
        age_s = self._clock.monotonic() - at
        return Known(summary=summary, age_s=age_s, trouble=trouble, answered_at=at)

    def _age_s(self, answer: tuple[float, Summary]) -> float:
        return self._clock.monotonic() - answer[0]
