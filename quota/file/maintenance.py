"""The list of maintenance windows."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

from quota.file.checks import Checks, as_text
from quota.lines import Path
from quota.maintenance import Window

KEYS = ("from", "until", "pools", "machines", "reason")
"""Of `[[maintenance]]`."""

_YEARS = range(2000, 3000)
"""Years of a window: outside of these a year is a typo, and some have no time in UTC."""

_MOST_REASON = 200
"""Characters of a reason: it is part of one line for users."""


def read_maintenance(checks: Checks, file: Mapping[str, object]) -> tuple[Window, ...]:
    """Return every window of the file, by its start."""
    written = file.get("maintenance", [])
    if not isinstance(written, list):
        text = "not a list of windows, write [[maintenance]] above each of them"
        checks.note(("maintenance",), text)
        return ()
    found = [_window(checks, each, ("maintenance", i)) for i, each in enumerate(written)]
    windows = [window for window in found if window is not None]
    return tuple(sorted(windows, key=lambda each: (each.starts_at, each.ends_at)))


def _window(checks: Checks, value: object, path: Path) -> Window | None:
    table = checks.table(value, path)
    checks.keys(table, path, KEYS)
    starts_at, ends_at = (_instant(checks, table, path, key) for key in ("from", "until"))
    names = {
        key: checks.words(table[key], (*path, key), f"names of {key}") if key in table else ()
        for key in ("pools", "machines")
    }
    for key, words in names.items():
        if table.get(key) == [] and not words:
            checks.note((*path, key), f"no {key}, name some, or leave it out for everything")
    reason = table.get("reason", "")
    if not isinstance(reason, str) or len(reason) > _MOST_REASON or not reason.isprintable():
        checks.note(
            (*path, "reason"),
            f"{as_text(reason)} is not allowed, write a line of at most {_MOST_REASON} characters",
        )
        return None
    if starts_at is None or ends_at is None:
        return None
    if ends_at <= starts_at:
        checks.note((*path, "until"), "not after from, write a later time")
        return None
    return Window(
        starts_at=starts_at,
        ends_at=ends_at,
        pools=names["pools"],
        machines=names["machines"],
        reason=reason,
    )


def _instant(checks: Checks, table: Mapping[str, object], path: Path, key: str) -> float | None:
    """Read a date with a time and an offset, in epoch seconds."""
    example = "2026-12-05T08:00:00+01:00"
    if key not in table:
        checks.note((*path, key), f"missing, write a time as {example}")
        return None
    value = table[key]
    if not isinstance(value, datetime):
        checks.note((*path, key), f"{as_text(value)} is not a time, write one as {example}")
        return None
    if value.year not in _YEARS:
        checks.note(
            (*path, key), f"{as_text(value)} is not allowed, write a year from 2000 to 2999"
        )
        return None
    if value.tzinfo is None:
        text = f"{as_text(value)} has no time zone, write its offset, as {example}, or Z for UTC"
        checks.note((*path, key), text)
        return None
    return value.timestamp()
