"""`tiresias`: attained service in a few levels; inside a level, first come first served."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence

from bastion.job import JobRecord
from bastion.scheduler.policies.las import attained
from bastion.scheduler.snapshot import Snapshot

LEVELS = (3_600.0, 36_000.0)
"""
Unit-seconds at which a job falls to the next level.

Few levels, because many make small differences preempt; one and ten device-hours are our choice.
"""


def level(gang: Sequence[JobRecord], snapshot: Snapshot, now: float) -> float:
    """
    The level of its attained service, 0 first.

    Source: discretized two-dimensional LAS (Gu et al., Tiresias, NSDI 2019).
    """
    return float(bisect_right(LEVELS, attained(gang, snapshot, now)))
