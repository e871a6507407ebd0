"""
What orders have in common that give every job a share of time.

A policy computes the fraction of the time for which each job should hold its devices. The job that
has received the least of its fraction goes first, so that over time each receives it.

Source: the round-based mechanism of Gavel, whose priority is allocation over time received
(Narayanan et al., OSDI 2020, section 5).
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

from bastion.job import JobRecord, Phase
from bastion.machine import MachinePhase
from bastion.scheduler.policies.las import held_s
from bastion.scheduler.queue.shape import COUNTED
from bastion.scheduler.snapshot import Snapshot

Ranks = Callable[[Sequence[JobRecord]], float]


class Asking(NamedTuple):
    """What one active job asks for."""

    job: JobRecord
    kind: str
    """The device type that it asks for most."""
    devices: int


def asking_in(snapshot: Snapshot) -> dict[str, list[Asking]]:
    """Return the waiting and running jobs by device type, in the order of their submission."""
    found: dict[str, list[Asking]] = {}
    for job in snapshot.jobs.values():
        if job.phase is Phase.QUEUED or job.attempt is not None:
            units = [(n, kind) for kind, n in job.request.units.items() if kind not in COUNTED]
            if units:
                devices, kind = max(units)
                found.setdefault(kind, []).append(Asking(job, kind, devices))
    for jobs in found.values():
        jobs.sort(key=lambda each: (each.job.submitted_at, each.job.id))
    return found


def capacities(snapshot: Snapshot) -> Counter[str]:
    """Return the number of devices by type, including machines that a pool can still create."""
    standing: Counter[str] = Counter()
    found: Counter[str] = Counter()
    for machine in snapshot.machines.values():
        if machine.accepts:
            found.update(dict(machine.resources.items()))
        standing[machine.pool] += machine.phase is not MachinePhase.DELETING
    for name, pool in snapshot.pools.items():
        for kind, units in pool.resources.items():
            found[kind] += units * max(0, pool.max_machines - standing[name])
    return found


def least_of_its_share_first(
    shares: Mapping[str, float], received: Callable[[JobRecord], float]
) -> Ranks:
    """
    Return ranks by the part of its share a job received; the highest job ranks its gang.

    Args:
        shares: Job -> fraction of the time, or of its speed; a job without one goes last.
        received: What a job has received, in the same unit.
    """

    def rank(gang: Iterable[JobRecord]) -> float:
        return max(_over(received(job), shares.get(job.id, 0.0)) for job in gang)

    return rank


def _over(received: float, share: float) -> float:
    return received / share if share > 0 else math.inf


def time_received(snapshot: Snapshot, now: float) -> Callable[[JobRecord], float]:
    """Return the fraction of the time since its submission for which a job held its devices."""

    def received(job: JobRecord) -> float:
        passed = now - job.submitted_at
        return held_s(job, snapshot, now) / passed if passed > 0 else 0.0

    return received
