"""The record: ended jobs, usage by project, and SQL queries."""

from __future__ import annotations

import argparse
import csv
import json
import sys
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from launch import exits
from launch.errors import UsageError
from launch.grammar.parser import Verbs, number, several, switch, text
from launch.grammar.states import own_state
from launch.screen.notes import note
from launch.screen.render import Column, counted, finite, iso, plain, span
from launch.screen.visible import visible
from launch.session import Session

if TYPE_CHECKING:
    from bastion.history.ask.job_history import HistoryRow
    from bastion.history.ask.usage import UsageRow

STATES = (
    *("succeeded", "failed", "cancelled", "timed_out", "out_of_memory"),
    *("setup_failed", "lost", "preempted", "stopped"),
)
_BY = "project,user,pool"


def register(verbs: Verbs) -> None:
    """Add the verbs of this file."""
    history = verbs.add(
        "history",
        show_history,
        prints=True,
        text="--project_id and --user_id show only their jobs. WHEN is a time ago (90s, 8h, 30d) or"
        " a date (2026-11-01).",
        example="bastion history --since=7d --state=failed\nbastion history --name='sweep*' --csv",
    )
    several(
        history,
        "--state",
        "show only jobs that ended in this state",
        metavar="STATE",
        words=list(STATES),
        read=own_state,
    )
    text(
        history,
        "--name",
        "show only jobs with this text in their name or at the start of their id, or matching a"
        " pattern such as 'train-*'",
    )
    text(history, "--since", "show only jobs that ended since then", metavar="WHEN")
    text(history, "--until", "show only jobs that ended before then", metavar="WHEN")
    switch(history, "--attempts", "print one line per attempt instead of one per job")
    number(history, "--limit", "show at most this many, the newest", default=100)
    switch(history, "--csv", "print CSV with all columns")
    usage = verbs.add(
        "usage",
        show_usage,
        prints=True,
        text="An attempt that began before or ended after the period counts with its part in it."
        " --project_id and --user_id show only their usage. WHEN is a time ago (90s, 8h, 30d) or a"
        " date (2026-11-01).",
        example="bastion usage --by=project --since=30d\nbastion usage --by=project,user --csv",
    )
    usage.add_argument(
        "--by", default="project", metavar="KEYS", help=f"group by some of {_BY} (default: project)"
    )
    usage.add_argument(
        "--since", default="30d", metavar="WHEN", help="start of the period (default: 30d)"
    )
    text(usage, "--until", "end of the period (default: now)", metavar="WHEN")
    switch(usage, "--csv", "print CSV with all columns")
    query = verbs.add(
        "query",
        run_query,
        prints=True,
        text="Tables: attempts, events, shares, running, waiting. A query cannot read anything else"
        " or change data.",
        example="bastion query 'SELECT project, sum(cost) FROM attempts GROUP BY project'\n"
        "bastion query 'DESCRIBE attempts'",
    )
    query.add_argument("sql", metavar="SQL", help="one SELECT statement in DuckDB's SQL dialect")
    switch(query, "--csv", "print CSV")


def show_history(args: argparse.Namespace) -> int:
    """`bastion history`."""
    from bastion.history.ask.job_history import Filter, HistoryRow, job_history
    from bastion.value import fields

    session = Session(args)
    _check_format(session, args)
    if args.limit < 0:
        raise UsageError(f"--limit: {args.limit} is not allowed; must be 0 or more")
    now = session.client.queue_as_of()
    since, until = _window(args, now)
    if since is not None and since >= max(now, session.out.now):
        raise UsageError(f"--since: {args.since!r} is {iso(since)}, which is in the future")
    wanted = Filter(
        project=args.project_id,
        user=args.user_id,
        states=tuple(args.state),
        name=args.name,
        since=since,
        until=until,
    )
    record = session.client.record
    found = job_history(record, wanted, limit=args.limit + 1, attempts=args.attempts)
    rows = found[: args.limit]
    if args.csv:
        _write_csv((plain(row) for row in rows), [each.name for each in fields(HistoryRow)])
    else:
        session.out.show(
            "jobs",
            rows,
            _history_columns(session, attempts=args.attempts),
            name=lambda row: row.job,
            more={"as_of": iso(now)},
        )
    if not session.is_quiet and not args.csv:
        cut = (
            f"; use --limit={2 * args.limit or 100} to see more" if len(found) > args.limit else ""
        )
        kind = "attempt" if args.attempts else "job"
        note(f"{counted(len(rows), kind)} of the record{cut}")
    _note_spoilt(record.spoilt)
    session.note_absence()
    return exits.OK


