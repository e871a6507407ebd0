"""Why a job waits, once its reason is told: a view follows a moment after every commit."""

from __future__ import annotations

from collections.abc import Callable

from bastion.client.look.published import UNPUBLISHED
from bastion.client.look.views import JobView, Why
from bastion.clock import Clock

REASON_S = 1.0
"""Views are published within a second of a commit; where none comes, no bastion may be there."""
REASON_POLL_S = 0.1


def settled(look: Callable[[], JobView], clock: Clock) -> JobView:
    """Return what `look` returns once it tells the reason of its job, or after a second."""
    until = clock.monotonic() + REASON_S
    while (job := look()).text == UNPUBLISHED and clock.monotonic() < until:
        clock.sleep(REASON_POLL_S)
    return job


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
