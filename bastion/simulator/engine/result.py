"""`Result`: what happened in one simulation, job by job and over time."""

from __future__ import annotations

from array import array
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from bastion.simulator.engine.jobs.life import Span
from bastion.simulator.workload.job import TraceJob
from bastion.value import value


class JobResult(NamedTuple):
    """The outcome of one job."""

    job: TraceJob
    first_start: float | None
    ended_at: float | None
    """None if it had not ended when the simulation ended."""
    outcome: str
    """succeeded, timed_out, refused, cancelled, running or waiting."""
    preemptions: int
    lost_s: float
    """Seconds for which it held devices for nothing."""
    spans: tuple[Span, ...]
    is_tracked: bool
    late_s: float
    """Seconds beyond the guaranteed bound, for a start that was promised within a share."""
    was_promised: bool
    """Whether it was ever promised a start within its project's share."""
    reason: str
    """Why it was refused or still waits; else empty."""


class Series:
    """Numbers that change over time, with the times of the changes."""

    def __init__(self, names: Sequence[str]) -> None:
        self.names = tuple(names)
        self.times = array("d")
        self.columns = {name: array("d") for name in names}

    def add(self, time: float, *numbers: float) -> None:
        """Add the values that apply from `time` on."""
        columns = self.columns
        if self.times and self.times[-1] == time:
            for name, number in zip(self.names, numbers):
                columns[name][-1] = number
            return
        self.times.append(time)
        for name, number in zip(self.names, numbers):
            columns[name].append(number)


@value
class Result:
    """One simulation."""

    label: str
    """What distinguishes it from others of the same study, such as `las`."""
    settings: Mapping[str, str]
    """Its settings, for the report."""
    jobs: Sequence[JobResult]
    series: Series
    """used, capacity (devices), waiting (jobs), asked (devices that they request), running."""
    held: Series
    """Devices held, by project."""
    machines: Mapping[str, int]
    """Devices of each machine that existed at any time."""
    began_at: float
    ended_at: float
    """In the time of the workload."""
    cycles: int
    """Number of decisions."""
    is_partial: bool = False
    """Whether it was interrupted."""
    took_s: float = 0.0
    """How long it took, on this machine's clock."""
    violations: Sequence[str] = ()
    """Promises of the scheduler that were not kept, each with its time."""
    broken: Sequence[Any] = ()
    """Expectations that were not met; see `bastion.simulator.expectations`."""
