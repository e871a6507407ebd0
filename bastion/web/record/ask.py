"""The SQL that sums up a period of the record; DuckDB runs it in bounded memory."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from bastion.history.ask.usage import sums
from bastion.history.record import Record
from bastion.history.tables import ATTEMPTS, SHARES
from bastion.job import FAILURES, OutcomeKind
from bastion.web.record.summary import Failure, Slot, Stay, Summary

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

MOST_STAYS = 4000
"""Bars of a timeline: what a browser can draw at the same time."""
MOST_FAILURES = 500
"""Of one project: a sweep that fails as a whole does not hide other projects' failures."""
MOST_TEXT = 500
"""Characters of a reason: the page of the job has all of it."""

_EVERY = """
CREATE OR REPLACE TEMP TABLE every AS
SELECT project, user, job, outcome, devices, device_type, machines,
       coalesce(job_class = 'borrowed', false) AS is_borrowed,
       epoch(admitted_at) AS began, epoch(freed_at) AS ended,
       guaranteed_device_s AS guaranteed, borrowed_device_s AS borrowed, is_open
FROM (SELECT *, false AS is_open FROM attempts
      UNION ALL BY NAME SELECT *, true AS is_open FROM running)
WHERE attempt > 0 AND epoch(admitted_at) < $until AND epoch(freed_at) > $since
"""
_SLOTS = """
SELECT slot, project, user, coalesce(device_type, ''), sum((guaranteed + borrowed)
       * greatest(0, least(ended, slot + $step) - greatest(began, slot)) / (ended - began)) AS held
FROM (SELECT * FROM every WHERE ended > began),
     (SELECT unnest(generate_series(0, CAST($parts AS BIGINT) - 1)) * $step + $since AS slot)
WHERE began < slot + $step AND ended > slot
GROUP BY ALL HAVING held > 0 ORDER BY ALL
"""
_STAYS = """
SELECT machine, job, project, user, began, ended, CASE WHEN is_open THEN '' ELSE outcome END,
       is_borrowed, devices
FROM (SELECT *, unnest(list_distinct(machines)) AS machine FROM every)
ORDER BY ended DESC, job LIMIT $most
"""
_FAILED_KINDS = (*sorted(FAILURES), OutcomeKind.TIMED_OUT, OutcomeKind.LOST)
_OUTCOMES = ", ".join(f"'{kind.value}'" for kind in _FAILED_KINDS)
# The row of an array stands for its tasks, and failed tasks have their own rows.
_FAILED = f"""
FROM attempts WHERE outcome IN ({_OUTCOMES}) AND tasks IS NULL
AND epoch(ended_at) >= $since AND epoch(ended_at) < $until
"""
_FAILURES = f"""
SELECT job, project, user, attempt, epoch(ended_at), outcome, left(text, $characters), exit_code,
       machines, job_outcome IS NOT NULL
{_FAILED} QUALIFY row_number() OVER (PARTITION BY project ORDER BY event DESC) <= $most
ORDER BY event DESC
"""


def summary_of(record: Record, *, since: float, until: float, parts: int) -> Summary:
    """
    Sum up `[since, until)` in `parts` parts.

    Raises:
        MissingExtraError: DuckDB is not installed.
        StoreError: Unreachable.
    """
    with record.opened(since=since, tables=[ATTEMPTS, SHARES]) as connection:
        spoilt = len(record.spoilt)
        return summed(connection, since=since, until=until, parts=parts, spoilt=spoilt)


def summed(
    connection: DuckDBPyConnection, *, since: float, until: float, parts: int, spoilt: int
) -> Summary:
    """Do the same with open tables; `spoilt` records of them could not be read."""
    step = (until - since) / parts
    projects = sums(connection, by=["project"], since=since, until=until)
    users = sums(connection, by=["project", "user"], since=since, until=until)
    _run(connection, _EVERY, since=since, until=until)
    slots = _run(connection, _SLOTS, since=since, step=step, parts=parts)
    stays = _run(connection, _STAYS, most=MOST_STAYS)
    failures = _run(
        connection, _FAILURES, since=since, until=until, most=MOST_FAILURES, characters=MOST_TEXT
    )
    failed = f"SELECT project, count(*) {_FAILED} GROUP BY project"
    (every,) = connection.execute(
        "SELECT coalesce(sum(len(list_distinct(machines))), 0) FROM every"
    ).fetchall()
    return Summary(
        since=since,
        until=until,
        step_s=step,
        projects=projects,
        users=users,
        slots=tuple(
            Slot(at=at, project=project, user=user, device_type=kind, device_s=held)
            for at, project, user, kind, held in slots
        ),
        stays=tuple(map(_stay, stays)),
        left_out=max(0, int(every[0]) - len(stays)),
        failures=tuple(map(_failure, failures)),
        failed=dict(_run(connection, failed, since=since, until=until)),
        spoilt=spoilt,
    )


def _run(connection: DuckDBPyConnection, sql: str, **named: float) -> list[tuple[Any, ...]]:
    used = {name: number for name, number in named.items() if f"${name}" in sql}
    return connection.execute(sql, used).fetchall()


def _stay(row: tuple[Any, ...]) -> Stay:
    machine, job, project, user, begin, end, outcome, is_borrowed, devices = row
    return Stay(
        machine=machine,
        job=job,
        project=project,
        user=user,
        begin=begin,
        end=end,
        outcome=outcome,
        is_borrowed=is_borrowed,
        devices=devices,
    )


def _failure(row: tuple[Any, ...]) -> Failure:
    job, project, user, attempt, at, outcome, text, code, machines, is_final = row
    return Failure(
        job=job,
        project=project,
        user=user,
        attempt=attempt,
        at=at,
        outcome=outcome,
        text=text,
        code=code,
        machines=tuple(machines or ()),
        is_final=is_final,
    )
