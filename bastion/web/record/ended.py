"""The SQL that lists ended jobs, part by part; DuckDB runs it in bounded memory."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from bastion.web.record.question import Listed
from bastion.web.record.summary import Ended, EndedPart

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

ROWS = 50
"""Jobs of one part."""
MOST_TEXT = 500
"""Characters of a reason: the page of the job has all of it."""

# One row of a job has `job_outcome`: that of its last attempt, or of its end in the queue.
_FROM = """
FROM attempts WHERE job_outcome IS NOT NULL
AND epoch(ended_at) >= $since AND epoch(ended_at) < $until
AND ($has_tasks OR task IS NULL)
AND $project IN ('', project) AND $user IN ('', "user") AND $state IN ('', job_outcome)
AND ($search = '' OR contains(
    lower(concat_ws(chr(10), job, name, project, "user", job_outcome, text,
                    array_to_string(machines, chr(10)))),
    lower($search)))
"""
_TOTAL = f"SELECT count(*) {_FROM}"
_ROWS = f"""
SELECT job, project, "user", job_outcome, epoch(ended_at),
       epoch(freed_at) - epoch(admitted_at), attempt, tasks IS NOT NULL, devices,
       coalesce(device_type, ''), exit_code, left(text, {MOST_TEXT})
{_FROM} ORDER BY event DESC LIMIT {ROWS} OFFSET $skipped
"""


def ended_jobs(
    connection: DuckDBPyConnection, listed: Listed, *, since: float, until: float
) -> EndedPart:
    """Return the wanted part of the jobs that ended in `[since, until)`."""
    wanted: dict[str, object] = {
        "since": since,
        "until": until,
        "project": listed.project,
        "user": listed.user,
        "state": listed.state,
        "search": listed.search,
        "has_tasks": listed.has_tasks,
    }
    ((total,),) = connection.execute(_TOTAL, wanted).fetchall()
    number = min(max(1, listed.number), max(1, -(-total // ROWS)))
    skipped = (number - 1) * ROWS
    rows = connection.execute(_ROWS, {**wanted, "skipped": skipped}).fetchall()
    return EndedPart(rows=tuple(map(_ended, rows)), number=number, total=total)


def _ended(row: tuple[Any, ...]) -> Ended:
    job, project, user, state, at, held_s, attempt, is_array, *more = row
    devices, kind, code, text = more
    return Ended(
        job=job,
        project=project,
        user=user,
        state=state,
        at=at,
        held_s=held_s,
        attempt=attempt,
        is_array=is_array,
        devices=devices,
        device_type=kind,
        code=code,
        text=text,
    )
