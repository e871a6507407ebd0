"""`tiresias`: attained service in a few levels; within a level, first come, first served."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence

from bastion.job import JobRecord
from bastion.scheduler.policies.las import attained
from bastion.scheduler.snapshot import Snapshot

LEVELS = (3_600.0, 36_000.0)
"""
Unit-seconds at which a job drops to the next level.

The levels are few, because with many, small differences would preempt. One and ten device hours are
our choice.
"""


def level(gang: Sequence[JobRecord], snapshot: Snapshot, now: float) -> float:
    """
    Return the level of its attained service, starting at 0.

    Source: discretized two-dimensional LAS (Gu et al., Tiresias, NSDI 2019).
    """
    return float(bisect_right(LEVELS, attained(gang, snapshot, now)))
