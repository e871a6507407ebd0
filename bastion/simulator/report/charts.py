"""
The charts of a report, described in Altair.

Each is as wide as its place on the page: `export.py` sets a width for use without a page.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import chain
from typing import Any

from bastion.errors import SpecError
from bastion.simulator.engine.result import Result
from bastion.simulator.metrics.measures import SIZES, Measures
from bastion.simulator.report import tables
from bastion.simulator.workload.load import Load

PALETTE = ("#2f6fde", "#e8743b", "#19a979", "#945ecf", "#b8860b", "#13a4b4", "#d04a6b", "#6c8893")
DASHES = ([1, 0], [7, 3], [2, 2], [9, 2, 2, 2], [4, 4], [12, 3], [1, 3], [6, 2, 1, 2])
"""Of lines, so that lines do not hide one another."""
_TIMES = (0, 60, 600, 3600, 21600, 86400, 604800, 2592000)
_TIME_LABEL = (
    "datum.value < 60 ? format(datum.value, 'd') + ' s' : datum.value < 3600 ?"
    " format(datum.value / 60, '.3~g') + ' min' : datum.value < 86400 ?"
    " format(datum.value / 3600, '.3~g') + ' h' : format(datum.value / 86400, '.3~g') + ' d'"
)
_RATIOS = (1, 2, 5, 10, 30, 100, 1000, 10000, 100000)
SHORT_DAYS = 2.0
"""Below this many days, the axis is in hours, because a tenth of a day means little to a reader."""
HOURS = (0.1, 0.25, 0.5, 1, 2, 3, 6)
"""From one tick mark to the next."""

Chart = Any
"""A chart of Altair, which is imported when the first one is created."""
_Across = Callable[[Any, Sequence[float]], dict[str, Any]]
"""Axis and scale of a measure."""


def altair() -> Any:
    """
    Return the library.

    Raises:
        SpecError: It is not installed.
    """
    try:
        import altair as found
        import vl_convert  # noqa: F401
    except ImportError as error:
        raise SpecError(
            f"the report needs {error.name}, which is not installed",
            hint="pip install 'bastion-orchestrator[sim]'; --json needs nothing more",
        ) from None
    return found


def charts_of(
    results: Sequence[Result],
    measures: Sequence[Measures],
    loads: Sequence[Load | None],
    names: Sequence[str],
) -> Mapping[str, Chart]:
    """
    Return every chart of a study, by name, in the order of the page.

    `pool-N` and `machines-N` belong to the result at index N.
    """
    alt = altair()
    found: dict[str, Chart] = {}
    shown = list(range(len(results)))
    if len(set(loads)) > 1:
        found |= _sweep(alt, tables.sweep_rows(loads, names, measures))
        shown = _heaviest(loads)
        results, measures = [results[at] for at in shown], [measures[at] for at in shown]
    found |= _cdfs(alt, results)
    days = max((each.ended_at - each.began_at for each in results), default=0.0) / tables.DAY_S
    over_time = tables.load_rows(results)
    for name, title, axis in (
        ("utilisation", "devices in use", "%"),
        ("goodput", "work kept", "%"),
        ("queue", "jobs that wait", "~s"),
    ):
        found[name] = _line(alt, over_time, name, title, axis=axis, days=days)
    for kind in ("project", "user", "size"):
        rows = tables.group_rows(measures, kind)
        is_told = kind == "user" and all(
            len(each.by_user) == len(each.by_project) for each in measures
        )
        if len({row[kind] for row in rows}) > 1 and not is_told:
            found |= _groups(alt, rows, kind)
    held = {at: tables.held_rows(result) for at, result in zip(shown, results, strict=True)}
    most = max(chain.from_iterable(each.series.columns["used"] for each in results), default=1.0)
    for at, result in zip(shown, results, strict=True):
        found[f"pool-{at}"] = _held(alt, held[at], days, most)
        found[f"machines-{at}"] = _machines(alt, tables.machine_rows(result), days)
    return found


def _heaviest(loads: Sequence[Load | None]) -> list[int]:
    """Return the indices of a sweep's points with the largest load, which the other charts show."""
    most = max(load for load in loads if load is not None)
    return [at for at, load in enumerate(loads) if load == most]


def _data(alt: Any, rows: Sequence[tables.Row]) -> Any:
    return alt.Data(values=list(rows))


def _policies(alt: Any, rows: Sequence[tables.Row]) -> dict[str, Any]:
    """Return the color and dashes of lines."""
    names = list(dict.fromkeys(row["policy"] for row in rows))
    legend = _legend(alt)
    color = alt.Scale(domain=names, range=_cycled(PALETTE, names))
    dash = alt.Scale(domain=names, range=_cycled(DASHES, names))
    return {
        "color": alt.Color("policy:N", scale=color, legend=legend),
        "strokeDash": alt.StrokeDash("policy:N", scale=dash, legend=legend),
    }


