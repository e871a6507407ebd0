"""The charts of a report, described in Altair."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from bastion.errors import SpecError
from bastion.simulator.engine.result import Result
from bastion.simulator.metrics.measures import SIZES, Measures
from bastion.simulator.report import tables
from bastion.simulator.workload.load import Load

PALETTE = ("#2f6fde", "#e8743b", "#19a979", "#945ecf", "#d3a518", "#13a4b4", "#d04a6b", "#6c8893")
_WIDE, _HALF = 930, 400
_SECONDS = (
    "datum.value < 60 ? format(datum.value, 'd') + ' s' : datum.value < 3600 ?"
    " format(datum.value / 60, '.3~g') + ' min' : datum.value < 86400 ?"
    " format(datum.value / 3600, '.3~g') + ' h' : format(datum.value / 86400, '.3~g') + ' d'"
)

Chart = Any
"""A chart of Altair, which is imported when the first is made."""


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

    `pool-N` is of the result at place N.
    """
    alt = altair()
    found: dict[str, Chart] = {}
    shown = list(range(len(results)))
    if len(set(loads)) > 1:
        found["load"] = _sweep(alt, tables.sweep_rows(loads, names, measures))
        shown = _heaviest(loads)
        results, measures = [results[at] for at in shown], [measures[at] for at in shown]
    found["completion"] = _cdf(alt, tables.cdf_rows(results))
    over_time = tables.load_rows(results)
    found["utilisation"] = _line(alt, over_time, "used", "devices in use", axis="%")
    found["queue"] = _line(alt, over_time, "waiting", "jobs that wait", axis="~s")
    if len(measures[0].by_project) > 1:
        rows = tables.group_rows(measures, "project")
        found["projects"] = _groups(alt, rows, "project")
    rows = tables.group_rows(measures, "size")
    if len({row["size"] for row in rows}) > 1:
        found["sizes"] = _groups(alt, rows, "size")
    for at, result in zip(shown, results, strict=True):
        found[f"pool-{at}"] = _pool(alt, result)
    return found


def _heaviest(loads: Sequence[Load | None]) -> list[int]:
    """The places of a sweep's points of the largest load: the other charts show these."""
    most = max(load for load in loads if load is not None)
    return [at for at, load in enumerate(loads) if load == most]


def _data(alt: Any, rows: Sequence[tables.Row]) -> Any:
    return alt.Data(values=list(rows))


def _policies(alt: Any) -> Any:
    return alt.Color(
        "policy:N",
        scale=alt.Scale(range=list(PALETTE)),
        legend=alt.Legend(title=None, orient="top"),
    )


def _cdf(alt: Any, rows: Sequence[tables.Row]) -> Chart:
    def panel(what: str, title: str, axis: Any) -> Chart:
        return (
            alt.Chart(_data(alt, [row for row in rows if row["what"] == what]))
            .mark_line(strokeWidth=2, interpolate="step-after", clip=True)
            .encode(
                x=alt.X("value:Q", scale=alt.Scale(type="log", nice=False), axis=axis, title=title),
                y=alt.Y("fraction:Q", axis=alt.Axis(format="%"), title="jobs"),
                color=_policies(alt),
                tooltip=[
                    alt.Tooltip("policy:N"),
                    alt.Tooltip("fraction:Q", format=".1%", title="jobs"),
                    alt.Tooltip("value:Q", format=",.0f", title=title),
                ],
            )
            .properties(width=_HALF, height=260)
        )

    seconds = alt.Axis(labelExpr=_SECONDS, tickCount=5, labelOverlap=True, gridOpacity=0.5)
    return alt.hconcat(
        panel("completion", "completion time", seconds), panel("waiting", "waiting", seconds)
    )


def _line(alt: Any, rows: Sequence[tables.Row], field: str, title: str, *, axis: str) -> Chart:
    return (
        alt.Chart(_data(alt, rows))
        .mark_line(strokeWidth=1.6, clip=True)
        .encode(
            x=alt.X("day:Q", title="days", scale=alt.Scale(nice=False)),
            y=alt.Y(f"{field}:Q", axis=alt.Axis(format=axis), title=title),
            color=_policies(alt),
            tooltip=[
                alt.Tooltip("policy:N"),
                alt.Tooltip("day:Q", format=".2f"),
                alt.Tooltip(f"{field}:Q", format=".2~%" if axis == "%" else ",.0f", title=title),
            ],
        )
        .properties(width=_WIDE, height=200)
    )


