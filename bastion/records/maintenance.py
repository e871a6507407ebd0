"""
Maintenance in a status: the windows that are not over, and which machines they close.

A window that has begun closes its machines in every view: nothing of them is free.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from quota.maintenance import Window

Row = Mapping[str, Any]


def windows_left(status: Row, now: float) -> tuple[Window, ...]:
    """Return the windows of `status` that are not over at `now`, the earliest first."""
    written = [row for row in status.get("maintenance") or () if row["ends_at"] > now]
    written.sort(key=lambda row: float(row["starts_at"]))
    if not written:
        return ()
    from quota.maintenance import Window  # a look without windows is spared it

    return tuple(
        Window(
            starts_at=row["starts_at"],
            ends_at=row["ends_at"],
            pools=tuple(row.get("pools") or ()),
            machines=tuple(row.get("machines") or ()),
            reason=row.get("reason") or "",
        )
        for row in written
    )


def closed_rows(machines: Sequence[Row], windows: Iterable[Window], now: float) -> Sequence[Row]:
    """Return `machines` of a published pool; `closed` of each is the window open at `now`."""
    open_now = [window for window in windows if window.starts_at <= now < window.ends_at]
    return tuple(_closed_row(row, open_now) for row in machines) if open_now else machines


def _closed_row(row: Row, windows: Iterable[Window]) -> Row:
    names = row.get("pool", ""), row["name"], row.get("hostname") or ""
    found = next((window for window in windows if window.covers(*names)), None)
    return row if found is None else {**row, "closed": str(found), "free": {}}
