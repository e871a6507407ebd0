"""When the same snapshot could next give another plan, though nobody did anything."""

from __future__ import annotations

import math
from collections.abc import Iterator

from bastion.job import Phase
from bastion.scheduler.draft import Draft


def wake_at(draft: Draft) -> float | None:
    """The next time that matters, in store's seconds; None when only events do."""
    soonest = min((at for at in _times(draft) if at > draft.now), default=math.inf)
    return None if math.isinf(soonest) else soonest


def _times(draft: Draft) -> Iterator[float]:
    for job in draft.snapshot.jobs.values():
        if job.phase is Phase.QUEUED and job.not_before > draft.now:
            yield job.not_before
    for doom in draft.doomed.values():
        yield doom.stop_at
    for reserved in draft.reserved.values():
        yield reserved.until
    for plan in draft.plans.values():
        yield plan.until
        yield from (plan.until - r.grace_s for r in plan.waits)
    for line in draft.blocked:
        yield from (entry[3][0].queued_at + draft.options.plan_after_s for entry in line.waiting)
    if draft.blocked:
        yield from draft.snapshot.stockouts.values()
