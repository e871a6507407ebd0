"""
Moves: who starts and who is stopped.

It must not know why.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import field, replace
from typing import NamedTuple

from bastion.machine import Machine
from bastion.scheduler.placement.place import Placed
from bastion.scheduler.queue.order import Gang
from bastion.scheduler.queue.shape import Shape
from bastion.scheduler.reasons.reason import PreemptReason
from bastion.value import value


class Admitted(NamedTuple):
    """A gang that starts now."""

    gang: Gang
    shape: Shape
    placed: Placed
    within_share: bool
    """Whether it was, when it was admitted or promised its place."""


@value
class Doom:
    """When a victim is told to stop, and when it has ended at the latest."""

    by: str
    stop_at: float
    end_at: float
    reason: PreemptReason
    is_firm: bool = True
    """Otherwise it may still be spared: a gang within its share may break the promise behind it."""


@value
class Moves:
    """What a cycle has decided so far."""

    started: tuple[Admitted, ...] = ()
    stopped: Mapping[str, Doom] = field(default_factory=dict)
    """By job."""
    machines: tuple[Machine, ...] = ()
    """Those that are to be made for gangs that start."""

    def without(self, jobs: Collection[str]) -> Moves:
        """The same, but that the gangs of `jobs` do not start, nor are stopped."""
        stopped = {job: doom for job, doom in self.stopped.items() if job not in jobs}
        started = tuple(each for each in self.started if each.gang[0].id not in jobs)
        placements = (place for each in started for place in each.placed.placements)
        used = {h.machine for place in placements for replica in place for h in replica.hosts}
        machines = tuple(each for each in self.machines if each.name in used)
        return replace(self, started=started, stopped=stopped, machines=machines)
