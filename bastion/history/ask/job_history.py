"""
Ended jobs, the newest first: one row per job with the sums of its attempts, or one per attempt.

An array has its own row beside those of its tasks; it represents the tasks that never started.
"""

from __future__ import annotations

from bastion.history.record import Record
from bastion.history.tables import ATTEMPTS
from bastion.value import value


@value
class Filter:
    """Which jobs; fields that are empty or None do not restrict them."""

    project: str = ""
    user: str = ""
    states: tuple[str, ...] = ()
    name: str = ""
    """A part of the name, the beginning of the ID, or a pattern of either with `*`."""
    since: float | None = None
    """Ended then or later, in seconds of the store's clock."""
    until: float | None = None


@value
class HistoryRow:
    """One job that ended, or one of its attempts."""

    job: str
    name: str
    project: str
    user: str
    launch: str
    attempt: int
    """The last attempt of a job; 0 if it never started."""
    state: str
    """How the job ended, or the attempt."""
    submitted_at: float
    started_at: float | None
    ended_at: float
    waited_s: float | None
    """From joining the queue to its admission, summed over all attempts."""
    ran_s: float | None
    """From its start until its devices were free, summed over all attempts."""
    device_type: str | None
    devices: int
    device_h: float
    lost_h: float
    """Wasted device hours."""
    cost: float | None
    exit_code: int | None
    pool: str | None
    machines: tuple[str, ...]
    stopped_by: str | None
    stopped_for: str | None
    code_commit: str | None
    text: str


_MOST = 2**62
"""DuckDB's maximum; more than there can be."""


def job_history(
    record: Record, wanted: Filter, *, limit: int = 100, attempts: bool = False
) -> tuple[HistoryRow, ...]:
    """
    Return the newest `limit` jobs that match `wanted`, or attempts, the newest first.

    Raises:
        MissingExtraError: DuckDB is not installed.
        StoreError: Unreachable.
    """
    conditions, values = _conditions(wanted)
    # The attempts of a job may have ended long before it did.
    since = wanted.since if attempts else None
    with record.opened(since=since, tables=[ATTEMPTS], has_code=True) as connection:
        source = _PARTS if attempts else _JOBS
        asked = connection.execute(
            f"{source} SELECT * EXCLUDE (event) FROM parts {conditions}"
            " ORDER BY event DESC LIMIT ?",
            [*values, min(limit, _MOST)],
        )
        names = [each[0] for each in asked.description or ()]
        found = [dict(zip(names, row)) for row in asked.fetchall()]
    return tuple(HistoryRow(**{**row, "machines": tuple(row["machines"] or ())}) for row in found)


def _conditions(wanted: Filter) -> tuple[str, list[object]]:
    parts: list[str] = []
    values: list[object] = []
    for column, text in (("project", wanted.project), ('"user"', wanted.user)):
        if text:
            parts.append(f"{column} = ?")
            values.append(text)
    if wanted.states:
        parts.append(f"state IN ({', '.join('?' * len(wanted.states))})")
        values += wanted.states
    if wanted.name:
        parts.append("(name GLOB ? OR job GLOB ?)")
        # The end of an ID is random: a word that is in it by chance does not match.
        of_name, of_id = f"*{wanted.name}*", f"{wanted.name}*"
        values += [wanted.name] * 2 if "*" in wanted.name else [of_name, of_id]
    for condition, at in (("ended_at >= ?", wanted.since), ("ended_at < ?", wanted.until)):
        if at is not None:
            parts.append(condition)
            values.append(at)
    return (f"WHERE {' AND '.join(parts)}" if parts else ""), values


_CELLS = """
    job, name, project, "user", launch, attempt,
    epoch(submitted_at) AS submitted_at, epoch(started_at) AS started_at,
    epoch(ended_at) AS ended_at,
    epoch(admitted_at) - epoch(queued_at) AS waited_s,
    epoch(freed_at) - epoch(started_at) AS ran_s,
    device_type, devices,
    (guaranteed_device_s + borrowed_device_s) / 3600 AS device_h,
    coalesce(lost_device_s, 0) / 3600 AS lost_h,
    cost, exit_code, pool, machines, stopped_by, stopped_for, code_commit, text, event
"""
_PARTS = f"WITH parts AS (SELECT {_CELLS}, outcome AS state FROM attempts)"
_JOBS = f"""
    WITH each_attempt AS (SELECT {_CELLS}, job_outcome AS state FROM attempts),
    last AS (SELECT * FROM each_attempt WHERE state IS NOT NULL),
    sums AS (
        SELECT job, project, min(started_at) AS started_at, max(attempt) AS attempt,
               sum(waited_s) AS waited_s, sum(ran_s) AS ran_s, sum(device_h) AS device_h,
               sum(lost_h) AS lost_h, sum(cost) AS cost, max(devices) AS devices,
               arg_max(device_type, event) AS device_type, arg_max(pool, event) AS pool
        FROM each_attempt GROUP BY job, project
    ),
    parts AS (
        SELECT last.* REPLACE (
            sums.started_at AS started_at, sums.attempt AS attempt, sums.waited_s AS waited_s,
            sums.ran_s AS ran_s, sums.device_h AS device_h, sums.lost_h AS lost_h,
            sums.cost AS cost, sums.devices AS devices, sums.device_type AS device_type,
            sums.pool AS pool
        ) FROM last JOIN sums USING (job, project)
    )
"""
