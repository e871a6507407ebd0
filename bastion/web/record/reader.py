"""
Answers about periods, kept for a minute: one question is asked once, however many readers wait.

The record is asked by a program of its own, one at a time, with a deadline. While it is asked again
the old answer is shown; where it cannot be read, the age of that answer is told.
"""

from __future__ import annotations

import subprocess
import sys
from collections import OrderedDict
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from threading import Lock

from bastion.clock import Clock
from bastion.errors import BastionError
from bastion.records.codec import decode
from bastion.value import value
from bastion.web.record.child import FAILED
from bastion.web.record.summary import Summary

KEPT_S = 60.0
NEAR_S = 900.0
"""How far apart the ends of two periods may be of which one stands for the other meanwhile."""
DEADLINE_S = 60.0
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


class RecordReader:
    """
    The record of one bucket.

    Args:
        ask: Asks it; takes seconds.
        clock: For ages.
    """

    def __init__(self, ask: Ask, clock: Clock) -> None:
        self._ask = ask
        self._clock = clock
        self._lock = Lock()
        self._turn = Lock()
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="record")
        self._asking: Future[Known] | None = None
        self._trouble, self._failed_at = "", 0.0
        self._known: OrderedDict[Period, tuple[float, Summary]] = OrderedDict()

    def of(self, period: Period) -> Known:
        """
        What happened in `period`.

        Where something is known of nearly the same period it is shown, and the record is asked
        meanwhile; else this waits for the answer.
        """
        fresh = self._known.get(period)
        if fresh is not None and self._age_s(fresh) < KEPT_S:
            return Known(summary=fresh[1], age_s=self._age_s(fresh))
        near = self._near(period)
        if near is None:
            return self._asked(period)
        self._ask_meanwhile(period)
        return Known(summary=near[1], age_s=self._age_s(near), trouble=self._trouble)

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

    def _ask_meanwhile(self, period: Period) -> None:
        with self._lock:
            if self._asking is None or self._asking.done():
                self._asking = self._thread.submit(self._asked, period)

    def _asked(self, period: Period) -> Known:
        with self._turn:
            known = self._known.get(period)
            if known is not None and self._age_s(known) < KEPT_S:  # another reader has asked
                return Known(summary=known[1], age_s=self._age_s(known))
            if self._trouble and self._clock.monotonic() - self._failed_at < RETRY_S:
                return Known(trouble=self._trouble)
            try:
                summary = self._ask(period.since, period.until, period.parts)
            except BastionError as error:
                self._trouble, self._failed_at = error.message, self._clock.monotonic()
                return Known(trouble=error.message)
            self._trouble = ""
            self._known[period] = (self._clock.monotonic(), summary)
            self._known.move_to_end(period)
            while len(self._known) > MOST_KEPT:
                self._known.popitem(last=False)
            return Known(summary=summary)

    def _age_s(self, answer: tuple[float, Summary]) -> float:
        return self._clock.monotonic() - answer[0]


class RecordChild:
    """
    Asks the record of the bucket at `url` in a program that ends with its answer.

    Args:
        url: Of the bucket.
    """

    def __init__(self, url: str) -> None:
        self._url = url
        self._lock = Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._is_closed = False

    def ask(self, since: float, until: float, parts: int) -> Summary:
        """See `Ask`."""
        words = [sys.executable, "-m", "bastion.web.record.child", self._url]
        words += [f"{since:f}", f"{until:f}", str(parts)]
        try:
            code, out, errors = self._run(words)
        except subprocess.TimeoutExpired:
            raise BastionError(f"the record gave no answer within {DEADLINE_S:g} s") from None
        except OSError as error:
            raise BastionError(f"the record cannot be asked: {error.strerror}") from None
        if code == FAILED:
            raise BastionError(errors.decode(errors="replace"))
        if code:
            lines = errors.decode(errors="replace").strip().splitlines() or ["no message"]
            raise BastionError(f"the record cannot be read: {lines[-1]}")
        return decode(Summary, out, key="the record")

    def close(self) -> None:
        """End the program: this one waits for the thread that asks, and would end a minute late."""
        with self._lock:
            self._is_closed = True
            if self._process is not None:
                self._process.kill()

    def _run(self, words: Sequence[str]) -> tuple[int, bytes, bytes]:
        with self._lock:
            if self._is_closed:
                raise BastionError("the pages are closed")
            pipe = subprocess.PIPE
            process = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=pipe, stderr=pipe)
            self._process = process
        with process:
            try:
                out, errors = process.communicate(timeout=DEADLINE_S)
            except subprocess.TimeoutExpired:
                process.kill()
                raise
        return process.returncode, out, errors
