"""
When the same snapshot could next give another plan, by time alone.

Running jobs use up budgets meanwhile. Once a budget is spent, what is reserved for its gangs
becomes free for others.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

from bastion.scheduler.outcome import is_told
from bastion.scheduler.phases.growth import grows_at
from bastion.scheduler.phases.maintenance import stops
from bastion.scheduler.phases.shrinkage import shrinks_at
from bastion.scheduler.state.blocked import Blocked
from bastion.scheduler.state.draft import Draft


def wake_at(draft: Draft, blocked: Blocked, passes_at: float) -> float | None:
    """
    Return the next time that matters, in the store's seconds; None if only events do.

    At `passes_at` an estimate has not come true, and another is due.
    """
    is_open = draft.search.unseen or draft.search.apart
    due = (name for name, stop in draft.victims.items() if stop.stop_at <= draft.now)
    if is_open or not all(is_told(draft, draft.running[name]) for name in due):
        return draft.now  # the next cycle stops the victims that this one names
    soonest = min((at for at in _times(draft, blocked) if at > draft.now), default=math.inf)
    soonest = min(soonest, passes_at)
    return None if math.isinf(soonest) else soonest


def _times(draft: Draft, blocked: Blocked) -> Iterator[float]:
    now = draft.now
    if draft.capacity.closures:
        yield from draft.capacity.closures.times()
        yield from (at for _, at, _ in stops(draft))
    yield from grows_at(draft)
    yield from shrinks_at(draft)
    for name in draft.aside:  # jobs that wait for a time are set aside
        yield draft.snapshot.jobs[name].not_before
    yield from draft.budgets.renewals()
    for stop in draft.victims.values():
        yield stop.stop_at
    for reserved in draft.promised.values():
        yield reserved.until
    for plan in draft.plans.values():
        yield plan.until
        yield from (plan.until - r.grace_s for r in plan.waits)
    after_s = draft.options.plan_after_s
    yield blocked.first_after(now, after_s)
    turn_s = draft.options.min_runtime_s
    holds = draft.running or draft.admitted
    if draft.blocked and holds and draft.parts.preemption.follows_order and turn_s:
        yield (now // turn_s + 1) * turn_s  # running gangs may yield once they had their turn
    if draft.blocked:
        yield from draft.budgets.ends(draft.occupancy.held)
        yield from (stockout.until for stockout in draft.snapshot.stockouts.values())
