"""
Charge: what an admitted job holds under quota, from its record, and how past usage decays.

A job is charged what it asks for, replica by replica until each ends. A job that takes whole
machines (`exclusive`, or a slice) is charged everything that they have, because no other job can
use it.

This module must not know shares.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import expm1, log

from bastion.job import JobRecord
from bastion.machine import Machine
from quota.amounts import NOTHING, Amounts


def held_by(job: JobRecord, machines: Mapping[str, Machine]) -> Amounts:
    """
    Return what `job` is charged now, for every type.

    Args:
        job: An admitted job, or any other: a job that is not admitted holds nothing.
        machines: By name, each with what it has; a machine that is not in it is not charged.
    """
    if not job.request.takes_whole:
        return len(job.alive) * job.request.per_replica
    names = {host.machine for place in job.alive for host in place.hosts}
    return Amounts.sum(machines[n].resources if n in machines else NOTHING for n in sorted(names))


def faded(passed_s: float, half_life_s: float) -> tuple[float, float]:
    """
    Return the fraction of earlier usage left after a time, and the seconds to count for what is
    held.

    Usage decays while it accrues, too. The sum therefore does not depend on when it is computed,
    and a service and its replay, which compute it at different times, agree.
    """
    rate = log(2) / half_life_s
    gone = -expm1(-passed_s * rate)
    return 1.0 - gone, gone / rate
