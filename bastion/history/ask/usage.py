"""
Usage: who held how much, in which class, at what cost, and how much of it was wasted.

An attempt counts with the part of it that is in the window. If it held eight devices from Sunday to
Tuesday, a third of its hours counts for Monday. The sums of two adjacent windows are therefore the
sums of both together. Attempts that have not ended count up to now. All times are the store's.

* **waiting**: from joining the queue to the admission, of attempts admitted in the window.
* **waste**: device hours held after the last checkpoint of preempted attempts; of those that
  failed, were lost or were stopped because another job failed; and, separately, of elastic jobs
  that were stopped to grow.
* **owned**: what the quota file gave the project, over the window, from the first recorded day on.
* **idle**: device hours in which sampled devices were used less than 5 %, of ended attempts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Literal, TypeAlias

from bastion.errors import SpecError
from bastion.history.record import Record
from bastion.history.tables import ATTEMPTS, SHARES
from bastion.value import value

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

Key: TypeAlias = Literal["project", "user", "pool"]
KEYS: tuple[Key, ...] = ("project", "user", "pool")
_COLUMNS = {"user": '"user"'}
"""Names that SQL reserves."""


@value
class UsageRow:
    """The sums of one project, user or pool, for one type of device."""

    project: str | None = None
    user: str | None = None
    pool: str | None = None
    device_type: str | None
    """None: jobs that held no accelerators."""
    jobs: int
    """Each counts with its first attempt in the window."""
    attempts: int
    guaranteed_h: float
    borrowed_h: float
    """Device hours in each class."""
    owned_h: float | None
    """
    Device hours that the row's project owned, for all its users and pools together; None: no
    project is named.
    """
    waited_p50_s: float | None
    waited_p90_s: float | None
    preempted_h: float
    failed_h: float
    """Wasted device hours, by preemption and by failure or loss."""
    resized_h: float
    """The same for attempts that were stopped to restart with more replicas."""
    idle_h: float | None
    """None: nothing was sampled."""
    cost: float | None
    """None: no price is known."""
    unpriced_h: float
    """Device hours without a price, which `cost` omits."""

    @property
    def used_h(self) -> float:
        """Device hours in both classes."""
        return self.guaranteed_h + self.borrowed_h

    @property
    def share(self) -> float | None:
        """Used hours divided by owned hours; None if none are owned."""
        return self.used_h / self.owned_h if self.owned_h else None


@value
class Usage:
    """The sums over a window."""

    since: float
    until: float
    rows: tuple[UsageRow, ...]
    spoilt: Mapping[str, str]
    """Records that could not be read, by place."""


def usage(
    record: Record,
    *,
    by: Sequence[Key],
    since: float,
    until: float,
    project: str = "",
    user: str = "",
) -> Usage:
    """
    Sum up the window `[since, until)`, in seconds of the store's clock.

    If `project` or `user` is given, only theirs; what is owned is still that of the project.

    Raises:
        SpecError: `by` names nothing, or a key twice, or the window is empty.
        MissingExtraError: DuckDB is not installed.
        StoreError: Unreachable.
    """
    _check(by, since, until)
    tables = [ATTEMPTS, SHARES] if "project" in by else [ATTEMPTS]
    with record.opened(since=since, tables=tables) as connection:
        rows = sums(connection, by=by, since=since, until=until, project=project, user=user)
    return Usage(since=since, until=until, rows=rows, spoilt=record.spoilt)


def sums(
    connection: DuckDBPyConnection,
    *,
    by: Sequence[Key],
    since: float,
    until: float,
    project: str = "",
    user: str = "",
) -> tuple[UsageRow, ...]:
    """
    Return the rows of `usage`, on a connection that has its tables: one serves many queries.

    All other arguments are as in `usage`.
    """
    owned = _owned(connection, since, until) if "project" in by else {}
    owned = {key: h for key, h in owned.items() if project in ("", key[0])}
    wanted = {"since": round(since * 1e6), "until": round(until * 1e6)}
    asked = connection.execute(_sql(by), {**wanted, "project": project, "who": user})
    names = [each[0] for each in asked.description or ()]
    found = [dict(zip(names, row)) for row in asked.fetchall()]
    rows = [
        UsageRow(**{**row, "owned_h": owned.get((row.get("project"), row["device_type"]))})
        for row in found
    ]
    used = {(row.project, row.device_type) for row in rows}
    if len(by) == 1 and not user:
        rows += [unused(project, kind, owned_h=h) for (project, kind), h in owned.items()]
    kept = [row for row in rows if row.attempts or (row.project, row.device_type) not in used]
    kept.sort(key=lambda row: [getattr(row, name) or "" for name in (*by, "device_type")])
    return tuple(kept)


def _check(by: Sequence[Key], since: float, until: float) -> None:
    """
    Check that these are keys and a window.

    Raises:
        SpecError: They are not.
    """
    if not by or len(set(by)) != len(by) or set(by) - set(KEYS):
        given = ",".join(by)
        raise SpecError(f"by: {given!r} is not allowed; some of {', '.join(KEYS)}, each once")
    if not since < until:
        raise SpecError(f"since: {since} is not before {until}")


def unused(
    project: str | None, kind: str | None, *, user: str | None = None, owned_h: float | None = None
) -> UsageRow:
    """Return the row of a project, or of a user of it, that used no device of this type."""
    return UsageRow(
        project=project,
        user=user,
        device_type=kind,
        jobs=0,
        attempts=0,
        guaranteed_h=0.0,
        borrowed_h=0.0,
        owned_h=owned_h,
        waited_p50_s=None,
        waited_p90_s=None,
        preempted_h=0.0,
        failed_h=0.0,
        resized_h=0.0,
        idle_h=None,
        cost=None,
        unpriced_h=0.0,
    )


def _owned(
    connection: DuckDBPyConnection, since: float, until: float
) -> dict[tuple[str | None, str | None], float]:
    """Return device hours owned in the window, by project and type."""
    rows = connection.execute(
        """
        WITH told AS (
            SELECT event, epoch(min(occurred_at)) AS begins FROM shares
            WHERE epoch(occurred_at) < $until GROUP BY event
        ), spans AS (
            SELECT event, greatest(begins, $since) AS begins,
                   lead(begins, 1, $until) OVER (ORDER BY event) AS ends FROM told
        )
        SELECT project, device_type, sum(units * greatest(0, ends - begins)) / 3600
        FROM shares JOIN spans USING (event)
        GROUP BY ALL HAVING sum(units * greatest(0, ends - begins)) > 0
        """,
        {"since": since, "until": until},
    ).fetchall()
    return {(project, kind): hours for project, kind, hours in rows}


_DIGITS = (
    (10**9, 10**5),
    *((10**power, 10 ** (power - 3)) for power in range(10, 15)),
)
"""
The rounding of waits, by their upper limit, in microseconds: a tenth of a second below 1,000 s,
three digits above. The last limit is three years.
"""
_SUMS = (
    *("jobs", "attempts", "guaranteed_h", "borrowed_h"),
    *("preempted_h", "failed_h", "resized_h", "idle_h", "cost", "unpriced_h"),
)


_SINCE, _UNTIL = "make_timestamp($since)", "make_timestamp($until)"
_HELD = f"""
        held AS NOT MATERIALIZED (
            FROM (FROM attempts UNION ALL BY NAME FROM running)
            WHERE attempt > 0 AND admitted_at < {_UNTIL} AND freed_at >= {_SINCE}
              AND $project IN ('', project) AND $who IN ('', "user")
        ), numbered AS (
            SELECT *, attempt = 1 AS is_job FROM held
            WHERE submitted_at >= {_SINCE} OR submitted_at IS NULL
            UNION ALL
            SELECT *, attempt = min(attempt) OVER (PARTITION BY job) FROM held
            WHERE submitted_at < {_SINCE}
        )
