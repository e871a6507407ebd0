"""
Answers about periods, cached for a minute: a question is asked once for all waiting readers.

A separate process queries the record, one question at a time, with a deadline. During a new query
the old answer is shown. If the record cannot be read, or the answer is older than readers expect,
its age is shown. A page waits for a first answer only for an unnoticeable time: then it is shown
without it, and asks again.
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
from bastion.web.record.question import Period
from bastion.web.record.summary import Summary

KEPT_S = 60.0
OLD_S = 2 * KEPT_S
"""Age from which an answer's age is shown while the record is queried again."""
NEAR_S = 900.0
"""How far apart the ends of two periods may be if one replaces the other temporarily."""
WAIT_S = 0.05
"""How long a page waits for a first answer before it is shown without."""
RETRY_S = 10.0
"""Time after which an unreadable record is queried again, for any number of readers."""
MOST_KEPT = 12
"""Cached periods: those that people look at, and what they zoomed to last."""

Ask = Callable[[Period], Summary]
"""Returns what happened; raises BastionError."""


@value
class Known:
    """The answer to a question, and what is wrong with it."""

    summary: Summary | None = None
    age_s: float = 0.0
    trouble: str = ""
    is_pending: bool = False
    """Whether the record is being queried, and there is nothing to show yet."""
    is_old: bool = False
    """Whether it is being queried again because this answer is too old for a page to ignore."""
    answered_at: float = 0.0
    """
    When the record gave this summary, by the clock of the reader; unique among the summaries of the
    same period.
    """


class RecordReader:
    """
    The record of one bucket.

    Args:
        ask: Queries it; takes seconds.
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
        Return what happened in `period`.

        If an answer about nearly the same period is known, it is shown, and the record is queried
        in the background. Otherwise this waits `wait_s` for the answer, and then says that it is
        pending.
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
        """Stop querying."""
        self._thread.shutdown(wait=False, cancel_futures=True)

    def _near(self, period: Period) -> tuple[float, Summary] | None:
        """
        Return the newest answer about a period with nearly the same end and the same length.

        A month that is not over has the same beginning instead. A period of one part is any that a
        reader chose: its length must not differ.
        """
        length = period.until - period.since
        found = [
            answer
            for known, answer in tuple(self._known.items())
            if (known.parts, known.listed) == (period.parts, period.listed)
            and (
                abs(known.until - known.since - length) < 1.0
                or (known.since == period.since and period.parts > 1)
            )
            and abs(known.until - period.until) <= NEAR_S
        ]
        return max(found, key=lambda answer: answer[1].until, default=None)

    def _asked_meanwhile(self, period: Period) -> Future[Known]:
        """Return the pending answer about `period`, which is requested now if it is not pending."""
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
        """Answer the latest request: readers who zoom do not wait for what they have left."""
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
        if known is not None and self._age_s(known) < KEPT_S:  # requested while it was answered
            return self._told(known)
        if self._trouble and self._clock.monotonic() - self._failed_at < RETRY_S:
            return Known(trouble=self._trouble)
        try:
            summary = self._ask(period)
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
