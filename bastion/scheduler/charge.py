"""
Charge: what an admitted job holds in the quota, from its record, and how usage of it decays.

A job is charged what it asks for, replica by replica as they end. One that takes whole machines
(`exclusive`, or a slice) is charged all that these machines have, since no other job can use it.

It must not know shares.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import expm1, log

from bastion.job import JobRecord
from bastion.machine import Machine
from quota.amounts import NOTHING, Amounts


def held_by(job: JobRecord, machines: Mapping[str, Machine]) -> Amounts:
    """
    What `job` is charged now, of every type.

    Args:
        job: Whether admitted or not; one that is not holds nothing.
        machines: By name, each with what it has; one that is not known any more is not charged.
    """
    if not job.request.takes_whole:
        return len(job.alive) * job.request.per_replica
    names = {host.machine for place in job.alive for host in place.hosts}
    return Amounts.sum(machines[n].resources if n in machines else NOTHING for n in sorted(names))


def faded(passed_s: float, half_life_s: float) -> tuple[float, float]:
    """
    Which part of earlier usage is left after a time, and for how many seconds what is held counts.

    Usage fades while it is held, too. So the sum does not depend on the moments at which it is
    taken, and a service and its replay, which take it at others, come to the same.
    """
    rate = log(2) / half_life_s
    gone = -expm1(-passed_s * rate)
    return 1.0 - gone, gone / rate
