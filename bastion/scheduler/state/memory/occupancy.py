"""
`Occupancy`: the machines, what holds them, and what is free, kept between cycles.

A cycle starts by updating it with the jobs that were added, removed or changed since the last. What
the cycle then tries and decides is a trial on its capacity, undone at the end.

This module must not know which gangs wait.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Collection, Iterable, Mapping
from operator import attrgetter, is_

from bastion.job import JobClass, JobRecord, Phase
from bastion.machine import Machine, MachinePhase
from bastion.scheduler.placement.capacity import Capacity
from bastion.scheduler.placement.feasibility import Beyond, Extent
from bastion.scheduler.queue.shape import Shapes
from bastion.scheduler.snapshot import Snapshot
from bastion.scheduler.state.holders.classes import Classify, Newcomer
from bastion.scheduler.state.holders.footprint import Located
from bastion.scheduler.state.holders.running import Running
from quota.amounts import NOTHING, Amounts

_name = attrgetter("name")


class Occupancy:
    """Everything that is held, between two cycles."""

    def __init__(self, snapshot: Snapshot, now: float) -> None:
        self.capacity = Capacity(snapshot, now)
        self.running: dict[str, Running] = {}
        """Every admitted gang, in the order of the names; replaced when it changes."""
        self.of_job: dict[str, Running] = {}
        self.held: dict[str, Amounts] = {}
        """Project -> what it holds of the types under quota."""
        self.by_project: dict[str, list[Running]] = {}
        self.on: dict[str, list[Running]] = {}
        """Machine -> what holds anything there, by name."""
        self.leaving: dict[str, Running] = {}
        """Those that are being stopped."""
        self.elastic: dict[str, Running] = {}
        """Those that may grow, and may have grown."""
        self.lowest: dict[str, int] = {}
        """Project -> the largest priority number of its running gangs."""
        self.reclassed: dict[str, Running] = {}
        """Those whose class differs from their record."""
        self.beyond: dict[int, Beyond | None] = {}
        """Form of a shape -> why it can never be held."""
        self.extent: Extent | None = None
        self.located: dict[str, Located] = {}
        """First job of a waiting gang -> where it was to lie in the last cycle."""
        self._quota = snapshot.quota
        self._pools = dict(snapshot.pools)
        self._machines = tuple(snapshot.machines.values())
        self._lasts = not (snapshot.stockouts or self.capacity.closures)
        self._counted: dict[str, bool] = {}
        """Running gang -> whether its machines count it as guaranteed."""
        self._unsettled: set[str] = set()
        """Projects whose classes a promise affected."""

    def stands(self, snapshot: Snapshot) -> bool:
        """Whether the machines are the same as before; takes over their latest records."""
        if not self._lasts or snapshot.stockouts or snapshot.pools != self._pools:
            return False
        machines = tuple(snapshot.machines.values())
        if len(machines) != len(self._machines):
            return False
        if not all(map(is_, machines, self._machines)):
            for old, new in zip(self._machines, machines):
                if old is not new and _facts(old) != _facts(new):
                    return False
                self.capacity.by_name[new.name].machine = new
            self._machines = machines
        return True

    # What changed

    def update(
        self,
        jobs: Mapping[str, JobRecord],
        gone: Collection[JobRecord],
        come: Iterable[JobRecord],
        shapes: Shapes,
    ) -> set[str]:
        """
        Remove what is no longer held, add what is held now, and return the projects of both.

        The `jobs` of the cycle are those of the last without the records `gone`, with those that
        have `come`; waiting jobs need not be among the latter.
        """
        for job in gone:
            self.located.pop(job.id, None)
        left = {r.name: r for job in gone if (r := self.of_job.get(job.id)) is not None}
        gangs = {r.jobs[0].gang for r in left.values()}
        gangs |= {job.gang for job in come if job.is_admitted}
        for name in (name for gang in gangs for name in gang):  # a gang is assembled again
            running = self.of_job.get(name)
            if running is not None:
                left[running.name] = running
        alone = [job for job in come if _holds(job) and not job.gang]
        new = [Running((job,), shapes.of((job,)), self.capacity) for job in alone]
        for gang in gangs:
            members = [jobs[name] for name in gang if name in jobs and _holds(jobs[name])]
            new += _of_gang(members, shapes, self.capacity)
        self._change(list(left.values()), new)
        return {running.project for running in (*left.values(), *new)}

    def _change(self, left: list[Running], new: list[Running]) -> None:
        if not (left or new):
            return
        running = dict(self.running)
        for each in left:
            del running[each.name]
            self._remove(each)
        for each in new:
            running[each.name] = each
            self._add(each)
        self.running = {name: running[name] for name in sorted(running)}
        for project in {each.project for each in (*left, *new)}:
            found = self.by_project.get(project)
            if found:
                self.lowest[project] = max(each.priority for each in found)
            else:
                self.lowest.pop(project, None)
                self.by_project.pop(project, None)
                self.held.pop(project, None)
        self._refill(machine for each in left for machine in _machines_of(each))

    def _add(self, running: Running) -> None:
        for job in running.jobs:
            self.of_job[job.id] = running
        project = running.project
        self.held[project] = self.held.get(project, NOTHING) + running.held
        insort(self.by_project.setdefault(project, []), running, key=_name)
        for machine in _machines_of(running):
            insort(self.on.setdefault(machine, []), running, key=_name)
        if running.is_leaving:
            self.leaving[running.name] = running
        if running.shape.may_grow:
            self.elastic[running.name] = running
        self.capacity.charge(running.charge)

    def _remove(self, running: Running) -> None:
        for job in running.jobs:
            del self.of_job[job.id]
        self.held[running.project] -= running.held
        _take_out(self.by_project[running.project], running)
        for machine in _machines_of(running):
            _take_out(self.on[machine], running)
        self.leaving.pop(running.name, None)
        self.elastic.pop(running.name, None)
        self.reclassed.pop(running.name, None)
        self._counted.pop(running.name, None)
        self.capacity.charge(running.charge, sign=-1)

    def _refill(self, machines: Iterable[str]) -> None:
        for name in set(machines):
            room = self.capacity.by_name.get(name)
            if room is not None:
                known = (r for r in self.on.get(name, ()) if r.name in self._counted)
                held = (
                    each for r in known for each in r.on(name, is_guaranteed=self._counted[r.name])
                )
                self.capacity.refill(room, held)  # the others are added with their class

    # Classes

    def classify(
        self,
        classify: Classify,
        moved: set[str],
        promised: list[Newcomer],
        victims: Collection[str],
    ) -> Mapping[str, JobClass]:
        """
        Set the class of running gangs, and return those of the `promised`.

        Only for projects where anything has `moved`, or that a promise affects.
        """
        unsettled = {each.project for each in promised}
        unsettled |= {self.running[name].project for name in victims}
        found = self._with_kin(moved | unsettled | self._unsettled)
        self._unsettled = unsettled
        for each in found:
            each.refund()
        classes = self._derive(classify, found, promised, victims)
        touched: set[str] = set()
        for each in found:
            was, is_guaranteed = self._counted.get(each.name), not each.is_borrowed
            if was is is_guaranteed:
                continue
            self._counted[each.name] = is_guaranteed
            if was is None:
                for part, place in each.places:
                    self.capacity.occupy(part, place, guaranteed=is_guaranteed)
            else:
                touched.update(_machines_of(each))
        self._refill(touched)
        return classes

    def classify_again(
        self, classify: Classify, promised: list[Newcomer], victims: Collection[str]
    ) -> Mapping[str, JobClass]:
        """Run `classify` with fewer `promised`; the machines count running gangs as before."""
        return self._derive(classify, self._with_kin(self._unsettled), promised, victims)

    def _with_kin(self, projects: set[str]) -> list[Running]:
        """Return what runs in `projects`, and in projects that share a group with them."""
        names = sorted(projects.union(*map(self._quota.kin, projects)))
        return [each for name in names for each in self.by_project.get(name, ())]

    def _derive(
        self,
        classify: Classify,
        running: list[Running],
        promised: list[Newcomer],
        victims: Collection[str],
    ) -> Mapping[str, JobClass]:
        for each in running:
            each.restore_class()
        classes = classify(self._quota, running, promised, victims)
        for each in running:
            if each.job_class is not each.recorded_class:
                self.reclassed[each.name] = each
            else:
                self.reclassed.pop(each.name, None)
        return classes


def _holds(job: JobRecord) -> bool:
    return job.attempt is not None and job.is_admitted


def _of_gang(members: list[JobRecord], shapes: Shapes, capacity: Capacity) -> list[Running]:
    """Return a gang as it runs; jobs that are being stopped are separate."""
    members.sort(key=lambda job: (job.index, job.id))
    alone = [job for job in members if job.phase is Phase.STOPPING]
    found = [Running((job,), shapes.of((job,)), capacity) for job in alone]
    together = tuple(job for job in members if job.phase is not Phase.STOPPING)
    if together:
        found.append(Running(together, shapes.of(together), capacity))
    return found


def _machines_of(running: Running) -> Iterable[str]:
    return dict.fromkeys(host.machine for _, place in running.places for host in place.hosts)


def _take_out(found: list[Running], running: Running) -> None:
    del found[bisect_left(found, running.name, key=_name)]


def _facts(machine: Machine) -> tuple[object, ...]:
    """Return everything about a machine that determines what may be placed there."""
    return (
        machine.name,
        machine.pool,
        machine.slice,
        machine.tier,
        machine.zone,
        machine.hostname,
        machine.accepts,
        machine.phase is MachinePhase.CREATING,
        machine.phase is MachinePhase.DELETING,
        machine.resources,
        machine.bad_devices,
        machine.labels,
    )
