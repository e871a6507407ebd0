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
    now = draft.now
    for job in draft.snapshot.jobs.values():
        if job.not_before > now and job.phase is Phase.QUEUED:
            yield job.not_before
    for doom in draft.doomed.values():
        yield doom.stop_at
    for reserved in draft.reserved.values():
        yield reserved.until
    for plan in draft.plans.values():
        yield plan.until
        yield from (plan.until - r.grace_s for r in plan.waits)
    after_s = draft.options.plan_after_s
    for line in draft.blocked:
        for entry in line.waiting:
            at = entry[3][0].queued_at + after_s
            if at > now:
                yield at
    if draft.blocked:
        yield from draft.snapshot.stockouts.values()
