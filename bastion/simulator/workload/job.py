"""`TraceJob`: what a workload says about one job, before anything has run."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, NamedTuple

from bastion.value import value
from quota import Quota


class Stop(NamedTuple):
    """What one preemption of a job cost."""

    leave_s: float
    """Seconds from its notice until its devices were free."""
    lost_s: float
    """Seconds of work that it lost."""


class Part(NamedTuple):
    """When one replica of an attempt was gone."""

    after_s: float
    """Seconds since the attempt began."""
    before_s: float
    """Seconds before it ended."""
    by_itself: bool
    """
    Whether it ended before the attempt was told to stop; `after_s` then says more than `before_s`.
    """


class TraceJob(NamedTuple):
    """
    One job of a workload.

    It asks for `devices` of one type. Alone, on devices of speed 1, it takes `duration_s`.
    """

    name: str
    submit_s: float
    duration_s: float
    devices: int = 1
    """In total."""
    replicas: int = 0
    """Number of equal replicas, none of which spans machines; 0 for as few as fit."""
    type: str = ""
    """Resource type of its devices; empty for the first type of the cluster."""
    project: str = "all"
    user: str = "user"
    priority: int = 3
    max_runtime_s: float | None = None
    """The time limit that its user gave, for backfill and estimates; None without one."""
    line: int = 0
    """Its line in its file; 0 if it does not come from a file."""
    stops: tuple[Stop, ...] = ()
    """In a replay: what each preemption took, in order; for later ones, the costs apply."""
    grace_s: float | None = None
    """Requested time between a notice and its kill; None: as the quota file says."""
    borrow: bool = True
    """Whether it may start beyond its project's share."""
    begins: tuple[float, ...] = ()
    """In a replay: seconds until each attempt ran, in order; later ones are like the last."""
    parts: tuple[tuple[Part, ...], ...] = ()
    """In a replay: for each attempt, when each replica was gone; empty: all at its end."""
    longest_s: float = 0.0
    """In a replay: the longest that an attempt held devices; its time limit cut none before."""
    kind: str = ""
    """What it trains, for throughputs by kind of job; empty if that is not known."""

    @property
    def device_s(self) -> float:
        """Its work in device-seconds."""
        return self.duration_s * self.devices


Deed = Literal["hold", "release", "cancel", "cordon", "uncordon", "quota"]


@value
class Happening:
    """Something that a user or an admin did, which no scheduler decides."""

    at_s: float
    """In the time of the workload."""
    what: Deed
    name: str = ""
    """Of the job or the machine."""
    quota: Quota | None = None
    """The file that is in force from then on."""
    takes_s: float = 0.0
    """For a cancel: seconds until the devices of the job were free, if it held any."""


@value
class Workload:
    """Jobs in the order of their submission, and their source."""

    jobs: Sequence[TraceJob]
    source: str = ""
    """The file or the generator, for reports; with the license if the data has one."""
    script: tuple[Happening, ...] = ()
    """In a replay: what users and admins did in the meantime, in order."""
    moments: tuple[float, ...] = ()
    """In a replay: when the scheduler decided. The next cycle carries out what one announces."""
    tracked: tuple[int, int] | None = None
    """Indices of the first and last job that are measured; None for all. The others are load."""
    skipped: tuple[str, ...] = ()
    """Problems of the skipped rows, each with its line."""
    notes: tuple[str, ...] = ()
    """What a reader of the results should know about the file."""

    def is_tracked(self, index: int) -> bool:
        """Whether the job at `index` is measured."""
        return self.tracked is None or self.tracked[0] <= index <= self.tracked[1]

    @property
    def projects(self) -> tuple[str, ...]:
        """Names of the projects, sorted."""
        return tuple(sorted({job.project for job in self.jobs}))

    @property
    def span_s(self) -> float:
        """Seconds from the first submission to the last."""
        return self.jobs[-1].submit_s - self.jobs[0].submit_s if self.jobs else 0.0
