"""`las`, least attained service first: jobs that have used little precede those that used much."""

from __future__ import annotations

from collections.abc import Sequence

from bastion.job import JobRecord
from bastion.scheduler.queue.shape import COUNTED
from bastion.scheduler.snapshot import Snapshot


def attained(gang: Sequence[JobRecord], snapshot: Snapshot, now: float) -> float:
    """
    Return the unit-seconds of this attempt, plus earlier ones as reported in `attained_s`.

    A unit is one of the device type that the job asks for most; CPU and memory do not count.

    Source: two-dimensional least attained service (Gu et al., Tiresias, NSDI 2019).
    """
    return sum(_devices(job) * held_s(job, snapshot, now) for job in gang)


def _devices(job: JobRecord) -> int:
    request = job.request
    each = [units for kind, units in request.per_replica.items() if kind not in COUNTED]
    return request.replicas * max(each, default=0) or 1


def held_s(job: JobRecord, snapshot: Snapshot, now: float) -> float:
    """Return for how many seconds `job` has held its devices, over all attempts."""
    attained_s = snapshot.reports.get(job.id, {}).get("attained_s", 0.0)
    started_at = job.attempt.started_at if job.attempt is not None else None
    return attained_s if started_at is None else attained_s + max(0.0, now - started_at)
