"""
The tables of the record, kept open for some seconds.

Loading what is in no file yet takes a second with thousands of jobs, and a question afterwards a
tenth of one. A reader who zooms asks many questions, so all of them share one load.
"""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING

from bastion.clock import Clock
from bastion.history.record import Record
from bastion.history.tables import ATTEMPTS, SHARES
from bastion.web.record.ask import summed
from bastion.web.record.ended import ended_jobs
from bastion.web.record.question import Period
from bastion.web.record.summary import Summary

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

TABLES_KEPT_S = 15.0
"""Maximum age of loaded tables. An answer itself is shown for a minute."""


class KeptTables:
    """
    Answers about periods of one record, from tables that are reloaded at limited intervals.

    Args:
        record: The record.
        clock: For the age of the tables.
    """

    def __init__(self, record: Record, clock: Clock) -> None:
        self._record = record
        self._clock = clock
        self._opened = ExitStack()
        self._connection: DuckDBPyConnection | None = None
        self._since = self._opened_at = 0.0

    def answer(self, period: Period) -> Summary:
        """
        Return the sums over `period`, or the wanted part of the jobs that ended in it.

        Raises:
            MissingExtraError: DuckDB is not installed.
            StoreError: Unreachable.
        """
        since, until, parts = period.since, period.until, period.parts
        connection = self._tables(since, earlier_s=until - since)
        spoilt = len(self._record.spoilt)
        if period.listed is None:
            return summed(connection, since=since, until=until, parts=parts, spoilt=spoilt)
        ended = ended_jobs(connection, period.listed, since=since, until=until)
        step_s = (until - since) / parts
        return Summary(since=since, until=until, step_s=step_s, ended=ended, spoilt=spoilt)

    def close(self) -> None:
        """Free their memory and their folder."""
        self._connection = None
        self._opened.close()

    def _tables(self, since: float, *, earlier_s: float) -> DuckDBPyConnection:
        """
        Return tables with all rows from `since` on, loaded now if the kept ones do not suffice.

        They are loaded from `earlier_s` before: readers zoom out, and go back step by step.
        """
        age_s = self._clock.monotonic() - self._opened_at
        if self._connection is None or since < self._since or age_s >= TABLES_KEPT_S:
            self.close()
            opened_at = self._clock.monotonic()
            begin = max(0.0, since - earlier_s)
            opening = self._record.opened(since=begin, tables=[ATTEMPTS, SHARES])
            self._connection = self._opened.enter_context(opening)
            self._since, self._opened_at = begin, opened_at
        return self._connection