def _history_columns(session: Session, *, attempts: bool) -> list[Column[HistoryRow]]:
    out = session.out
    return [
        Column(title="JOB", text=lambda row: row.job),
        Column(title="NAME", text=lambda row: row.name, wide=True),
        Column(title="PROJECT", text=lambda row: row.project),
        Column(title="USER", text=lambda row: row.user),
        Column(title="STATE", text=lambda row: row.state, is_state=True),
        Column(title="ATTEMPT" if attempts else "ATTEMPTS", text=lambda row: str(row.attempt)),
        Column(title="ENDED", text=lambda row: out.time(row.ended_at)),
        Column(title="WAITED", text=lambda row: _span(row.waited_s)),
        Column(title="RAN", text=lambda row: _span(row.ran_s)),
        Column(title="DEVICES", text=_devices),
        Column(title="HOURS", text=lambda row: _hours(row.device_h)),
        Column(title="LOST", text=lambda row: _hours(row.lost_h), wide=True),
        Column(title="COST", text=lambda row: _cost(row.cost), wide=True),
        Column(title="CODE", text=_code, wide=True),
        Column(title="POOL", text=lambda row: row.pool or "-", wide=True),
        Column(title="FOR", text=lambda row: row.stopped_for or row.stopped_by or "", wide=True),
        Column(title="WHY", text=lambda row: row.text),
    ]


def show_usage(args: argparse.Namespace) -> int:
    """`bastion usage`."""
    from bastion.history.ask.usage import KEYS, UsageRow, usage
    from bastion.value import fields
    from quota.choice import choose

    session = Session(args)
    _check_format(session, args)
    by = [each.strip() for each in args.by.split(",") if each.strip()]
    for each in by:
        if each not in KEYS:
            raise UsageError(f"--by: {each!r} is unknown, {choose(each, KEYS)}")
    now = session.client.queue_as_of()
    since, until = _window(args, now)
    assert since is not None
    # What a project owns is known until now: later hours would make its share look unused.
    until = now if until is None else min(until, now)
    if since >= until:
        raise UsageError(
            f"--since: {args.since!r} is {iso(since)}, which is not before now, {iso(now)}"
        )
    record = session.client.record
    keys = [key for key in KEYS if key in by]
    found = usage(
        record,
        by=keys,
        since=since,
        until=until,
        project=args.project_id,
        user=args.user_id,
    )
    if args.csv:
        names = [*(each.name for each in fields(UsageRow)), "used_h", "share"]
        told = ({**plain(row), "used_h": row.used_h, "share": row.share} for row in found.rows)
        _write_csv(told, names)
    else:
        session.out.show(
            "rows",
            found.rows,
            _usage_columns(keys, found.rows),
            name=lambda row: " ".join(str(getattr(row, key)) for key in keys),
            more={"since": iso(found.since), "until": iso(found.until), "by": keys},
        )
    if not session.is_quiet and not args.csv:
        _note_usage(found.rows, found.since, found.until)
    if not found.rows:
        _note_nothing(args)
    _note_spoilt(found.spoilt)
    session.note_absence()
    return exits.OK


