"""
The record: every attempt that ended, for years, in files that any program can read.

Sealed events come in; rows come out. Read `attempt_row` first (the columns), then `sealed_log`
(where rows come from) and `ended` (all of them, wherever they lie now).

DuckDB is imported where it is used: reading rows of the last days needs none.

`ended_attempt` makes a row of an attempt, with what `prices` and `launched_code` say; `tables` are
all tables and the rows that an event adds. `compaction` makes files of them (`parquet`), and
`coverage` says which rows count. `record` is the record of one bucket, `ask/` questions to it, and
`interruption` Ctrl-C while one is answered.
"""

from bastion.history.attempt_row import COLUMNS, AttemptRow, Column, attempt_row
from bastion.history.record import Record, ended_attempts, recorded_events

__all__ = [
    "COLUMNS",
    "AttemptRow",
    "Column",
    "Record",
    "attempt_row",
    "ended_attempts",
    "recorded_events",
]
