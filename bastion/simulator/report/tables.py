"""Rows behind the charts, few enough for a page at any size of the study."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any

from bastion.simulator.engine.result import Result, Series
from bastion.simulator.metrics.measures import Measures, cdfs_of
from bastion.simulator.workload.load import Load

Row = dict[str, Any]

POINTS = 240
"""Maximum points of a line, and columns of a timeline."""
MAX_ROWS = 64
"""Maximum rows of a timeline: if there are more machines, several share one."""
DAY_S = 86400.0


CDF_TITLES = {
    "completion": "completion time",
    "waiting": "waiting",
    "responsiveness": "submission to first start",
    "slowdown": "slowdown",
}


def cdf_rows(results: Sequence[Result]) -> list[Row]:
    """Return, for everything in `CDF_TITLES`, how many jobs are up to each quantile."""
    return [
        {"policy": result.label, "what": what, "value": number, "fraction": part}
        for result in results
        for what, pairs in cdfs_of(result, POINTS).items()
        for number, part in pairs
    ]


def over_time(series: Series, until: float) -> Iterator[tuple[float, dict[str, float]]]:
    """Yield the means of every column in equal parts of the time: (middle, by name)."""
    if not series.times:
        return
    began = series.times[0]
    width = max((until - began) / POINTS, 1e-9)
    edges = [began + width * step for step in range(POINTS + 1)]
    times = series.times
    for low, high in pairwise(edges):
        first, last = max(0, bisect_right(times, low) - 1), bisect_right(times, high)
        sums = dict.fromkeys(series.names, 0.0)
        for at in range(first, min(last, len(times))):
            following = times[at + 1] if at + 1 < len(times) else until
            part = min(high, following) - max(low, times[at])
            if part > 0:
                for name in series.names:
                    sums[name] += series.columns[name][at] * part
        yield (low + high) / 2 - began, {name: total / width for name, total in sums.items()}


def load_rows(results: Sequence[Result]) -> list[Row]:
    """Return utilisation, goodput and the queue over time."""
    rows = []
    for result in results:
        kept = kept_over_time(result)
        for at, (time, means) in enumerate(over_time(result.series, result.ended_at)):
            capacity = means["capacity"] or 1.0
            rows.append(
                {
                    "policy": result.label,
                    "day": time / DAY_S,
                    "utilisation": means["used"] / capacity,
                    "goodput": kept[at] / capacity,
                    "queue": means["waiting"],
                }
            )
    return rows


def kept_over_time(result: Result) -> list[float]:
    """Return devices with kept work in equal parts of the time; work is even over an attempt."""
    began = result.series.times[0] if result.series.times else result.began_at
    width = max((result.ended_at - began) / POINTS, 1e-9)
    found = [[0.0] * POINTS]
    for each in result.jobs:
        for span in each.spans:
            if span.end > span.start and span.useful_s:
                rate = span.useful_s / (span.end - span.start) * each.job.devices
                _fill(found, {"": 0}, {"": rate}, span.start - began, span.end - began, width)
    return found[0]


def held_rows(result: Result, most: int = 9) -> list[Row]:
    """Return devices held over time: the largest projects by name, the others together."""
    columns = list(over_time(result.held, result.ended_at))
    totals = {n: sum(means[n] for _, means in columns) for n in result.held.names}
    shown = sorted(sorted(totals), key=lambda name: -totals[name])[:most]
    rows = []
    for time, means in columns:
        for name in shown:
            rows.append({"day": time / DAY_S, "project": name, "devices": means[name]})
        rest = sum(number for name, number in means.items() if name not in shown)
        if len(totals) > most:
            rows.append({"day": time / DAY_S, "project": "others", "devices": rest})
    return rows


def machine_rows(result: Result) -> list[Row]:
    """Return how full every machine was in equal parts of the time, including unused machines."""
    span_s = max(result.ended_at - result.began_at, 1e-9)
    names = sorted(result.machines)
    if not names:
        return []
    group = -(-len(names) // MAX_ROWS)
    row_of = {name: at // group for at, name in enumerate(names)}
    width = span_s / POINTS
    filled = [[0.0] * POINTS for _ in range(-(-len(names) // group))]
    for each in result.jobs:
        for span in each.spans:
            _fill(
                filled,
                row_of,
                span.taken,
                span.start - result.began_at,
                span.end - result.began_at,
                width,
            )
    has = [0] * len(filled)
    for name, devices in result.machines.items():
        has[row_of[name]] += devices
    return [
        {
            "machine": names[at * group] + (f" and {group - 1} more" if group > 1 else ""),
            "day": step * width / DAY_S,
            "until": (step + 1) * width / DAY_S,
            "full": number / has[at],
        }
        for at, row in enumerate(filled)
        for step, number in enumerate(row)
        if number > 0 or not any(row)
    ]


def _fill(
    filled: list[list[float]],
    row_of: dict[str, int],
    taken: Any,
    start: float,
    end: float,
    width: float,
) -> None:
    first, last = int(start / width), min(int(end / width), POINTS - 1)
    for step in range(max(first, 0), last + 1):
        part = min(end, (step + 1) * width) - max(start, step * width)
        if part > 0:
            for name, units in taken.items():
                filled[row_of[name]][step] += units * part / width


def group_rows(measures: Sequence[Measures], kind: str, most: int = 12) -> list[Row]:
    """Return waiting time, slowdown and preemptions by project, user or size."""
    rows = []
    for each in measures:
        groups = getattr(each, f"by_{kind}")
        shown = sorted(groups, key=lambda name: -groups[name]["device_hours"])[:most]
        for name in shown:
            rows.append(
                {
                    "policy": each.label,
                    kind: name,
                    "waiting": groups[name]["wait_s"],
                    "hours": groups[name]["wait_s"] / 3600,
                    "slowdown": groups[name]["slowdown"],
                    "jobs": groups[name]["jobs"],
                    "preemptions": groups[name]["preemptions"],
                }
            )
    return rows


def sweep_rows(
    loads: Sequence[Load | None], names: Sequence[str], measures: Sequence[Measures]
) -> list[Row]:
    """Return the mean completion time by load."""
    return [
        {
            "policy": name,
            "load": load.number,
            "is_part": load.is_part,
            "mean": each.jct_s["mean"] / 3600,
            "p90": each.jct_s["p90"] / 3600,
            "utilisation": each.utilisation,
        }
        for load, name, each in zip(loads, names, measures)
        if load is not None
    ]
