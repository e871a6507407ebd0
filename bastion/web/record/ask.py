"""The SQL that sums up a period of the record; it is run by DuckDB, in bounded memory."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from bastion.history.ask.usage import sums
from bastion.history.record import Record
from bastion.history.tables import ATTEMPTS, SHARES
from bastion.web.record.summary import Slot, Stay, Summary

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

MOST_STAYS = 4000
"""Bars of a timeline: what a browser draws at once."""

_EVERY = """
CREATE OR REPLACE TEMP TABLE every AS
SELECT project, user, job, outcome, devices, machines, coalesce(job_class = 'borrowed', false)
           AS is_borrowed,
       epoch(admitted_at) AS began, epoch(freed_at) AS ended,
       guaranteed_device_s AS guaranteed, borrowed_device_s AS borrowed, is_open
FROM (SELECT *, false AS is_open FROM attempts
      UNION ALL BY NAME SELECT *, true AS is_open FROM running)
WHERE attempt > 0 AND epoch(admitted_at) < $until AND epoch(freed_at) > $since
"""
_SLOTS = """
SELECT slot, project, user, sum((guaranteed + borrowed)
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


def summary_of(record: Record, *, since: float, until: float, parts: int) -> Summary:
    """
    Sum up `[since, until)` in `parts` parts.

    Raises:
        MissingExtraError: DuckDB is not installed.
        StoreError: Out of reach.
    """
    with record.opened(since=since, tables=[ATTEMPTS, SHARES]) as connection:
        spoilt = len(record.spoilt)
        return summed(connection, since=since, until=until, parts=parts, spoilt=spoilt)


def summed(
    connection: DuckDBPyConnection, *, since: float, until: float, parts: int, spoilt: int
) -> Summary:
    """The same of tables that are open already; `spoilt` records of them could not be read."""
    step = (until - since) / parts
    projects = sums(connection, by=["project"], since=since, until=until)
    users = sums(connection, by=["project", "user"], since=since, until=until)
    _run(connection, _EVERY, since=since, until=until)
    slots = _run(connection, _SLOTS, since=since, step=step, parts=parts)
    stays = _run(connection, _STAYS, most=MOST_STAYS)
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
            Slot(at=at, project=project, user=user, device_s=held)
            for at, project, user, held in slots
        ),
        stays=tuple(map(_stay, stays)),
        left_out=max(0, int(every[0]) - len(stays)),
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