def _groups(alt: Any, rows: Sequence[tables.Row], kind: str) -> Chart:
    order = list(dict.fromkeys(row[kind] for row in rows))
    if kind == "size":
        order = [name for _, name in SIZES if name in order]

    def panel(field: str, title: str) -> Chart:
        return (
            alt.Chart(_data(alt, rows))
            .mark_bar(cornerRadiusEnd=2)
            .encode(
                y=alt.Y(f"{kind}:N", sort=order, title=None),
                yOffset="policy:N",
                x=alt.X(f"{field}:Q", title=title),
                color=_policies(alt),
                tooltip=[
                    alt.Tooltip("policy:N"),
                    alt.Tooltip(f"{kind}:N"),
                    alt.Tooltip("jobs:Q", format=","),
                    alt.Tooltip("waiting:Q", format=".2f", title="hours of waiting, mean"),
                    alt.Tooltip("slowdown:Q", format=".2f", title="slowdown, mean"),
                    alt.Tooltip("preemptions:Q", format=","),
                ],
            )
            .properties(width=_HALF - 40, height=alt.Step(max(6, 22 // _count(rows))))
        )

    return alt.hconcat(
        panel("waiting", "hours of waiting, mean"), panel("slowdown", "slowdown, mean")
    )


def _count(rows: Sequence[tables.Row]) -> int:
    return len({row["policy"] for row in rows}) or 1


def _sweep(alt: Any, rows: Sequence[tables.Row]) -> Chart:
    def panel(field: str, title: str, axis: str) -> Chart:
        return (
            alt.Chart(_data(alt, rows))
            .mark_line(point=True, strokeWidth=2)
            .encode(
                x=alt.X("load:Q", title="jobs an hour"),
                y=alt.Y(f"{field}:Q", title=title, axis=alt.Axis(format=axis)),
                color=_policies(alt),
                tooltip=[
                    "policy:N",
                    "load:Q",
                    alt.Tooltip(f"{field}:Q", format=".2f", title=title),
                ],
            )
            .properties(width=_HALF, height=260)
        )

    return alt.hconcat(
        panel("mean", "hours to completion, mean", "~s"),
        panel("utilisation", "devices in use", "%"),
    )


def _pool(alt: Any, result: Result) -> Chart:
    """Who held the pool over time, and how full every machine was."""
    days = alt.X("day:Q", title=None, scale=alt.Scale(nice=False))
    area = (
        alt.Chart(_data(alt, tables.held_rows(result)))
        .mark_area(interpolate="step-after", opacity=0.9)
        .encode(
            x=days,
            y=alt.Y("devices:Q", stack=True, title="devices held"),
            color=alt.Color(
                "project:N",
                scale=alt.Scale(scheme="tableau10"),
                legend=alt.Legend(title=None, orient="top", columns=10),
            ),
            tooltip=[
                "project:N",
                alt.Tooltip("day:Q", format=".2f"),
                alt.Tooltip("devices:Q", format=".0f"),
            ],
        )
        .properties(width=_WIDE, height=180)
    )
    machines = tables.machine_rows(result)
    count = len({row["machine"] for row in machines}) or 1
    heat = (
        alt.Chart(_data(alt, machines))
        .mark_rect()
        .encode(
            x=alt.X("day:Q", title="days", scale=alt.Scale(nice=False)),
            x2="until:Q",
            y=alt.Y("machine:N", title=None, axis=alt.Axis(labels=count <= 16, ticks=False)),
            color=alt.Color(
                "full:Q",
                scale=alt.Scale(scheme="blues", domain=[0, 1]),
                legend=None,
            ),
            tooltip=[
                "machine:N",
                alt.Tooltip("day:Q", format=".2f"),
                alt.Tooltip("full:Q", format=".0%"),
            ],
        )
        .properties(width=_WIDE, height=max(60, min(320, 14 * count)))
    )
    return alt.vconcat(area, heat).resolve_scale(color="independent")