def _cycled(found: Sequence[Any], names: Sequence[str]) -> list[Any]:
    return [found[at % len(found)] for at in range(len(names))]


def _legend(alt: Any) -> Any:
    return alt.Legend(
        title=None,
        orient="top",
        columns=3,
        symbolType="stroke",
        symbolStrokeWidth=2.5,
        symbolSize=300,
        labelLimit=130,
    )


def _times(alt: Any, found: Sequence[float]) -> dict[str, Any]:
    """Return the axis and scale of seconds, many of which are zero."""
    most = max(found, default=0.0)
    values = [time for time in _TIMES if time <= most] or [0]
    if most < _TIMES[1]:
        return {"scale": alt.Scale(nice=False), "axis": alt.Axis(labelExpr=_TIME_LABEL)}
    axis = alt.Axis(
        values=values,
        labelExpr=_TIME_LABEL,
        labelOverlap="greedy",
        labelSeparation=6,
        gridOpacity=0.5,
    )
    return {"scale": alt.Scale(type="symlog", constant=60, nice=False), "axis": axis}


def _ratios(alt: Any, found: Sequence[float]) -> dict[str, Any]:
    """Return the axis and scale of slowdowns, between the tick marks around all of them."""
    least, most = min(found, default=1.0), max(found, default=1.0)
    first = max((ratio for ratio in _RATIOS if ratio <= least), default=least)
    last = min((ratio for ratio in _RATIOS if ratio >= most and ratio > first), default=most)
    values = [ratio for ratio in _RATIOS if first <= ratio <= last]
    axis = alt.Axis(values=values, format="~s", labelOverlap="greedy", gridOpacity=0.5)
    return {"scale": alt.Scale(type="log", domain=[first, last], nice=False), "axis": axis}


def _over_time(alt: Any, days: float) -> dict[str, Any]:
    """Return the time axis of a chart: in days, or in hours if it is short."""
    axis: dict[str, Any] = {"tickCount": 10, "format": ".4~r"}
    is_short = days < SHORT_DAYS
    if is_short:
        step = next((each for each in HOURS if days * 24 <= 10 * each), HOURS[-1])
        axis["values"] = [at * step / 24 for at in range(int(days * 24 / step) + 1)]
        axis["labelExpr"] = "format(datum.value * 24, '.4~r')"
    return {
        "title": "hours" if is_short else "days",
        "axis": alt.Axis(labelOverlap="greedy", labelSeparation=6, **axis),
    }


def _cdfs(alt: Any, results: Sequence[Result]) -> dict[str, Chart]:
    rows = tables.cdf_rows(results)
    found: dict[str, Chart] = {}
    for what, title in tables.CDF_TITLES.items():
        own = [row for row in rows if row["what"] == what]
        across = (_ratios if what == "slowdown" else _times)(alt, [row["value"] for row in own])
        found[f"cdf-{what}"] = (
            alt.Chart(_data(alt, own))
            .mark_line(strokeWidth=2, interpolate="step-after", clip=True)
            .encode(
                x=alt.X("value:Q", title=title, **across),
                y=alt.Y("fraction:Q", axis=alt.Axis(format="%", tickCount=5), title="jobs"),
                tooltip=[
                    alt.Tooltip("policy:N"),
                    alt.Tooltip("fraction:Q", format=".1%", title="jobs"),
                    alt.Tooltip("value:Q", format=",.2~f", title=title),
                ],
                **_policies(alt, own),
            )
            .properties(width="container", height=240)
        )
    return found


def _line(
    alt: Any, rows: Sequence[tables.Row], field: str, title: str, *, axis: str, days: float
) -> Chart:
    return (
        alt.Chart(_data(alt, rows))
        .mark_line(strokeWidth=1.6, clip=True)
        .encode(
            x=alt.X("day:Q", scale=alt.Scale(nice=False), **_over_time(alt, days)),
            y=alt.Y(f"{field}:Q", axis=alt.Axis(format=axis, tickCount=5), title=title),
            tooltip=[
                alt.Tooltip("policy:N"),
                alt.Tooltip("day:Q", format=".2f"),
                alt.Tooltip(f"{field}:Q", format=".2~%" if axis == "%" else ",.0f", title=title),
            ],
            **_policies(alt, rows),
        )
        .properties(width="container", height=200)
    )


