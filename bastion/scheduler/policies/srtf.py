"""`srtf`: shortest remaining time first, according to `max_runtime`; jobs without a limit last."""

from __future__ import annotations

import math
from collections.abc import Sequence

from bastion.job import JobRecord
from bastion.scheduler.snapshot import Snapshot


def remaining(gang: Sequence[JobRecord], snapshot: Snapshot, now: float) -> float:
    """
    Return the seconds until its time limit, or what it reported as `remaining_s`.

    Source: shortest remaining processing time (Schrage 1968), with limits in place of lengths.
    """
    return max(_of(job, snapshot, now) for job in gang)


def _of(job: JobRecord, snapshot: Snapshot, now: float) -> float:
    reported = snapshot.reports.get(job.id, {}).get("remaining_s")
    if reported is not None:
        return reported
    limit = job.request.max_runtime_s
    if limit is None:
        return math.inf
    started = job.attempt.started_at if job.attempt is not None else None
    return limit if started is None else max(0.0, started + limit - now)
