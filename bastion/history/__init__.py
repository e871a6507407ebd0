"""
The record: every attempt that ended, kept for years, in files that any program can read.

The input is sealed events, the output rows. Read `attempt_row` first (the columns), then
`sealed_log` (the source of rows) and `ended_attempts` of `record` (all rows, from any place).
DuckDB is imported only if it is used: reading rows of the last days does not need it.

`ended_attempt` turns an attempt into a row, with data from `prices` and `launched_code`; `tables`
are all tables and the rows that an event adds. `compaction` turns them into files (`parquet`), and
`coverage` says which rows count. `record` is the record of one bucket, `ask/` queries it, and
`interruption` handles signals during a query.
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
