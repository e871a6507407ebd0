"""
`max-min`: every job gets the same device time, as far as it can use it.

All devices of a type are assumed to be equally fast for one job. The effective throughputs of Gavel
are then proportional to device time, and filling all jobs to one level is exact. Where pools of one
type differ in speed, the simulator solves the linear program instead.

Source: max-min fairness (Narayanan et al., Gavel, OSDI 2020, section 4.1).
"""

from __future__ import annotations

from collections.abc import Sequence

from bastion.scheduler.policies.time_share import (
    Ranks,
    asking_in,
    capacities,
    least_of_its_share_first,
    time_received,
)
from bastion.scheduler.snapshot import Snapshot


def max_min(snapshot: Snapshot, now: float) -> Ranks:
    """Return ranks by the ratio of the time received to the fair share of time."""
    there = capacities(snapshot)
    shares: dict[str, float] = {}
    for kind, jobs in asking_in(snapshot).items():
        level = level_of([each.devices for each in jobs], there[kind])
        shares |= {each.job.id: min(1.0, level / each.devices) for each in jobs}
    return least_of_its_share_first(shares, time_received(snapshot, now))


def level_of(asked: Sequence[int], capacity: int) -> float:
    """
    Return the maximum device time of each job if that many devices are shared fairly.

    A job that asks for less gets all that it asks for, and leaves the rest to the others.
    """
    left, level = float(max(capacity, 0)), 0.0
    ordered = sorted(asked)
    for at, devices in enumerate(ordered):
        level = left / (len(ordered) - at)
        if level < devices:
            return level
        left -= devices
    return float(ordered[-1]) if ordered else level
