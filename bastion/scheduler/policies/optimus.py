"""
`optimus`: devices go where they shorten a job most; a job's share of time follows from them.

Source: the marginal gains of Optimus (Peng et al., EuroSys 2018, section 4.1). Each job gets one
device, then every further device goes to the job whose completion it brings forward most. In the
paper a job runs with as many workers as it got. Here a gang runs whole or not at all, so a gang
that got `a` of its `d` devices holds all of them for a / d of the time.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from heapq import heapify, heappop, heappush

from bastion.job import JobRecord
from bastion.scheduler.policies.srtf import remaining
from bastion.scheduler.policies.time_share import (
    Asking,
    Ranks,
    asking_in,
    capacities,
    least_of_its_share_first,
    time_received,
)
from bastion.scheduler.snapshot import Snapshot

SpeedOf = Callable[[JobRecord, int], float]
"""The speed of a job on that many devices; only ratios count."""


def in_proportion(job: JobRecord, devices: int) -> float:
    """Twice the devices, twice the speed: the assumption for a job of which nothing is known."""
    del job
    return float(devices)


def optimus(snapshot: Snapshot, now: float, speed_of: SpeedOf = in_proportion) -> Ranks:
    """
    Return ranks by the ratio of the time received to the share of time that Optimus gives.

    The remaining work of a job is what it reports as `remaining_s`, or what its time limit leaves.
    A job for which neither is known comes last.
    """
    there = capacities(snapshot)
    shares: dict[str, float] = {}
    for kind, jobs in asking_in(snapshot).items():
        left = {each.job.id: remaining((each.job,), snapshot, now) for each in jobs}
        given = shared_out(jobs, [left[each.job.id] for each in jobs], there[kind], speed_of)
        shares |= {each.job.id: n / each.devices for each, n in zip(jobs, given)}
    return least_of_its_share_first(shares, time_received(snapshot, now))


def shared_out(
    jobs: Sequence[Asking], left_s: Sequence[float], capacity: int, speed_of: SpeedOf
) -> list[int]:
    """
    Return how many devices each of `jobs` gets, at most what it asks for.

    Args:
        jobs: In the order that breaks ties.
        left_s: The remaining time of each on all devices that it asks for.
        capacity: The number of devices.
        speed_of: The speed of a job on a number of devices.
    """
    given = [0] * len(jobs)
    # One device each. If there are too few, the jobs that end soonest get them.
    first = sorted(range(len(jobs)), key=lambda at: (left_s[at], at))[: max(capacity, 0)]
    gains: list[tuple[float, int]] = []
    for at in first:
        given[at] = 1
        gains.append((-_gain(jobs[at], left_s[at], 1, speed_of), at))
    heapify(gains)
    free = capacity - len(first)
    while free > 0 and gains:
        gain, at = heappop(gains)
        if gain > 0 or given[at] == jobs[at].devices:
            continue
        given[at] += 1
        free -= 1
        heappush(gains, (-_gain(jobs[at], left_s[at], given[at], speed_of), at))
    return given


def _gain(each: Asking, left_s: float, devices: int, speed_of: SpeedOf) -> float:
    """Return by how many seconds one more device brings its completion forward."""
    if devices >= each.devices or math.isinf(left_s):
        return 0.0
    work = left_s * speed_of(each.job, each.devices)
    return work / speed_of(each.job, devices) - work / speed_of(each.job, devices + 1)
