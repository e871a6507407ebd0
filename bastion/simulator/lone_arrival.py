"""
`LoneArrival`: the cycle in which one job arrives, nothing else waits, and it starts.

If the job is within its project's share and fits on free devices, the scheduler's cycle starts it
there before it considers anything else, and nothing else can change. The scheduler's own placement
then says where, on capacity that is carried from event to event. Any other cycle is left to the
scheduler. A test compares the result with whole cycles, start by start.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from bastion.job import HostPlace, JobClass, ReplicaPlace
from bastion.machine import Machine
from bastion.scheduler.placement.candidates import PlacementPolicy
from bastion.scheduler.placement.capacity import Capacity, Occupied
from bastion.scheduler.placement.hold import Charge
from bastion.scheduler.placement.place import Placed, place
from bastion.scheduler.plan import Admit, Plan, Verdicts
from bastion.scheduler.policies.admission import admit_all
from bastion.scheduler.queue.shape import Part, Shape, Shapes
from bastion.scheduler.reasons.holding import WithinShare
from bastion.scheduler.state.holders.classes import classify
from bastion.scheduler.state.holders.footprint import pairs_of
from bastion.scheduler.state.holders.running import Running
from bastion.scheduler.state.memory.policy_choice import Parts
from bastion.simulator.cluster.cluster import Cluster
from bastion.simulator.engine.jobs.life import Life
from bastion.simulator.engine.state import State
from quota import NOTHING, Amounts, Quota


class LoneArrival:
    """
    Starts a job that arrives alone.

    Args:
        quota: In force for the whole time.
        placement: Which machines are best.
    """

    def __init__(self, quota: Quota, placement: PlacementPolicy) -> None:
        self._quota, self._placement = quota, placement
        self._shapes = Shapes(quota)
        self._machines: Mapping[str, Machine] = {}
        self._capacity: Capacity | None = None
        self._taken: dict[Life, _Taken] = {}
        self._on: dict[str, dict[Life, list[Occupied]]] = {}
        """The same, by machine."""
        self._held: dict[str, Amounts] = {}
        """What each project holds."""

    @staticmethod
    def is_enough(cluster: Cluster, quota: Quota, parts: Parts) -> bool:
        """Whether only shares and devices decide whether a lone job starts."""
        is_plain = parts.admission is admit_all and parts.classify is classify
        is_plain = is_plain and not (quota.groups or quota.maintenance or quota.budgets)
        if not is_plain or len(quota.tiers) != 1:
            return False
        if any(project.has_user_limits for project in quota.projects.values()):
            return False
        stands = all(shape.most <= shape.count for shape in cluster.shapes)
        return stands and quota.scheduler.plan_after_s > 0

    def plan(self, state: State, now: float) -> Plan | None:
        """Return the plan of the cycle, or None if it takes the scheduler to find it."""
        life = next(reversed(state.lives.values()), None)
        if life is None or life.line is None or life.record.attempts:
            return None
        if state.waiting.count != 1 or state.stopping or not state.is_uncommitted:
            return None
        if state.has_unsettled_classes:
            return None
        project = self._quota.projects.get(life.job.project)
        if project is None or state.stockouts or state.borrowers[project.name]:
            return None
        self._see(state, now)
        shape, held = self._shapes.of(life.gang), self._held.get(project.name, NOTHING)
        if shape.takes_whole or not shape.asked or not project.nominal.holds(held, shape.asked):
            return None
        assert self._capacity is not None
        placed = place(self._capacity, shape, self._placement, guaranteed=True)
        if placed is None:
            return None
        self._keep(life, shape, placed)
        types = shape.asked.types()
        nominal = project.nominal.only(types)
        holds = self._held[project.name].only(types)
        reason = WithinShare(project=project.name, held=holds & nominal, nominal=nominal)
        (placement,) = placed.placements
        admit = Admit(job_class=JobClass.GUARANTEED, placement=placement, reason=reason)
        verdicts = Verdicts({life.record.id: admit})
        return Plan(verdicts=verdicts, promises=(), planned=(), new_machines=())

    def _see(self, state: State, now: float) -> None:
        """Take over what has come and gone since the last call."""
        moved = state.moved if state.moved is not None else {}
        changed = [life for life in moved if not self._knows(life, state)]
        moved.clear()
        for life in changed:
            if life in self._taken:
                self._give_back(life)
        if self._capacity is None or self._machines != state.machines:
            self._machines = dict(state.machines)
            self._capacity = Capacity(replace(state.snapshot(now), stockouts={}), now)
            for taken in self._taken.values():
                self._occupy(taken)
        for life in changed:
            if life in state.holding:
                self._add(life)

    def _knows(self, life: Life, state: State) -> bool:
        """Whether the known holdings of a job, and their terms, are current."""
        taken, attempt = self._taken.get(life), life.record.attempt
        if taken is None or life not in state.holding or attempt is None:
            return False
        return life.version == taken.version and attempt.job_class is taken.job_class

    def _add(self, life: Life) -> None:
        """Take the devices of a job that a cycle of the scheduler started."""
        assert self._capacity is not None and life.record.attempt is not None
        running = Running((life.record,), self._shapes.of((life.record,)), self._capacity)
        job_class = life.record.attempt.job_class
        taken = _Taken(life.version, job_class, running.places, running.charge, running.held)
        self._note(life, taken)
        self._occupy(taken)

    def _keep(self, life: Life, shape: Shape, placed: Placed) -> None:
        """Keep what `place` has taken for a job that starts now."""
        places = [*pairs_of(shape.parts, placed.placements)]
        version, own = life.version + 1, JobClass.GUARANTEED
        self._note(life, _Taken(version, own, places, placed.charge, placed.total))

    def _note(self, life: Life, taken: _Taken) -> None:
        self._taken[life] = taken
        for part, host in taken.hosts():
            mine = self._on.setdefault(host.machine, {}).setdefault(life, [])
            mine.append((part, host, taken.is_guaranteed))
        project = life.job.project
        self._held[project] = self._held.get(project, NOTHING) + taken.units

    def _occupy(self, taken: _Taken) -> None:
        assert self._capacity is not None
        for part, replica in taken.places:
            self._capacity.occupy(part, replica, guaranteed=taken.is_guaranteed)
        self._capacity.charge(taken.charge)

    def _give_back(self, life: Life) -> None:
        taken = self._taken.pop(life)
        self._held[life.job.project] -= taken.units
        assert self._capacity is not None
        self._capacity.charge(taken.charge, sign=-1)
        for name in {host.machine for _, host in taken.hosts()}:
            del self._on[name][life]
            room = self._capacity.by_name.get(name)
            if room is not None:
                held = [each for those in self._on[name].values() for each in those]
                self._capacity.refill(room, held)


class _Taken(NamedTuple):
    """What a job holds."""

    version: int
    """Of its attempt."""
    job_class: JobClass
    places: Sequence[tuple[Part, ReplicaPlace]]
    charge: Charge
    units: Amounts

    @property
    def is_guaranteed(self) -> bool:
        return self.job_class is JobClass.GUARANTEED

    def hosts(self) -> list[tuple[Part, HostPlace]]:
        return [(part, host) for part, replica in self.places for host in replica.hosts]
