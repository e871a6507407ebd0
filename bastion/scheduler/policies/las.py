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
    total = 0.0
    for job in gang:
        most, request = 0, job.request
        for kind, units in request.per_replica.items():
            if units > most and kind not in COUNTED:
                most = units
        report, attempt = snapshot.reports.get(job.id), job.attempt
        had_s = 0.0 if report is None else report.get("attained_s", 0.0)
        if attempt is not None and attempt.started_at is not None:
            had_s += max(0.0, now - attempt.started_at)
        total += (most * request.replicas or 1) * had_s
    return total
