"""
`max-min`: every job gets the same device time, as far as it can use it.

Here all devices of a type are taken to be equally fast for one job. Then the effective throughputs
of Gavel are in proportion to device time, and filling all jobs to one level is exact; where pools
of one type differ in speed, the simulator solves the linear program instead.

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
    """Return ranks by the time received over the share of the time that is fair."""
    there = capacities(snapshot)
    shares: dict[str, float] = {}
    for kind, jobs in asking_in(snapshot).items():
        level = level_of([each.devices for each in jobs], there[kind])
        shares |= {each.job.id: min(1.0, level / each.devices) for each in jobs}
    return least_of_its_share_first(shares, time_received(snapshot, now))


def level_of(asked: Sequence[int], capacity: int) -> float:
    """
    Return the device time that each job gets at most, if so many devices are shared fairly.

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
