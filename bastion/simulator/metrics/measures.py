"""
Numbers of one result: job completion time, delays, utilisation, goodput, fairness, promises.

Times of jobs are those of tracked jobs that completed their work. What devices did is measured from
the first submission to the end, over all jobs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from bastion.simulator.engine.result import JobResult, Result, Series
from bastion.simulator.metrics.distribution import jain, quantile, spread_of
from bastion.value import value

SIZES = ((1, "1"), (4, "2-4"), (8, "5-8"), (32, "9-32"), (10**9, "33 and more"))
"""(most devices, name of the class)"""


@value
class Measures:
    """The measures of one simulation."""

    label: str
    jobs: int
    ended: int
    is_partial: bool
    jct_s: Mapping[str, float]
    """From submission to end."""
    wait_s: Mapping[str, float]
    """Of that, the time without devices."""
    response_s: Mapping[str, float]
    """From submission to the first start."""
    slowdown: Mapping[str, float]
    """Job completion time divided by the time that it takes alone."""
    makespan_s: float
    utilisation: float
    """Devices held, as a fraction of existing devices."""
    goodput: float
    """Device time with a result, as a fraction of the device time of all existing devices."""
    wasted_device_s: float
    """Lost work, restarts and starts."""
    preemptions: int
    refused: int
    timed_out: int
    promised: int
    """Jobs that were promised a start within their project's share."""
    violations: int
    """Promises that were not kept."""
    fairness: float
    """Jain's index of the projects' mean slowdowns."""
    cycles: int
    took_s: float
    by_project: Mapping[str, Mapping[str, float]]
    by_user: Mapping[str, Mapping[str, float]]
    by_size: Mapping[str, Mapping[str, float]]

    def as_json(self) -> dict[str, Any]:
        """Return every field, for JSON."""
        return {name: getattr(self, name) for name in self.__slots__}  # type: ignore[attr-defined]


def measured(result: Result) -> Measures:
    """Return the measures of `result`."""
    tracked = [each for each in result.jobs if each.is_tracked]
    done = [each for each in tracked if each.outcome == "succeeded"]
    by_project = _by(tracked, lambda each: each.job.project)
    span_s = result.ended_at - result.began_at
    stood = _integral(result.series, "capacity", result.ended_at)
    held = _integral(result.series, "used", result.ended_at)
    useful = sum(span.useful_s * each.job.devices for each in result.jobs for span in each.spans)
    return Measures(
        label=result.label,
        jobs=len(tracked),
        ended=len(done),
        is_partial=result.is_partial,
        jct_s=spread_of([jct_of(each) for each in done]),
        wait_s=spread_of([wait_of(each) for each in done]),
        response_s=spread_of([response_of(each) for each in done]),
        slowdown=spread_of([slowdown_of(each) for each in done]),
        makespan_s=span_s,
        utilisation=held / stood if stood else 0.0,
        goodput=useful / stood if stood else 0.0,
        wasted_device_s=sum(each.lost_s * each.job.devices for each in result.jobs),
        preemptions=sum(each.preemptions for each in result.jobs),
        refused=sum(each.outcome == "refused" for each in tracked),
        timed_out=sum(each.outcome == "timed_out" for each in tracked),
        promised=sum(each.was_promised for each in result.jobs),
        violations=len(result.violations),
        fairness=jain([row["slowdown"] for row in by_project.values() if row["ended"]]),
        cycles=result.cycles,
        took_s=result.took_s,
        by_project=by_project,
        by_user=_by(tracked, lambda each: f"{each.job.project}/{each.job.user}"),
        by_size=_by(tracked, lambda each: size_of(each.job.devices)),
    )


def jct_of(each: JobResult) -> float:
    """Return the job completion time: from submission to end."""
    assert each.ended_at is not None
    return each.ended_at - each.job.submit_s


def wait_of(each: JobResult) -> float:
    """Return the part of its completion time that it spent without devices."""
    return max(0.0, jct_of(each) - sum(span.end - span.start for span in each.spans))


def response_of(each: JobResult) -> float:
    """Return the time from submission to the first start."""
    assert each.first_start is not None
    return each.first_start - each.job.submit_s


def slowdown_of(each: JobResult) -> float:
    """Return completion time over length; below 1 only on machines faster than speed 1."""
    return jct_of(each) / each.job.duration_s


CDFS: Mapping[str, Callable[[JobResult], float]] = {
    "completion": jct_of,
    "waiting": wait_of,
    "responsiveness": response_of,
    "slowdown": slowdown_of,
}
"""The measures with a distribution, and how to get their values for one job."""


def cdfs_of(result: Result, steps: int = 100) -> dict[str, list[list[float]]]:
    """Return for everything in `CDFS` pairs (value, fraction of the jobs up to that value)."""
    done = [each for each in result.jobs if each.is_tracked and each.outcome == "succeeded"]
    found = {}
    for name, of in CDFS.items():
        ordered = sorted(map(of, done))
        parts = [step / steps for step in range(steps + 1)] if ordered else []
        found[name] = [[quantile(ordered, part), part] for part in parts]
    return found


def size_of(devices: int) -> str:
    """Return the size class of a job."""
    return next(name for most, name in SIZES if devices <= most)


def _by(
    jobs: Iterable[JobResult], key: Callable[[JobResult], str]
) -> dict[str, Mapping[str, float]]:
    groups: dict[str, list[JobResult]] = {}
    for each in jobs:
        groups.setdefault(key(each), []).append(each)
    return {name: _row(groups[name]) for name in sorted(groups)}


def _row(jobs: Sequence[JobResult]) -> dict[str, float]:
    done = [each for each in jobs if each.outcome == "succeeded"]
    jct, wait = spread_of([*map(jct_of, done)]), spread_of([*map(wait_of, done)])
    return {
        "jobs": len(jobs),
        "ended": len(done),
        "jct_s": jct["mean"],
        "jct_p90_s": jct["p90"],
        "wait_s": wait["mean"],
        "wait_p90_s": wait["p90"],
        "slowdown": spread_of([*map(slowdown_of, done)])["mean"],
        "preemptions": sum(each.preemptions for each in jobs),
        "device_hours": sum(
            (span.end - span.start) * each.job.devices for each in jobs for span in each.spans
        )
        / 3600,
    }


def _integral(series: Series, name: str, until: float) -> float:
    """Return the sum of a column over time."""
    times, numbers = series.times, series.columns[name]
    total = 0.0
    for at, number in enumerate(numbers):
        following = times[at + 1] if at + 1 < len(times) else until
        total += number * (following - times[at])
    return total
