"""The frozen input of one cycle of the scheduler."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field

from bastion.job import JobRecord
from bastion.machine import Machine, Pool
from bastion.scheduler.effort import STEPS
from bastion.scheduler.promise import PlannedStart, Promise
from bastion.scheduler.reasons.reason import ProviderStockout
from bastion.scheduler.runs import Runs
from bastion.value import value
from quota import Quota


@value
class Snapshot:
    """The whole input of `decide`."""

    quota: Quota
    quota_problem: str = ""
    """Why the newest quota file is not in force, or empty."""
    jobs: Mapping[str, JobRecord]
    arrays: Mapping[str, str] = field(default_factory=dict)
    """Array -> the states of all its tasks, for the jobs that wait for it."""
    machines: Mapping[str, Machine]
    pools: Mapping[str, Pool]
    promises: tuple[Promise, ...] = ()
    planned: tuple[PlannedStart, ...] = ()
    considered: frozenset[tuple[str, bool]] = frozenset()
    """Searches made by earlier cycles of this round: `Plan.considered` of the last plan."""
    steps: int = STEPS
    """How many search steps the cycle may take."""
    seq: int = 0
    """Of the commit that will contain the plan: new machines are named `<pool>-<seq>-<i>`."""
    decayed: Mapping[str, float] = field(default_factory=dict)
    """Project or group -> what it borrowed, decayed to now: dominant share x seconds."""
    decayed_by_user: Mapping[tuple[str, str], float] = field(default_factory=dict)
    """(project, user) -> what the user held, decayed to now: dominant share x seconds."""
    spent: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    """Project or group -> unit hours by type that count against its budget now."""
    stockouts: Mapping[str, ProviderStockout] = field(default_factory=dict)
    """Pool -> why its provider creates no machines now, and until when."""
    runs: Mapping[str, Runs] = field(default_factory=dict)
    """Kind of job -> how long its latest runs took; only estimates use it."""
    reports: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    """Job -> numbers that it reported, for policies."""
