"""Which job was on which machine when: bars that can be zoomed, by links alone."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, datetime
from urllib.parse import urlencode

from bastion.value import value
from bastion.web.pages.paging import Part, page_number, part_of
from bastion.web.pages.palette import Palette
from bastion.web.pages.render import clock, span
from bastion.web.record.reader import Known, Period
from bastion.web.record.summary import Stay

WIDTH = 10_000.0
"""Of a row, in its own units."""
TICKS = 6
LEAST_S, MOST_S = 60.0, 92 * 86400.0
SPANS = {"1h": 3600.0, "6h": 21600.0, "24h": 86400.0, "7d": 604800.0, "30d": 2592000.0}
_MINUTE_S = 60.0


@value
class Bar:
    """One attempt on one machine, in the units of a row."""

    x: float
    width: float
    stay: Stay
    color: int
    text: str
    mark: str
    """`preempted` or `failed` where the attempt ended so within the view; else empty."""


@value
class Lane:
    """One machine."""

    machine: str
    bars: tuple[Bar, ...]


@value
class TimelinePage:
    """What the page of the timeline shows."""

    lanes: Part[Lane]
    ticks: tuple[str, ...]
    spans: Mapping[str, str]
    """The addresses of the usual spans, up to now."""
    closer: str
    wider: str
    earlier: str
    later: str
    since: float
    until: float
    search: str
    known: Known


def view_of(query: Mapping[str, str], now: float) -> Period:
    """The period that the address asks for: `from` and `to`, or the `span` up to this minute."""
    end = (now // _MINUTE_S + 1) * _MINUTE_S
    since, until = _moment(query.get("from", "")), _moment(query.get("to", ""))
    if since is None or until is None or until <= since:
        length = SPANS.get(query.get("span", ""), SPANS["24h"])
        return Period(since=end - length, until=end, parts=1)
    length = min(max(until - since, LEAST_S), MOST_S)
    return Period(since=until - length, until=until, parts=1)


def timeline_page(
    period: Period, known: Known, palette: Palette, query: Mapping[str, str]
) -> TimelinePage:
    """The page of `period`."""
    search = query.get("search", "").strip()[:200]
    lanes: dict[str, list[Stay]] = {}
    for stay in known.summary.stays if known.summary else ():
        texts = (stay.machine, stay.job, stay.project, stay.user)
        if search.casefold() in "\n".join(texts).casefold():
            lanes.setdefault(stay.machine, []).append(stay)
    rows = [
        Lane(
            machine=name, bars=tuple(_bar(stay, period, palette) for stay in reversed(lanes[name]))
        )
        for name in sorted(lanes, key=_natural)
    ]
    length, middle = period.until - period.since, (period.since + period.until) / 2
    asked = {name: query[name] for name in ("from", "to", "span") if query.get(name)}

    def around(center: float, wide: float) -> str:
        wide = min(max(wide, LEAST_S), MOST_S)
        return _address(center - wide / 2, center + wide / 2, search)

    step = length / TICKS
    return TimelinePage(
        lanes=part_of(
            rows,
            page_number(query.get("page", "")),
            path="/timeline",
            query={**asked, "search": search},
        ),
        ticks=tuple(_tick(period.since + n * step, length) for n in range(TICKS + 1)),
        spans={
            name: f"/timeline?{urlencode({'span': name} | ({'search': search} if search else {}))}"
            for name in SPANS
        },
        closer=around(middle, length / 2),
        wider=around(middle, length * 2),
        earlier=around(middle - length / 2, length),
        later=around(middle + length / 2, length),
        since=period.since,
        until=period.until,
        search=search,
        known=known,
    )


def _bar(stay: Stay, period: Period, palette: Palette) -> Bar:
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
        width=max((end - begin) * scale, 8.0),
        stay=stay,
        color=palette(stay.project),
        text=text,
        mark=mark if is_inside and stay.outcome not in ("succeeded", "cancelled") else "",
    )


def _natural(name: str) -> list[tuple[int, str]]:
    """`m2` before `m10`."""
    parts = re.findall(r"\d+|\D+", name)
    return [(int(part), "") if part.isdecimal() else (-1, part) for part in parts]


def _address(since: float, until: float, search: str) -> str:
    given = {"from": _written(since), "to": _written(until)}
    return f"/timeline?{urlencode(given | ({'search': search} if search else {}))}"


def _written(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%S")


def _moment(text: str) -> float | None:
    try:
        found = datetime.fromisoformat(text[:32].removesuffix("Z"))
        return found.replace(tzinfo=found.tzinfo or UTC).timestamp()
    except (ValueError, OverflowError):
        return None


def _tick(seconds: float, length: float) -> str:
    shown = "%b %d" if length > 3 * 86400 else "%b %d %H:%M" if length > 86400 else "%H:%M"
    shown = "%H:%M:%S" if length <= 1800 else shown
    return datetime.fromtimestamp(seconds, UTC).strftime(shown)
