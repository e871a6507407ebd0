"""Which job was on which machine when: bars that are zoomed by links alone."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from urllib.parse import urlencode

from bastion.value import value
from bastion.web.drawing.paging import ROWS, Part, page_number, part_of
from bastion.web.drawing.palette import Palette
from bastion.web.drawing.render import clock, span
from bastion.web.drawing.ticks import Tick, ticks_of
from bastion.web.record.question import Period
from bastion.web.record.reader import Known
from bastion.web.record.summary import Stay

WIDTH = 10_000.0
"""Of a row, in its own units."""
LEAST_S, MOST_S = 60.0, 92 * 86400.0
FIRST_AT, LAST_AT = 0.0, 253_402_300_740.0
"""1970 and the last minute of 9999: calendars and forms end there."""
SPANS = {"1h": 3600.0, "6h": 21600.0, "24h": 86400.0, "7d": 604800.0, "30d": 2592000.0}
BARS = 1500
"""On a page, roughly: each takes about 350 bytes of it, and a stop of the keyboard."""
_MINUTE_S = 60.0
_MARGIN, _GAP = 4.0, 2.0
_ROW_HEIGHTS = ((1, 16.0), (3, 12.0), (8, 9.0), (math.inf, 5.0))
"""In pixels: the more attempts overlap, the lower their bars."""


@value
class Bar:
    """One attempt on one machine, in the units of a row."""

    x: float
    y: float
    width: float
    height: float
    stay: Stay
    color: int
    text: str
    mark: str
    """`preempted` or `failed` if the attempt ended so within the view; else empty."""


@value
class Lane:
    """One machine: overlapping attempts are shown one below the other."""

    machine: str
    bars: tuple[Bar, ...]
    height: float


@value
class TimelinePage:
    """What the page of the timeline shows."""

    machines: Part[str]
    stays: Mapping[str, Sequence[Stay]]
    """By machine, including machines that are not shown."""
    period: Period
    ticks: tuple[Tick, ...]
    spans: Mapping[str, str]
    """The addresses of the usual spans up to now."""
    span: str
    """The one of them that is shown; empty for any other period."""
    closer: str
    wider: str
    earlier: str
    later: str
    search: str
    known: Known


def view_of(query: Mapping[str, str], now: float) -> Period:
    """
    Return the period of the address: `from` and `to`, or the `span` up to this minute.

    `from` alone extends to this minute, and `to` alone is the day before it.
    """
    end = (now // _MINUTE_S + 1) * _MINUTE_S
    asked = _asked(query, end)
    if asked is None:
        return Period(since=end - SPANS[_span_in(query)], until=end, parts=1)
    since, until = asked
    length = min(max(until - since, LEAST_S), MOST_S)
    until = min(max(until, FIRST_AT + length), LAST_AT)
    return Period(since=until - length, until=until, parts=1)


def timeline_page(period: Period, known: Known, query: Mapping[str, str]) -> TimelinePage:
    """Return the page of `period`, without its bars."""
    search = query.get("search", "").strip()[:200]
    asked = {name: query[name] for name in ("from", "to", "span") if query.get(name)}
    stays: dict[str, list[Stay]] = {}
    for stay in known.summary.stays if known.summary else ():
        texts = (stay.machine, stay.job, stay.project, stay.user)
        if search.casefold() in "\n".join(texts).casefold():
            stays.setdefault(stay.machine, []).append(stay)
    bars = sum(map(len, stays.values()))
    size = ROWS if bars <= BARS else max(1, min(ROWS, len(stays) * BARS // bars))
    length, middle = period.until - period.since, (period.since + period.until) / 2

    def around(center: float, wide: float) -> str:
        wide = min(max(wide, LEAST_S), MOST_S)
        center = min(max(center, FIRST_AT + wide / 2), LAST_AT - wide / 2)
        return _address(center - wide / 2, center + wide / 2, search)

    return TimelinePage(
        machines=part_of(
            sorted(stays, key=_natural),
            page_number(query.get("page", "")),
            path="/timeline",
            query={**asked, "search": search},
            size=size,
        ),
        stays=stays,
        period=period,
        ticks=ticks_of(period.since, period.until),
        spans={
            name: f"/timeline?{urlencode({'span': name} | ({'search': search} if search else {}))}"
            for name in SPANS
        },
        span="" if _asked(query, period.until) else _span_in(query),
        closer=around(middle, length / 2),
        wider=around(middle, length * 2),
        earlier=around(middle - length / 2, length),
        later=around(middle + length / 2, length),
        search=search,
        known=known,
    )


def lanes_of(page: TimelinePage, palette: Palette) -> tuple[Lane, ...]:
    """Return the machines on the page, with their bars."""
    shown = page.machines.rows
    return tuple(_lane(name, page.stays[name], page.period, palette) for name in shown)


def _lane(machine: str, stays: Sequence[Stay], period: Period, palette: Palette) -> Lane:
    """Return the bars of one machine, in the order of time, each in the first row that is free."""
    frees: list[float] = []
    placed: list[tuple[Stay, int]] = []
    for stay in sorted(stays, key=lambda each: (each.begin, each.end, each.job)):
        row = next((n for n, free in enumerate(frees) if free <= stay.begin), len(frees))
        frees[row : row + 1] = [stay.end]
        placed.append((stay, row))
    height = next(each for most, each in _ROW_HEIGHTS if len(frees) <= most)
    bars = (_bar(stay, row, height, period, palette) for stay, row in placed)
    return Lane(
        machine=machine, bars=tuple(bars), height=2 * _MARGIN + len(frees) * (height + _GAP) - _GAP
    )


def _bar(stay: Stay, row: int, height: float, period: Period, palette: Palette) -> Bar:
    scale = WIDTH / (period.until - period.since)
    begin, end = max(stay.begin, period.since), min(stay.end, period.until)
    over = stay.outcome or "runs"
    borrowed = ", borrowed" if stay.is_borrowed else ""
    text = (
        f"{stay.job} of {stay.user} in {stay.project}{borrowed}: {clock(stay.begin)},"
        f" {span(stay.end - stay.begin)}, {over.replace('_', ' ')}"
    )
    is_inside = stay.end <= period.until and bool(stay.outcome)
    mark = "preempted" if stay.outcome == "preempted" else "failed"
    return Bar(
        x=(begin - period.since) * scale,
        y=_MARGIN + row * (height + _GAP),
        width=max((end - begin) * scale, 8.0),
        height=height,
        stay=stay,
        color=palette(stay.project),
        text=text,
        mark=mark if is_inside and stay.outcome not in ("succeeded", "cancelled") else "",
    )


def _natural(name: str) -> list[tuple[int, str]]:
    """Sort `m2` before `m10`."""
    parts = re.findall(r"\d+|\D+", name)
    return [(int(part), "") if part.isdecimal() else (-1, part) for part in parts]


def _address(since: float, until: float, search: str) -> str:
    given = {"from": _written(since), "to": _written(until)}
    return f"/timeline?{urlencode(given | ({'search': search} if search else {}))}"


def _written(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%S")


def moment_of(text: str) -> float | None:
    """Return the moment in an address, in UTC if it names no zone; None for anything else."""
    try:
        found = datetime.fromisoformat(text[:32].removesuffix("Z"))
        return found.replace(tzinfo=found.tzinfo or UTC).timestamp()
    except (ValueError, OverflowError):
        return None


def _asked(query: Mapping[str, str], end: float) -> tuple[float, float] | None:
    """Return the period of `from` and `to`, one of which may be missing; None if both are."""
    since, until = moment_of(query.get("from", "")), moment_of(query.get("to", ""))
    if since is None and until is None:
        return None
    until = end if until is None else until
    since = until - SPANS["24h"] if since is None else since
    return None if until <= since else (since, until)


def _span_in(query: Mapping[str, str]) -> str:
    asked = query.get("span", "")
    return asked if asked in SPANS else "24h"