def _groups(alt: Any, rows: Sequence[tables.Row], kind: str) -> dict[str, Chart]:
    order = list(dict.fromkeys(row[kind] for row in rows))
    if kind == "size":
        order = [name for _, name in SIZES if name in order]
    policies = list(dict.fromkeys(row["policy"] for row in rows))
    colors = alt.Scale(domain=policies, range=_cycled(PALETTE, policies))

    def chart(field: str, title: str, scale: _Across) -> Chart:
        return (
            alt.Chart(_data(alt, rows))
            .mark_point(filled=True, size=60, opacity=0.9)
            .encode(
                y=alt.Y(f"{kind}:N", sort=order, title=None, axis=alt.Axis(grid=True)),
                yOffset=alt.YOffset("policy:N", sort=policies),
                x=alt.X(f"{field}:Q", title=title, **scale(alt, [row[field] for row in rows])),
                color=alt.Color(
                    "policy:N",
                    scale=colors,
                    legend=alt.Legend(title=None, orient="top", columns=3, labelLimit=130),
                ),
                tooltip=[
                    alt.Tooltip("policy:N"),
                    alt.Tooltip(f"{kind}:N"),
                    alt.Tooltip("jobs:Q", format=","),
                    alt.Tooltip("hours:Q", format=",.2f", title="hours of waiting, mean"),
                    alt.Tooltip("slowdown:Q", format=",.2f", title="slowdown, mean"),
                    alt.Tooltip("preemptions:Q", format=","),
                ],
            )
            .properties(
                width="container",
                height=alt.Step(max(8, 26 // len(policies))),
                autosize=alt.AutoSizeParams(type="fit-x", contains="padding"),
            )
        )

    return {
        f"{kind}-waiting": chart("waiting", "waiting, mean", _times),
        f"{kind}-slowdown": chart("slowdown", "slowdown, mean", _ratios),
    }


def _sweep(alt: Any, rows: Sequence[tables.Row]) -> dict[str, Chart]:
    is_part = any(row["is_part"] for row in rows)
    loads = sorted({row["load"] for row in rows})
    title = "work that comes, of what all devices do" if is_part else "jobs an hour"

    def chart(field: str, name: str, axis: str) -> Chart:
        across = alt.Axis(
            values=loads[:: max(1, len(loads) // 12)], format="~%" if is_part else ".4~r"
        )
        return (
            alt.Chart(_data(alt, rows))
            .mark_line(point=True, strokeWidth=2)
            .encode(
                x=alt.X("load:Q", title=title, axis=across, scale=alt.Scale(zero=False)),
                y=alt.Y(
                    f"{field}:Q",
                    title=name,
                    axis=alt.Axis(format=axis, tickCount=5),
                    scale=alt.Scale(zero=False),
                ),
                tooltip=[
                    "policy:N",
                    alt.Tooltip("load:Q", format="~%" if is_part else ".4~r"),
                    alt.Tooltip(f"{field}:Q", format=".2%" if axis == "%" else ",.2f", title=name),
                ],
                **_policies(alt, rows),
            )
            .properties(width="container", height=240)
        )

    return {
        "load-completion": chart("mean", "hours to completion, mean", "~s"),
        "load-utilisation": chart("utilisation", "devices in use", "%"),
    }


def _held(alt: Any, rows: Sequence[tables.Row], days: float, most: float) -> Chart:
    """Return the chart of what each project held over time, on the same axes for every policy."""
    names = sorted({row["project"] for row in rows})
    legend = alt.Legend(title=None, orient="top", columns=3, labelLimit=130)
    return (
        alt.Chart(_data(alt, rows))
        .mark_area(interpolate="step-after", opacity=0.9)
        .encode(
            x=alt.X(
                "day:Q",
                scale=alt.Scale(nice=False, domain=[0, days]),
                **_over_time(alt, days),
            ),
            y=alt.Y(
                "devices:Q",
                stack=True,
                title="devices held",
                axis=alt.Axis(tickCount=5),
                scale=alt.Scale(domain=[0, most]),
            ),
            color=alt.Color(
                "project:N",
                scale=alt.Scale(scheme="tableau10"),
                legend=legend if len(names) > 1 else None,
            ),
            tooltip=[
                "project:N",
                alt.Tooltip("day:Q", format=".2f"),
                alt.Tooltip("devices:Q", format=".0f"),
            ],
        )
        .properties(width="container", height=170)
    )


def _machines(alt: Any, rows: Sequence[tables.Row], days: float) -> Chart:
    """Return the chart of how full every machine was."""
    count = len({row["machine"] for row in rows}) or 1
    legend = alt.Legend(
        title="full", orient="top", format="%", values=[0, 0.5, 1], gradientLength=140
    )
    return (
        alt.Chart(_data(alt, rows))
        .mark_rect()
        .encode(
            x=alt.X(
                "day:Q",
                scale=alt.Scale(nice=False, domain=[0, days]),
                **_over_time(alt, days),
            ),
            x2="until:Q",
            y=alt.Y(
                "machine:N",
                title=None if count <= 16 else "machines",
                axis=alt.Axis(labels=count <= 16, ticks=False, labelLimit=90),
            ),
            color=alt.Color(
                "full:Q", scale=alt.Scale(scheme="blues", domain=[0, 1]), legend=legend
            ),
            tooltip=[
                "machine:N",
                alt.Tooltip("day:Q", format=".2f"),
                alt.Tooltip("full:Q", format=".0%"),
            ],
        )
        .properties(width="container", height=max(60, min(320, 14 * count)))
    )
