"""
The columns of a trace, and the allowed values of their cells.

A reader passes every row to `job_of`, which creates a job or lists every problem of the row.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any

from bastion.simulator.workload.job import TraceJob
from quota.file.projects import NAME as PROJECT

COLUMNS: Mapping[str, str] = {
    "submit": "when it was submitted: seconds from any zero, or a date such as 2017-10-09 07:01:55",
    "duration": "seconds of work on devices of speed 1",
    "devices": "how many devices it asks for in all (1)",
    "replicas": "over how many equal replicas they are spread (as few as fit on machines)",
    "type": "resource type of the devices (the first type of the cluster)",
    "name": "a name (its number)",
    "project": "the project that is charged (all)",
    "user": "who submitted it (user)",
    "priority": "1, the highest, to 5 (3)",
    "max_runtime": "the time limit its user gave, in seconds (none)",
    "kind": "what it trains, as a file of throughputs calls it (none)",
}
"""Column -> what it contains, with its default in parentheses."""

REQUIRED = ("submit", "duration")

ALIASES: Mapping[str, str] = {
    "timestamp": "submit",
    "submit_s": "submit",
    "submitted_at": "submit",
    "submit_time": "submit",
    "arrival": "submit",
    "duration_s": "duration",
    "runtime": "duration",
    "num_gpus": "devices",
    "gpus": "devices",
    "job_id": "name",
    "id": "name",
    "cluster": "project",
    "vc": "project",
    "max_runtime_s": "max_runtime",
    "model": "kind",
    "job_type": "kind",
}
"""Other names of columns, as in published traces."""

MAX_DEVICES = 1_000_000
MAX_S = 1e11
"""Of a time or a length, in seconds: sums with milliseconds or nanoseconds would be inexact."""


def column_of(header: str) -> str:
    """Return the column that a header of a file means, or the header itself."""
    name = header.strip().lower()
    return ALIASES.get(name, name)


BEYOND = "beyond the header"
"""The key of the cells of a row without a column in the header."""


def job_of(row: Mapping[str, Any], index: int, line: int) -> TraceJob | list[str]:
    """Return the job of a row by column, or every problem of it."""
    problems: list[str] = []
    if beyond := row.get(BEYOND):
        told = ", ".join(map(repr, beyond))
        problems.append(f"has cells that no column is for: {told}; a comma in a cell is in quotes")

    def cell(column: str, read: Callable[[Any], Any], default: Any) -> Any:
        written = row.get(column)
        if written is None or written == "":
            if column in REQUIRED:
                problems.append(f"{column} is empty; allowed: {COLUMNS[column]}")
            return default
        try:
            return read(written)
        except ValueError as error:
            problems.append(f"{column}: {written!r} {error}")
            return default

    devices = cell("devices", _count, 1)
    job = TraceJob(
        name=cell("name", str, f"job-{index}"),
        submit_s=cell("submit", seconds_of, 0.0),
        duration_s=cell("duration", _length, 1.0),
        devices=devices,
        replicas=cell("replicas", _count, 0),
        type=cell("type", _word, ""),
        project=cell("project", _project, "all"),
        user=cell("user", _word, "user"),
        priority=cell("priority", _priority, 3),
        max_runtime_s=cell("max_runtime", _length, None),
        line=line,
        kind=cell("kind", _word, ""),
    )
    if job.replicas and devices % job.replicas:
        problems.append(f"replicas: {job.replicas} do not divide {devices} devices")
    return problems or job


def seconds_of(written: Any) -> float:
    """
    Return seconds for a number or a date; a date without a time zone is in UTC.

    Raises:
        ValueError: It is neither.
    """
    try:
        seconds = _number(written)
    except (TypeError, ValueError):
        seconds = date_of(written)
        if seconds < 0:
            raise ValueError("is before 1970; allowed: a later date, or seconds") from None
    if not math.isfinite(seconds):
        raise ValueError("is not a time; allowed: seconds or a date")
    if seconds < 0:
        raise ValueError("is negative; allowed: 0 or more seconds, or a date")
    if seconds > MAX_S:
        raise ValueError(f"is too large; allowed: up to {MAX_S:,.0f} seconds, or a date")
    return seconds


def date_of(written: Any) -> float:
    """
    Return the seconds since 1970 of a date; one without a time zone is in UTC.

    Raises:
        ValueError: It is no date.
    """
    try:
        found = datetime.fromisoformat(str(written).strip())
    except ValueError:
        raise ValueError("is not a time; allowed: seconds or a date") from None
    zoned = found if found.tzinfo is not None else found.replace(tzinfo=UTC)
    return zoned.timestamp()


def _number(written: Any) -> float:
    """Return `written` as a number, infinite if it is too large for one."""
    try:
        return float(written)
    except OverflowError:
        return math.inf


def _length(written: Any) -> float:
    try:
        seconds = _number(written)
    except (TypeError, ValueError):
        raise ValueError("is not a number of seconds") from None
    if math.isnan(seconds) or seconds <= 0:
        raise ValueError("is not above zero; allowed: seconds")
    if seconds > MAX_S:
        raise ValueError(f"is too large; allowed: up to {MAX_S:,.0f} seconds")
    return seconds


def _count(written: Any) -> int:
    try:
        number = _number(written)
    except (TypeError, ValueError):
        raise ValueError("is not a whole number") from None
    if not math.isfinite(number) or number != int(number) or not 1 <= number <= MAX_DEVICES:
        raise ValueError(f"is out of bounds; allowed: 1 to {MAX_DEVICES:,}, whole")
    return int(number)


def _priority(written: Any) -> int:
    number = _count(written)
    if number > 5:
        raise ValueError("is out of bounds; allowed: 1 to 5")
    return number


def _word(written: Any) -> str:
    word = str(written).strip()
    if not word or len(word) > 63 or not word.isprintable():
        raise ValueError("is not a name; allowed: up to 63 printable characters")
    return word


def _project(written: Any) -> str:
    project = str(written).strip()
    if not PROJECT.fullmatch(project):
        raise ValueError(
            "is not a project's name; allowed: up to 63 letters, digits, dots, dashes and"
            " underscores, a letter or digit first"
        )
    return project