def _note_nothing(args: argparse.Namespace) -> None:
    """Note whose record is empty: a misspelled name looks like one that used nothing."""
    whose = {"project": args.project_id, "user": args.user_id}
    of = " and ".join(f"{what} {name}" for what, name in whose.items() if name)
    note(f"no attempt{of and ' of ' + of} is recorded in this period")


def _note_usage(rows: Sequence[UsageRow], since: float, until: float) -> None:
    note(f"device hours from {iso(since)} to {iso(until)}, including running attempts")
    unpriced = sum(row.unpriced_h for row in rows)
    if unpriced and any(row.cost is not None for row in rows):
        note(f"{_hours(unpriced)} of the hours have no price and are not part of COST")


def _usage_columns(keys: Sequence[str], rows: Sequence[UsageRow]) -> list[Column[UsageRow]]:
    # Only projects own a share.
    share: Column[UsageRow] = Column(title="OF SHARE", text=lambda row: _percent(row.share))
    resized: Column[UsageRow] = Column(title="RESIZED", text=lambda row: _hours(row.resized_h))
    return [
        *(_key_column(key) for key in keys),
        Column(title="DEVICE", text=lambda row: row.device_type or "-"),
        Column(title="JOBS", text=lambda row: str(row.jobs)),
        Column(title="GUARANTEED", text=lambda row: _hours(row.guaranteed_h)),
        Column(title="BORROWED", text=lambda row: _hours(row.borrowed_h)),
        *([share] if "project" in keys else []),
        Column(title="WAIT P50", text=lambda row: _span(row.waited_p50_s)),
        Column(title="WAIT P90", text=lambda row: _span(row.waited_p90_s)),
        Column(title="PREEMPTED", text=lambda row: _hours(row.preempted_h)),
        Column(title="FAILED", text=lambda row: _hours(row.failed_h)),
        *([resized] if any(row.resized_h for row in rows) else []),
        Column(title="IDLE", text=lambda row: _hours(row.idle_h)),
        Column(title="COST", text=lambda row: _cost(row.cost)),
    ]


def _key_column(key: str) -> Column[UsageRow]:
    return Column(title=key.upper(), text=lambda row: getattr(row, key) or "-")


def run_query(args: argparse.Namespace) -> int:
    """`bastion query SQL`."""
    from bastion.history.ask.query import MOST_ROWS, query

    session = Session(args)
    _check_format(session, args)
    found = query(session.client.record, args.sql)
    if args.csv:
        _write_cells(found.rows, found.columns)
    elif session.out.format == "json":
        _refuse_equal_names(found.columns)
        cells = ([_plain_cell(cell) for cell in row] for row in found.rows)
        session.out.json({"rows": [dict(zip(found.columns, row)) for row in cells]})
    else:
        columns = [_query_column(name, i) for i, name in enumerate(found.columns)]
        session.out.show("rows", found.rows, columns, name=lambda row: _cell(row[0]))
    if not session.is_quiet and not args.csv:
        note(counted(len(found.rows), "row"))
    if found.is_cut:
        note(f"only the first {MOST_ROWS:,} rows are shown: add a LIMIT, or read the files")
    _note_spoilt(dict.fromkeys(found.spoilt, "cannot be read"))
    return exits.OK


def _refuse_equal_names(columns: Sequence[str]) -> None:
    twice = next((name for i, name in enumerate(columns) if name in columns[:i]), "")
    if twice:
        raise UsageError(
            f"two columns are named {twice!r}, and a JSON object can have only one",
            hint="rename one with SELECT ... AS other, or use --csv",
        )


def _query_column(name: str, index: int) -> Column[tuple[object, ...]]:
    return Column(title=name, text=lambda row: _cell(row[index]))


