"""
The interface of an admission policy: which waiting gangs are considered at all.

Both policies are here: one is the absence of the other.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from bastion.scheduler.queue.order import Gang
from bastion.scheduler.reasons.reason import OverLoad
from quota.amounts import Amounts
from quota.tree import Quota

Admission = Callable[[Iterable[Gang], Quota, Amounts], Mapping[str, OverLoad]]
"""(waiting gangs that could ever run, quota, what is in use) -> jobs held back, with reasons."""


def admit_all(_: Iterable[Gang], __: Quota, ___: Amounts) -> Mapping[str, OverLoad]:
    """`all`: consider every waiting gang."""
    return {}


def load_limit(gangs: Iterable[Gang], quota: Quota, used: Amounts) -> Mapping[str, OverLoad]:
    """
    `load-limit`: hold back gangs that would raise demand above `load_limit` times the total.

    Demand is what is in use plus what older waiting gangs ask for. A gang that ran before is never
    held back.
    """
    limit = quota.scheduler.load_limit
    held_back = {}
    demand = used
    for gang in sorted(gangs, key=lambda gang: (gang[0].submitted_at, gang[0].id)):
        asked = Amounts.sum(job.request.units for job in gang).only(quota.types)
        load = _load(demand + asked, quota.totals)
        if load > limit and not any(job.attempts for job in gang):
            reason = OverLoad(load=load, limit=limit, alone=_load(asked, quota.totals))
            held_back.update({job.id: reason for job in gang})
        else:
            demand = demand + asked
    return held_back


def _load(demand: Amounts, totals: Amounts) -> float:
    return max((n / max(1, totals[t]) for t, n in demand.items()), default=0.0)
