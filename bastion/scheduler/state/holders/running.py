"""
`Running`: an admitted gang as a cycle sees it: what it holds, since when, until when at most.

Jobs of a gang that are being stopped are separate from the rest: they hold their devices until they
end, but they cannot be stopped again.

This module must not know which gangs want its devices.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property

from bastion.job import Attempt, JobClass, JobRecord, Phase, ReplicaPlace
from bastion.scheduler.placement.capacity import Capacity, Occupied
from bastion.scheduler.placement.hold import Charge
from bastion.scheduler.queue.order import Ids, ids_of
from bastion.scheduler.queue.shape import Part, Shape
from bastion.scheduler.state.holders.footprint import Footprint
from quota.amounts import NOTHING, Amounts


class Running:
    """One admitted gang, or one job of it that is being stopped."""

    def __init__(self, jobs: Sequence[JobRecord], shape: Shape, capacity: Capacity) -> None:
        first = jobs[0]
        self.jobs = jobs
        self.name = first.id
        self.project = first.project
        self.user = first.user
        self.shape = shape
        self.priority = shape.priority
        self.grace_s = shape.grace_s
        self.admitted_at = math.inf
        self.started_at = -math.inf
        """When the last of its jobs started: a lost job starts again alone."""
        recorded = set()
        self.replicas = 0
        """How many it started with; `places` has those that have not ended."""
        self.places: list[tuple[Part, ReplicaPlace]] = []
        for job, part in zip(jobs, shape.parts):
            attempt = job.attempt
            assert attempt is not None, "what holds devices has an attempt"
            self.admitted_at = min(self.admitted_at, attempt.admitted_at)
            self.started_at = max(self.started_at, _began_at(attempt))
            recorded.add(attempt.job_class)
            self.replicas += len(attempt.placement)
            for place in attempt.alive:
                self.places.append((part, place))
        self.phase = first.phase
        self.is_leaving = first.phase is Phase.STOPPING
        self.charge = charge_of(self.places, capacity)
        self.held = self.charge[0] if len(self.charge) == 1 else Amounts.sum(self.charge)
        self.frees_at = self._frees_at()
        self.cover = ""
        """The group whose share covers it, if it is beyond that of its project."""
        self._was = JobClass.BORROWED if JobClass.BORROWED in recorded else JobClass.GUARANTEED
        self.recorded_class = self._was if len(recorded) == 1 else None
        """Its class, if the records of all its jobs agree."""
        self.restore_class()
        self.refund()

    def restore_class(self) -> None:
        """Take the class of its record."""
        self.job_class = self._was

    def refund(self) -> None:
        """Reset: no gang that waits for its end counts on anything of it."""
        self.left: Charge = self.charge
        """What nothing counts on yet."""
        self.is_spent = not any(self.charge)
        """Whether nothing of that is left."""

    def _frees_at(self) -> float:
        """When it has ended at the latest by itself; infinite if nothing bounds it."""
        if self.is_leaving:
            stops = [job.attempt.stop for job in self.jobs if job.attempt is not None]
            return max((stop.deadline for stop in stops if stop is not None), default=0.0)
        if self.shape.max_runtime_s is None:
            return math.inf
        return self.started_at + self.shape.max_runtime_s + self.grace_s

    def pay(self, tier: int, units: Amounts) -> None:
        """Let a gang that waits for it count on `units` of its charge in `tier`."""
        left = list(self.left)
        left[tier] = left[tier] - units
        self.left = tuple(left)
        self.is_spent = not any(left)

    @property
    def saved_at(self) -> float:
        """Its work is saved up to here."""
        attempts = [job.attempt for job in self.jobs if job.attempt is not None]
        saved = [a.checkpoint_at for a in attempts if a.checkpoint_at is not None]
        return max([min(map(_began_at, attempts), default=self.started_at), *saved])

    @property
    def is_grown(self) -> bool:
        """Whether it has more than its minimum replicas, which it may be asked to give back."""
        return self.shape.may_grow and len(self.places) > self.shape.replicas

    def has_run_for(self, least_s: float, now: float) -> bool:
        """Whether the last of its jobs started at least `least_s` ago."""
        return now >= self.started_at + least_s

    @property
    def borrows(self) -> bool:
        """Whether it may be beyond its project's share, as far as its own request says."""
        return self.shape.borrows

    @property
    def is_borrowed(self) -> bool:
        """Whether it uses what others leave idle."""
        return self.job_class is JobClass.BORROWED

    @cached_property
    def footprint(self) -> Footprint:
        """What it takes of which machine."""
        return Footprint(self.places)

    def on(self, machine: str, *, is_guaranteed: bool) -> Iterator[Occupied]:
        """Yield what its replicas hold of `machine`."""
        for part, place in self.places:
            for host in place.hosts:
                if host.machine == machine:
                    yield part, host, is_guaranteed

    @cached_property
    def ids(self) -> Ids:
        """Ids of its jobs."""
        return ids_of(self.jobs)

    @property
    def gang(self) -> Ids:
        """Ids of all jobs of its gang, including those being stopped separately."""
        return self.jobs[0].gang or self.ids


def _began_at(attempt: Attempt) -> float:
    return attempt.admitted_at if attempt.started_at is None else attempt.started_at


def charge_of(places: Iterable[tuple[Part, ReplicaPlace]], capacity: Capacity) -> Charge:
    """Return the charge of `places`, by tier: what they ask for, or whole machines."""
    charge = capacity.nothing()
    whole: set[str] = set()
    last = capacity.tier_count - 1
    for part, place in places:
        tier = min(place.tier, last)
        if not part.takes_whole:
            charge[tier] = charge[tier] + part.charged
            continue
        for host in place.hosts:
            room = capacity.by_name.get(host.machine)
            if host.machine not in whole:
                whole.add(host.machine)
                cost = room.full.only(capacity.types) if room else NOTHING
                charge[tier] = charge[tier] + cost
    return tuple(charge)