def _moment(flag: str, written: str, now: float) -> float | None:
    """Return the moment that `written` means: a time before `now`, or a date; None if empty."""
    from bastion.bounds import LATEST_S
    from quota.file.duration import seconds_in

    if not written:
        return None
    ago_s = seconds_in(written)
    if ago_s is not None:
        return max(0.0, now - ago_s)
    try:
        at = datetime.fromisoformat(written)
    except ValueError:
        raise UsageError(
            f"{flag}: {written!r} is not a time; use a time ago, such as 90s, 8h or 30d, or a"
            " date, such as 2026-11-01"
        ) from None
    moment = (at if at.tzinfo is not None else at.replace(tzinfo=UTC)).timestamp()
    return min(max(0.0, moment), LATEST_S)


def _check_format(session: Session, args: argparse.Namespace) -> None:
    if args.csv and session.out.format == "json":
        raise UsageError("--csv and JSON are different output formats; give only one")


def _window(args: argparse.Namespace, now: float) -> tuple[float | None, float | None]:
    """Return the moments that `--since` and `--until` mean; None for one that is not given."""
    since, until = _moment("--since", args.since, now), _moment("--until", args.until, now)
    if since is not None and until is not None and since >= until:
        raise UsageError(
            f"--since: {args.since!r} is {iso(since)}, which is not before --until, {iso(until)}"
        )
    return since, until


def _note_spoilt(spoilt: Mapping[str, str]) -> None:
    for place, fault in list(spoilt.items())[:3]:
        note(f"{place}: {fault}")
    if len(spoilt) > 3:
        note(f"{len(spoilt) - 3} more records cannot be read")


def _write_csv(rows: Iterable[Mapping[str, Any]], columns: Sequence[str]) -> None:
    _write_cells(([row[name] for name in columns] for row in rows), columns)


def _write_cells(rows: Iterable[Sequence[object]], columns: Sequence[str]) -> None:
    writer = csv.writer(sys.stdout, lineterminator="\n")
    shown = _shown if sys.stdout.isatty() else _csv_cell
    writer.writerow(map(shown, columns))
    for cells in rows:
        writer.writerow(map(shown, cells))


def _shown(cell: object) -> object:
    """Return a cell for a terminal: a file or a pipe gets every character of jobs unchanged."""
    made = _csv_cell(cell)
    return visible(made) if isinstance(made, str) else made


def _csv_cell(cell: object) -> object:
    """Return a cell for CSV: a list of words joined by spaces, other nested values as JSON."""
    made = _plain_cell(cell)
    if isinstance(made, list) and all(isinstance(each, str) for each in made):
        return " ".join(made)
    return json.dumps(finite(made), ensure_ascii=False) if isinstance(made, list | dict) else made


def _span(seconds: float | None) -> str:
    return "-" if seconds is None else span(seconds)


def _hours(hours: float | None) -> str:
    from bastion.spec.values.quantity import text_of_hours

    return "-" if hours is None else text_of_hours(hours)


def _cost(cost: float | None) -> str:
    from bastion.spec.values.quantity import text_of_cost

    return "-" if cost is None else text_of_cost(cost)


def _percent(share: float | None) -> str:
    return "-" if share is None else f"{100 * share:.0f} %"


def _devices(row: HistoryRow) -> str:
    return f"{row.devices} {row.device_type}" if row.device_type else "-"


def _code(row: HistoryRow) -> str:
    return "-" if row.exit_code is None else str(row.exit_code)


def _cell(cell: object) -> str:
    if cell is None:
        return "-"
    return str(_plain_cell(cell))


def _plain_cell(cell: object) -> object:
    """Return a cell as a JSON value; moments and values without a JSON type become text."""
    if cell is None or isinstance(cell, str | int | float | bool):
        return cell
    if isinstance(cell, datetime):
        return f"{cell.isoformat()}Z" if cell.tzinfo is None else cell.isoformat()
    if isinstance(cell, list | tuple):
        return [_plain_cell(each) for each in cell]
    if isinstance(cell, dict):
        return {str(key): _plain_cell(each) for key, each in cell.items()}
    return str(cell)
