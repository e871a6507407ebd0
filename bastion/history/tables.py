"""
The tables of the record, and the rows that one event adds to each.

`attempts` contains what has ended, `events` every line of the history, and `shares` what each
project owned: one row for each project and type, whenever the quota file changed and with the first
commit of a day.

A row is checked before it is written: a number that does not fit into a file would spoil all rows
beside it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import field

from bastion.history.attempt_row import COLUMNS, Column, attempt_row
from bastion.records.reports.history import Shares
from bastion.records.root import Event
from bastion.value import value

Row = Mapping[str, object]

LATEST_S = 4_102_444_800.0
"""The year 2100: later than any store's clock."""
_MOST = 1 << 63


@value
class Table:
    """One table: its columns, and the rows of an event, column by column."""

    name: str
    columns: tuple[Column, ...]
    rows_of: Callable[[Event], Iterator[Row]]
    before_s: float = 0.0
    """How long before a window its rows begin that say what was held at its beginning."""
    moments: tuple[str, ...] = field(init=False)
    """The columns that are times."""
    wholes: tuple[str, ...] = field(init=False)
    """The columns that are whole numbers."""

    def __post_init__(self) -> None:
        for name, kind in (("moments", "TIMESTAMP"), ("wholes", "BIGINT")):
            found = tuple(each.name for each in self.columns if each.sql_type == kind)
            object.__setattr__(self, name, found)


def _attempts(event: Event) -> Iterator[Row]:
    row = attempt_row(event)
    if row is not None:
        yield {column.name: getattr(row, column.name) for column in COLUMNS}


def _events(event: Event) -> Iterator[Row]:
    yield {
        "event": event.n,
        "occurred_at": event.at,
        "project": event.project or None,
        "job": event.job or None,
        "what": event.what,
        "text": event.text,
    }


def _shares(event: Event) -> Iterator[Row]:
    if not isinstance(event.record, Shares):
        return
    for project, units in sorted(event.record.nominal.items()):
        for kind, number in sorted(units.items()):
            yield {
                "event": event.n,
                "occurred_at": event.at,
                "project": project,
                "device_type": kind,
                "units": number,
            }


def _columns(**types: str) -> tuple[Column, ...]:
    return tuple(Column(name=name, sql_type=kind) for name, kind in types.items())


ATTEMPTS = Table(name="attempts", columns=COLUMNS, rows_of=_attempts)
EVENTS = Table(
    name="events",
    columns=_columns(
        event="BIGINT",
        occurred_at="TIMESTAMP",
        project="VARCHAR",
        job="VARCHAR",
        what="VARCHAR",
        text="VARCHAR",
    ),
    rows_of=_events,
)
SHARES = Table(
    name="shares",
    columns=_columns(
        event="BIGINT",
        occurred_at="TIMESTAMP",
        project="VARCHAR",
        device_type="VARCHAR",
        units="BIGINT",
    ),
    rows_of=_shares,
    before_s=7 * 86400.0,  # written daily and on changes
)
TABLES = (ATTEMPTS, SHARES, EVENTS)
"""
In the order in which they are written. `events` is the last: the others reach at least as far.
"""


def json_line(table: Table, row: Row) -> str:
    """
    Return `row` as a line of JSON, with times as whole microseconds.

    Raises:
        ValueError: A number in it does not fit into its column.
    """
    made = dict(row)
    for name in table.moments:
        if (moment := made[name]) is not None:
            made[name] = _microseconds(name, moment)
    for name in table.wholes:
        whole = made[name]
        if isinstance(whole, int) and abs(whole) >= _MOST:
            raise ValueError(f"{name}: {whole} has more than 64 bits")
    return _encoded(made)


_encoded = json.JSONEncoder(allow_nan=False, separators=(",", ":")).encode


def _microseconds(name: str, seconds: object) -> int:
    if not isinstance(seconds, int | float) or not 0 <= seconds < LATEST_S:
        raise ValueError(f"{name}: {seconds} is not a time between 1970 and 2100")
    return round(seconds * 1e6)
