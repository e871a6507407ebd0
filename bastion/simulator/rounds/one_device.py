"""
`OneDeviceRound`: a round of a project that owns all devices of one type, with one-device jobs.

There, the scheduler's cycle on free machines starts the first jobs of its order until no device is
left: nothing is lent, no gang is blocked behind another, and nothing depends on where a job is
placed. The round is therefore a walk along the order that is carried from round to round, and the
scheduler's own placement says where jobs start. A test compares it with the cycle itself, start by
start.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping
from dataclasses import replace

from bastion.job import HostPlace, JobClass, Placement
from bastion.machine import Machine
from bastion.scheduler.placement.candidates import PlacementPolicy
from bastion.scheduler.placement.capacity import Capacity, Occupied
from bastion.scheduler.placement.hold import Charge
from bastion.scheduler.placement.place import place
from bastion.scheduler.policies.admission import admit_all
from bastion.scheduler.queue.shape import Part, Shapes
from bastion.scheduler.state.holders.classes import classify
from bastion.scheduler.state.memory.policy_choice import Parts
from bastion.simulator.cluster.cluster import Cluster
from bastion.simulator.engine.jobs.life import Life
from bastion.simulator.engine.state import State
from bastion.simulator.rounds.line import Line
from bastion.simulator.rounds.rounds import Moves, standing
from bastion.simulator.rounds.standing import Standing
from bastion.simulator.workload.job import Workload
from quota import Quota


class OneDeviceRound:
    """
    Chooses the jobs of a round by one walk, if that is what a cycle would do.

    Args:
        line: The jobs, in order.
        quota: In force for the whole time.
        placement: Which machines are best.
    """

    def __init__(self, line: Line, quota: Quota, placement: PlacementPolicy) -> None:
        self._line = line
        self.is_lasting = line.is_lasting
        self._rooms = _Rooms(quota, placement)
        self._standing = Standing()

    @staticmethod
    def is_enough(cluster: Cluster, workload: Workload, quota: Quota, parts: Parts) -> bool:
        """Whether the cycle only walks along the order."""
        is_plain = parts.admission is admit_all and parts.classify is classify
        if not is_plain or parts.order.between_users:
            return False
        if len(cluster.types) != 1 or quota.maintenance or quota.budgets:
            return False
        if any(each.what == "quota" for each in workload.script):
            return False
        projects = workload.projects
        if len(projects) != 1 or len(quota.tiers) != 1 or projects[0] not in quota.projects:
            return False
        project = quota.project(projects[0])
        if project.group or project.has_user_limits:
            return False
        grows = any(change.count > 0 for change in cluster.changes)
        (kind,) = cluster.types
        owns_all = project.nominal[kind] >= cluster.totals[kind]
        return owns_all and not grows and all(job.devices == 1 for job in workload.jobs)

    def waits(self, life: Life) -> None:
        """Add a job that waits from now on."""
        self._line.add(life)

    def waits_no_more(self, life: Life) -> None:
        """Remove a job that starts or is taken out."""
        self._line.remove(life)

    def choose(self, state: State, now: float) -> Moves:
        """Return the first of the line, as long as devices are left."""
        running, waiting = self._line.ranked(state, now)
        left = self._standing.devices(state)[state.cluster.types[0]]
        kept = at = 0
        while at < len(waiting) and left > kept + at:
            kept = min(bisect_left(running, waiting[at], kept), left - at)
            if left > kept + at:
                at += 1
        kept = min(len(running), left - at)
        starts = {life.record.id: JobClass.GUARANTEED for *_, life in waiting[:at]}
        return Moves(stops=tuple(life for *_, life in running[kept:]), starts=starts)

    def place(
        self, state: State, starting: Mapping[str, JobClass], now: float
    ) -> Mapping[str, Placement]:
        """Return where the scheduler would start them on free devices beside continuing jobs."""
        self._rooms.see(state, now)
        found = {}
        for name in starting:
            placement = self._rooms.take(state.lives[name])
            if placement is not None:
                found[name] = placement
        return found


class _Rooms:
    """The scheduler's capacity, carried from round to round."""

    def __init__(self, quota: Quota, placement: PlacementPolicy) -> None:
        self._shapes, self._placement = Shapes(quota), placement
        self._machines: Mapping[str, Machine] = {}
        self._capacity: Capacity | None = None
        self._held: dict[Life, tuple[int, Part, HostPlace, Charge]] = {}
        """What each job holds, with the number of its attempt."""
        self._on: dict[str, dict[Life, Occupied]] = {}
        """The same, by machine."""

    def see(self, state: State, now: float) -> None:
        """Free what jobs have left; start over if machines came, went or were closed."""
        holding = state.holding
        for life in [
            e for e, held in self._held.items() if e not in holding or held[0] != e.version
        ]:
            self._give_back(life)
        if self._capacity is None or self._machines != state.machines:
            self._machines = dict(state.machines)
            seen = state.snapshot(now)
            pools = standing(seen.pools, seen.machines)
            self._capacity = Capacity(replace(seen, pools=pools), now)
            for _, _, host, charge in self._held.values():
                room = self._capacity.by_name.get(host.machine)
                if room is not None:
                    self._capacity.refill(room, self._on[host.machine].values())
                    self._capacity.charge(charge)

    def _give_back(self, life: Life) -> None:
        _, _, host, charge = self._held.pop(life)
        del self._on[host.machine][life]
        assert self._capacity is not None
        room = self._capacity.by_name.get(host.machine)
        if room is not None:
            self._capacity.refill(room, self._on[host.machine].values())
            self._capacity.charge(charge, sign=-1)

    def take(self, life: Life) -> Placement | None:
        """Return the device of a job that starts now; None if none is free."""
        assert self._capacity is not None
        shape = self._shapes.of(life.gang)
        placed = place(self._capacity, shape, self._placement, guaranteed=True)
        if placed is None:
            return None
        (placement,) = placed.placements
        host, part = placement[0].hosts[0], shape.parts[0]
        self._held[life] = life.version + 1, part, host, placed.charge
        self._on.setdefault(host.machine, {})[life] = part, host, True
        return placement
