"""`las`, least attained service first: what has used little goes before what has used much."""

from __future__ import annotations

from collections.abc import Sequence

from bastion.job import JobRecord
from bastion.scheduler.snapshot import Snapshot


def attained(gang: Sequence[JobRecord], snapshot: Snapshot, now: float) -> float:
    """
    Unit-seconds of this attempt, and what was reported of earlier ones as `attained_s`.

    A unit is one of whatever type the job asks for most; cpu and memory do not count.

    Source: two-dimensional least attained service (Gu et al., Tiresias, NSDI 2019).
    """
    return sum(_of(job, snapshot, now) for job in gang)


def _of(job: JobRecord, snapshot: Snapshot, now: float) -> float:
    units = max((n for t, n in job.request.units.items() if t not in ("cpu", "memory")), default=1)
    earlier = snapshot.reports.get(job.id, {}).get("attained_s", 0.0)
    started = job.attempt.started_at if job.attempt is not None else None
    return units * (earlier + (0.0 if started is None else max(0.0, now - started)))
