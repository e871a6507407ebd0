"""Projects and users over a period: their usage, waiting time, waste and cost."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from urllib.parse import urlencode

from bastion.client.look.rows import amounts_of_row
from bastion.history.ask.usage import UsageRow, unused
from bastion.history.ended_attempt import device_of
from bastion.spec.arrays.indices import Indices
from bastion.value import value
from bastion.web.drawing.paging import Part, page_number, part_of
from bastion.web.drawing.palette import Palette
from bastion.web.reading.board import ADMITTED, Board
from bastion.web.record.question import Period
from bastion.web.record.reader import Known

PERIODS = {
    "1": "1 day",
    "7": "7 days",
    "30": "30 days",
    "90": "90 days",
    "this-month": "this month",
    "last-month": "last month",
}
"""The available periods by what `days` is in the address: up to now, or a calendar month in UTC."""
_PARTS = {1: 24, 7: 28, 30: 30, 90: 45}
_DAY_S = 86400.0
_MINUTE_S = 60.0


@value
class UsageLine:
    """One project or user, and one type of device."""

    name: str
    project: str
    sums: UsageRow
    part: float
    """Of everything that was used of this type in the period, 0 to 1."""
    running: int
    """Running jobs that hold this type."""
    queued: int
    """Waiting jobs that ask for it; every task counts."""
    color: int


@value
class UsagePage:
    """What the pages of projects and of users show."""

    by: str
    """`project` or `user`."""
    days: str
    """One of `PERIODS`."""
    project: str
    """Only this one; empty: all."""
    rows: Part[UsageLine]
    charts: tuple[tuple[str, str], ...]
    """The type of device and the address of each chart; none if nothing was used."""
    known: Known
    has_cost: bool
    has_resized: bool
    """Whether restarts of elastic jobs cost anything."""


def period_of(query: Mapping[str, str], now: float, *, usual: int = 7) -> tuple[str, Period]:
    """Return the requested one of `PERIODS`, else the usual one; it ends with this minute."""
    asked = query.get("days", "")
    name = asked if asked in PERIODS else str(usual)
    until = (now // _MINUTE_S + 1) * _MINUTE_S
    if name.isdecimal():
        days = int(name)
        return name, Period(since=until - days * _DAY_S, until=until, parts=_PARTS[days])
    month = datetime.fromtimestamp(now, UTC).replace(
        day=1, hour=0, minute=0, second=0, microsecond=0
    )
    since = month.timestamp()
    if name == "last-month":
        until, since = since, (month - timedelta(days=1)).replace(day=1).timestamp()
    return name, Period(since=since, until=until, parts=max(1, round((until - since) / _DAY_S)))


def usage_page(
    board: Board, palette: Palette, known: Known, query: Mapping[str, str], *, by: str, days: str
) -> UsagePage:
    """Return the page by `project` or by `user`."""
    project = query.get("project", "")[:200]
    is_by_user = by == "user"
    summary = known.summary
    sums = () if summary is None else summary.users if is_by_user else summary.projects
    totals: Counter[str | None] = Counter()
    for each in sums:
        totals[each.device_type] += each.used_h  # type: ignore[assignment]
    running, queued = _active(board, is_by_user=is_by_user)
    told = {(each.project or "", each.user or "", each.device_type or ""): each for each in sums}
    for key in {*running, *queued} - told.keys() if summary is not None else ():
        told[key] = unused(key[0], key[2] or None, user=key[1] or None)
    lines = [
        UsageLine(
            name=key[1] if is_by_user else key[0],
            project=key[0],
            sums=each,
            part=each.used_h / (totals[each.device_type] or 1.0),
            running=running[key],
            queued=queued[key],
            color=palette(key[0]),
        )
        for key, each in told.items()
        if project in ("", key[0])
    ]
    lines.sort(
        key=lambda line: (-line.sums.used_h, line.name, line.project, line.sums.device_type or "")
    )
    given = {"days": days, "project": project}
    path = "/users" if is_by_user else "/projects"
    slots = summary.slots if summary is not None else ()
    kinds = sorted({slot.device_type for slot in slots if project in ("", slot.project)})
    asked = {name: text for name, text in given.items() if text}
    asked["of"] = f"{known.answered_at:.0f}"  # a newer answer has its own chart
    return UsagePage(
        by=by,
        days=days,
        project=project,
        rows=part_of(lines, page_number(query.get("page", "")), path=path, query=given),
        charts=tuple(
            (kind, f"/charts/{by}s.svg?{urlencode({**asked, 'device': kind})}") for kind in kinds
        ),
        known=known,
        has_cost=any(line.sums.cost for line in lines),
        has_resized=any(line.sums.resized_h for line in lines),
    )


_Counts = Counter[tuple[str, str, str]]
"""Jobs by project, user (empty if not requested) and device type."""


def _active(board: Board, *, is_by_user: bool) -> tuple[_Counts, _Counts]:
    """Return the jobs that hold machines, and the waiting ones."""
    running: _Counts = Counter()
    queued: _Counts = Counter()
    for row in board.rows:
        user = row.get("user", "") if is_by_user else ""
        key = (row["project"], user, device_of(amounts_of_row(row)))
        if "counts" in row:  # an array: its tasks that hold or held machines have their own rows
            queued[key] += len(Indices.known(row["waiting"]))
        else:
            (running if row.get("phase") in ADMITTED else queued)[key] += 1
    return +running, +queued
