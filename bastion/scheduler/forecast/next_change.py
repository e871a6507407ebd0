"""When the same snapshot could next give another plan, though nobody did anything."""

from __future__ import annotations

import math
from collections.abc import Iterator

from bastion.scheduler.state.draft import Draft


def wake_at(draft: Draft, passes_at: float) -> float | None:
    """
    The next time that matters, in store's seconds; None when only events do.

    At `passes_at` an estimate has not come true, and another is to be told.
    """
    soonest = min((at for at in _times(draft) if at > draft.now), default=math.inf)
    soonest = min(soonest, passes_at)
    return None if math.isinf(soonest) else soonest


def _times(draft: Draft) -> Iterator[float]:
    now = draft.now
    for name in draft.aside:  # who waits for a time stands there
        yield draft.snapshot.jobs[name].not_before
    for doom in draft.doomed.values():
        yield doom.stop_at
    for reserved in draft.reserved.values():
        yield reserved.until
    for plan in draft.plans.values():
        yield plan.until
        yield from (plan.until - r.grace_s for r in plan.waits)
    after_s = draft.options.plan_after_s
    young = [
        entry[4]
        for line in draft.blocked
        for entry in (line.waiting if line.at else line.gangs)
        if entry[4] + after_s > now
    ]
    if young:
        yield min(young) + after_s
    if draft.blocked:
        yield from (stockout.until for stockout in draft.snapshot.stockouts.values())