"""
"""
Every attempt in the window, and whether its job counts with it: for a job that is older than the
window, its first attempt in the window counts; for all others, the first of all.
"""


def _sql(by: Sequence[Key]) -> str:
    """
    Return the SQL of the sums, which reads every row once.

    Rows are first summed up by wait, rounded to three digits, and quantiles are derived from that.
    Ten million separate waits would take more memory than everything else. Times are whole
    microseconds: most rows are not cut by the window, and then need no computation.
    """
    keys = ", ".join([*(_COLUMNS.get(name, name) for name in by), "device_type"])
    sums = ", ".join(f"sum({name}) AS {name}" for name in _SUMS)
    digits = " ".join(
        f"WHEN waited < {below} THEN (waited + {unit // 2}) // {unit} * {unit}"
        for below, unit in _DIGITS
    )
    return f"""
        WITH {_HELD}, parts AS (
            SELECT {keys}, CASE WHEN outcome = 'stopped' AND stop_reason = 'resize'
                        THEN 'resized' ELSE outcome END AS outcome,
                   is_job, guaranteed_device_s, borrowed_device_s, lost_device_s,
                   cost, idle_fraction, lost_s,
                   epoch_us(admitted_at) AS begins, epoch_us(freed_at) AS ends,
                   epoch_us(admitted_at) - epoch_us(queued_at) AS waited,
                   admitted_at >= {_SINCE} AND freed_at <= {_UNTIL} AS is_whole
            FROM numbered
        ), cut AS (
            SELECT *,
                   CASE WHEN is_whole THEN 1.0::DOUBLE
                        WHEN ends > begins THEN
                       greatest(0, least(ends, $until) - greatest(begins, $since)) / (ends - begins)
                   ELSE 0 END AS part,
                   CASE WHEN is_whole THEN 1.0::DOUBLE
                        WHEN lost_s > 0 THEN
                       greatest(0, least(ends, $until) - greatest(ends - lost_s * 1e6, $since))
                       / (lost_s * 1e6)
                   ELSE 0 END AS lost_part,
                   CASE WHEN begins < $since THEN NULL {digits} ELSE waited END AS wait
            FROM parts
        ), by_wait AS (
            SELECT {keys}, wait,
                   count(*) FILTER (is_job) AS jobs,
                   count(*) AS attempts,
                   sum(guaranteed_device_s * part) / 3600 AS guaranteed_h,
                   sum(borrowed_device_s * part) / 3600 AS borrowed_h,
                   coalesce(sum(lost_device_s * lost_part)
                       FILTER (outcome = 'preempted'), 0) / 3600 AS preempted_h,
                   coalesce(sum(lost_device_s * lost_part)
                       FILTER (outcome NOT IN ('preempted', 'resized')), 0) / 3600 AS failed_h,
                   coalesce(sum(lost_device_s * lost_part)
                       FILTER (outcome = 'resized'), 0) / 3600 AS resized_h,
                   sum((guaranteed_device_s + borrowed_device_s) * part * idle_fraction) / 3600
                       AS idle_h,
                   sum(cost * part) AS cost,
                   coalesce(sum((guaranteed_device_s + borrowed_device_s) * part)
                       FILTER (cost IS NULL), 0) / 3600 AS unpriced_h
            FROM cut GROUP BY {keys}, wait
        ), ranked AS (
            SELECT *, sum(attempts) FILTER (wait IS NOT NULL)
                          OVER (PARTITION BY {keys} ORDER BY wait) AS upto,
                   sum(attempts) FILTER (wait IS NOT NULL) OVER (PARTITION BY {keys}) AS total
            FROM by_wait
        )
        SELECT {keys}, {sums},
               min(wait) FILTER (upto >= 0.5 * total) / 1e6 AS waited_p50_s,
               min(wait) FILTER (upto >= 0.9 * total) / 1e6 AS waited_p90_s
        FROM ranked GROUP BY {keys}
    """
