"""
`Life`: one job from its submission to its end, and how much of its work is done.

Work is counted in seconds on devices of speed 1. An attempt does none before `ready_at`. When it is
stopped, its work since the last checkpoint is lost.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import NamedTuple

from bastion.job import JobClass, JobRecord
from bastion.simulator.workload.job import TraceJob


class Span(NamedTuple):
    """One attempt of a job."""

    start: float
    end: float
    taken: Mapping[str, int]
    """Devices, by machine."""
    useful_s: float
    """Its seconds whose work was kept."""
    kind: str
    """How it ended: done, preempted, lost, timed out, cancelled, running."""


Place = tuple[tuple[float, float], float, str, "Life"]
"""(rank, submitted, id, job): the order of a line; no two ids are equal."""


class Life:
    """What the simulation knows of one job that has been submitted."""

    __slots__ = (
        "attained_s",
        "began_at",
        "done_s",
        "ended_at",
        "first_start",
        "gang",
        "gone",
        "index",
        "is_cancelled",
        "job",
        "job_class",
        "line",
        "lost_s",
        "outcome",
        "parts",
        "place",
        "preemptions",
        "promised_at",
        "rate",
        "ready_at",
        "record",
        "spans",
        "stops_at",
        "taken",
        "version",
    )

    def __init__(self, job: TraceJob, record: JobRecord, index: int) -> None:
        self.job = job
        self.index = index
        """Its position in the workload."""
        self.record = record
        self.gang = (record,)
        """As it was submitted, as a gang of one."""
        self.place: Place | None = None
        """Its position in the line of waiting jobs, in rounds."""
        self.done_s = 0.0
        """Completed work that is kept."""
        self.attained_s = 0.0
        """Seconds for which it held its devices, in earlier attempts."""
        self.job_class = JobClass.GUARANTEED
        """How its attempt is charged, if its record does not say."""
        self.began_at = -1.0
        """When its attempt was admitted; below zero without one."""
        self.ready_at = 0.0
        """When its attempt starts to do work."""
        self.rate = 1.0
        """Work per second of its attempt."""
        self.taken: Mapping[str, int] = {}
        """Devices that its attempt holds, by machine."""
        self.gone = 0
        """Number of replicas of its attempt that have ended before the others."""
        self.parts: dict[int, float] = {}
        """Replicas that will end before the others, and when."""
        self.stops_at: float | None = None
        """When its attempt will be gone, if it is being stopped."""
        self.is_cancelled = False
        """Whether it ends, and does not wait again, once its attempt is gone."""
        self.version = 0
        """Of its attempt: events for an earlier version are void."""
        self.first_start: float | None = None
        self.ended_at: float | None = None
        self.outcome = ""
        """succeeded, timed_out, refused or cancelled; empty while it is active."""
        self.preemptions = 0
        self.lost_s = 0.0
        """Device time of its attempts without result: lost work and overhead."""
        self.promised_at: float | None = None
        """When it was first promised a start within its project's share."""
        self.spans: list[Span] = []
        self.line: object = None
        """The waiting line that contains it."""

    @property
    def is_running(self) -> bool:
        """Whether it holds devices."""
        return self.began_at >= 0.0

    def worked_by(self, now: float) -> float:
        """Return the work that its attempt has done by `now`, whether kept or not."""
        return max(0.0, now - self.ready_at) * self.rate if self.began_at >= 0.0 else 0.0

    def left_by(self, now: float) -> float:
        """Return the work that is left if the attempt continues."""
        return max(0.0, self.job.duration_s - self.done_s - self.worked_by(now))

    def ends_at(self) -> float:
        """Return when its attempt will have done all the work, or reaches its time limit."""
        done = self.ready_at + (self.job.duration_s - self.done_s) / self.rate
        limit = self.job.max_runtime_s
        if limit is None:
            return done
        return min(done, self.ready_at + max(limit, self.job.longest_s))

    def part_before(self, at: float, now: float) -> set[float]:
        """Return the recorded times when replicas of an attempt are gone before it ends `at`."""
        number = len(self.spans)
        parts = self.job.parts[number] if number < len(self.job.parts) else ()
        if len(parts) == self.job.replicas:
            due = {
                r: self.began_at + each.after_s if each.by_itself else at - each.before_s
                for r, each in enumerate(parts)
                if each.before_s > 0 and self._stands(r)
            }
            self.parts = {r: max(now, time) for r, time in due.items() if time < at}
        return {*self.parts.values()}

    def _stands(self, replica: int) -> bool:
        attempt = self.record.attempt
        return attempt is not None and all(host.end is None for host in attempt.hosts[replica])

    def begin(self, now: float, ready_at: float, rate: float, taken: Mapping[str, int]) -> None:
        """Start its next attempt, which was admitted."""
        self.began_at, self.ready_at, self.rate = now, ready_at, rate
        self.taken = taken
        self.stops_at = None
        self.version += 1
        if self.first_start is None:
            self.first_start = now

    def finish(self, now: float, outcome: str, worked_until: float) -> None:
        """End its attempt: all its work is done, or its time limit ends it without a result."""
        left = self.job.duration_s - self.done_s
        if outcome == "succeeded":
            self._close(now, min(self.worked_by(worked_until), left), "done")
        else:
            self._close(now, 0.0, "timed out")
        self.ended_at, self.outcome = now, outcome

    def cancel(self, now: float) -> None:
        """End its attempt because its user cancelled it; its work was for nothing."""
        self._close(now, 0.0, "cancelled")
        self.ended_at, self.outcome = now, "cancelled"

    def stop(self, now: float, kind: str, checkpoint_s: float) -> None:
        """End its attempt early; it waits again with the work of its last checkpoint."""
        worked = min(self.worked_by(now), self.job.duration_s - self.done_s)
        known = self.job.stops[self.preemptions :] if kind == "preempted" else ()
        if known:
            kept = max(0.0, worked - known[0].lost_s)
        else:
            kept = worked if not checkpoint_s else math.floor(worked / checkpoint_s) * checkpoint_s
        self._close(now, kept, kind)
        if kind == "preempted":
            self.preemptions += 1

    def _close(self, now: float, useful_s: float, kind: str) -> None:
        held = now - self.began_at
        span = Span(self.began_at, now, self.taken, useful_s / self.rate, kind)
        self.spans.append(span)
        self.done_s += useful_s
        self.attained_s += held
        self.lost_s += max(0.0, held - span.useful_s)
        self.began_at = -1.0
        self.stops_at = None
        self.parts = {}
        self.version += 1
