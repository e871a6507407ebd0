"""
Why a job waits, once its reason is told, and with times that are reckoned from now.

A view follows a moment after every commit. While nothing changes it stays as it is, and a later
status says until when it is true: the times in its sentences are then older than that.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, cast

from bastion.client.look.published import UNPUBLISHED
from bastion.client.look.views import JobView, Why
from bastion.clock import Clock
from bastion.errors import RecordError
from bastion.value import replace

REASON_S = 1.0
"""Views are published within a second of a commit; where none comes, no bastion may be there."""
REASON_POLL_S = 0.1


def settled(look: Callable[[], JobView], clock: Clock) -> JobView:
    """Return what `look` returns once it tells the reason of its job, or after a second."""
    until = clock.monotonic() + REASON_S
    while (job := look()).text == UNPUBLISHED and clock.monotonic() < until:
        clock.sleep(REASON_POLL_S)
    return job


def told_now(job: JobView, true_until: Callable[[], float]) -> JobView:
    """Return `job` with the times of its reason as of `true_until()`, where it tells any."""
    if job.has_ended or not job.reason or " in " not in job.text:
        return job
    now = true_until()
    if now <= job.as_of:
        return job
    from bastion.records.coding.codec import decode
    from bastion.scheduler.reasons.reason import Reason, text

    kind = cast("Any", Reason)
    try:
        reason = decode(kind, json.dumps(dict(job.reason)).encode(), key="reason")
    except RecordError:  # of another version
        return job
    if text(reason, job.as_of) != job.text:
        return job  # which tells of something else, as of a machine that is silent
    return replace(job, text=text(reason, now), as_of=now)


def why_of(job: JobView, quota_problem: str) -> Why:
    """Return what a view of `job` tells of its state."""
    return Why(
        job=job.id,
        state=job.state,
        text=job.text or f"{job.state}; the next cycle of the scheduler will say more",
        reason=job.reason,
        estimated_at=job.estimated_at,
        confidence=job.confidence,
        samples=job.samples,
        margin_s=job.margin_s,
        confidence_text=job.confidence_text,
        as_of=job.as_of,
        quota_problem=quota_problem,
    )
