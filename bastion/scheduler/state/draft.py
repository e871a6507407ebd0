"""
`Draft`: the plan of one cycle in the making, and the working copies behind it.

The phases change it one after the other; nothing else sees it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property

from bastion.job import JobClass
from bastion.scheduler.placement.feasibility import Beyond, Extent, beyond
from bastion.scheduler.placement.place import Placed, place
from bastion.scheduler.promise import Promise
from bastion.scheduler.queue.eligibility import LineAside
from bastion.scheduler.queue.lines import Backlog
from bastion.scheduler.queue.order import Gang, Line, stand
from bastion.scheduler.queue.shape import Shape
from bastion.scheduler.reasons.reason import WaitingReason
from bastion.scheduler.snapshot import Snapshot
from bastion.scheduler.state.decisions import Admitted, Victims
from bastion.scheduler.state.departing import Departing, Departures
from bastion.scheduler.state.holders.budgets import Budgets
from bastion.scheduler.state.holders.classes import Newcomer
from bastion.scheduler.state.holders.footprint import Footprint, pairs_of
from bastion.scheduler.state.holders.running import Running, charge_of
from bastion.scheduler.state.holders.shares import Shares
from bastion.scheduler.state.holders.user_limits import UserLimits
from bastion.scheduler.state.memory.memory import Memory
from bastion.scheduler.state.memory.policy_choice import Parts
from bastion.scheduler.state.reservation import Reservations, Reserved
from bastion.scheduler.state.search import Search
from bastion.scheduler.state.upper_bound import UpperBound
from quota.amounts import Amounts


class Draft:
    """Everything that one cycle has worked out so far."""

    def __init__(self, snapshot: Snapshot, now: float, parts: Parts, memory: Memory) -> None:
        self.snapshot, self.now, self.parts = snapshot, now, parts
        self.options = snapshot.quota.scheduler
        self.memory = memory
        self.occupancy = memory.begin(snapshot, parts, now)
        self.shapes, self.capacity = memory.shapes, self.occupancy.capacity
        self.running: Mapping[str, Running] = {}
        self.of_job = self.occupancy.of_job
        self.shares: Shares
        self.lines: Mapping[str, list[Line]] = {}
        self.backlogs: Mapping[str, Backlog] = {}
        """What waits in each project, whatever happens to it."""
        self.rest: dict[str, list[Line]] = {}
        """Lines that phase 3 passed on."""
        self.blocked: list[Line] = []
        """Lines with heads that cannot start now, in the order in which they were considered."""
        self.aside: dict[str, WaitingReason] = {}
        """Waiting jobs that are not in the queue, with reasons."""
        self.lines_aside: list[LineAside] = []
        """Others that are not, each a gang of its own."""
        self.budgets = Budgets(snapshot.quota, snapshot.spent, now)
        self.user_limits: UserLimits | None = None
        """None if nothing may be blocked."""
        self.admitted: list[Admitted] = []
        self.admitted_by: defaultdict[str, list[Admitted]] = defaultdict(list)
        """The same, by project."""
        self.starts_beyond = False
        """Whether any of these started beyond the share of its project."""
        self.class_of_promise: Mapping[str, JobClass] = {}
        self.newcomers: dict[str, Newcomer] = {}
        """Gangs with an earlier promise: their class, and what they ask of the shares."""
        self.standing = {promise.gang[0]: promise for promise in snapshot.promises}
        """Promises of earlier cycles, by the name of the gang; without those that others broke."""
        self.lapsed: list[Gang] = []
        """Gangs whose promise of an earlier cycle is void, and that still wait."""
        self.promises: dict[str, Promise] = {}
        self.starting: dict[str, Running] = {}
        """Some of the starting gangs, as the next cycle will see them."""
        self.needless: set[str] = set()
        """Gangs whose promise is not carried out in this cycle: what is free now would do."""
        self.taken_back: list[Line] = []
        """Gangs, each in a line of its own, whose start was taken back."""
        self.plans: dict[str, Reserved] = {}
        """What is closed for planned starts, by the name of the gang."""
        self.promised: dict[str, Reserved] = {}
        """What is closed for promises, by the name of the gang."""
        self.reservations = Reservations()
        self.revised = 0
        """How often something was reserved or given up."""
        self.usage_by_user: dict[str, dict[str, float]] = {}
        """Usage of projects with waiting gangs, as far as it counts in their order."""
        self.victims = Victims()
        """Running gangs that will be stopped, or are being stopped from this cycle on."""
        self.is_departing = self.victims.departs
        self.rank = parts.order.rank(snapshot, now)
        self.departures = Departures(self.occupancy.leaving, self.victims)
        self.paid: set[Running] = set()
        """Those on whose charge something counted."""
        self.search = Search(snapshot)
        self.upper_bound = UpperBound(
            self.capacity, self.occupancy, self.victims, self.search.effort.spend
        )
        self.is_borrowing = False
        """Whether phase 5 has its queues: a gang that waits again is then blocked."""
        self.may_break_promises = True
        """Whether a gang within its share may still break a promise to another."""
        self.lowest: dict[str, int] = {}

    def close(self) -> None:
        """Restore what is kept for the next cycle to its state before this one decided anything."""
        for running in self.paid:
            running.refund()
        self.memory.end()

    def cost_of(self, promise: Promise, gang: Gang) -> Amounts:
        """Return the charge of `promise` to `gang`, at least what it asks for."""
        shape = self.shapes.of(gang)
        if not shape.takes_whole:
            return shape.asked
        pairs = pairs_of(shape.parts, promise.placements)
        return shape.asked | Amounts.sum(charge_of(pairs, self.capacity))

    @property
    def extent(self) -> Extent:
        """What exists when nothing else is placed."""
        if self.occupancy.extent is None:
            self.occupancy.extent = Extent(self.snapshot, self.now, self.parts.placement)
        return self.occupancy.extent

    def beyond(self, shape: Shape) -> Beyond | None:
        """Return why no existing or possible machine holds a gang of `shape`; None if one does."""
        known = self.occupancy.beyond
        if shape.form not in known:
            policy = self.parts.placement
            known[shape.form] = beyond(self.capacity, shape, lambda: self.extent, policy)
        return known[shape.form]

    def asks(self, shape: Shape) -> Amounts:
        """Return the charge of a gang; for whole machines, as if it were alone."""
        placed = self.extent.alone(shape) if shape.takes_whole else None
        return shape.asked if placed is None else placed.total

    def spare(self, grown: Iterable[Running]) -> Amounts:
        """Return what these have above their minimum replicas."""
        return Amounts.sum(each.held - self.asks(each.shape) for each in grown)

    def may_return(self, running: Running) -> bool:
        """Whether a budget would let it start again with its minimum replicas after a stop."""
        return self.budgets.over(running.project, self.asks(running.shape)) is None

    def wait_again(self, gang: Gang) -> Line:
        """Put `gang`, which was removed from its line, back among the waiting ones."""
        line = self.line_of(gang)
        if self.is_borrowing:
            self.blocked.append(line)
        else:
            self.rest.setdefault(line.project, []).append(line)
        return line

    def line_of(self, gang: Gang) -> Line:
        """Return a line of `gang` alone."""
        key, shape, entry = stand(gang, self.shapes, self.rank)
        line = Line(key, shape)
        line.gangs = [entry]
        return line

    # Starting

    def try_place(
        self, shape: Shape, allows: Callable[[Amounts], bool] | None = None, *, guaranteed: bool
    ) -> Placed | None:
        """Take devices for a gang, or take nothing and return None; `allows` as in `place`."""
        policy = self.parts.placement
        return place(self.capacity, shape, policy, guaranteed=guaranteed, allows=allows)

    def would_place(
        self, shape: Shape, allows: Callable[[Amounts], bool] | None = None, *, guaranteed: bool
    ) -> Placed | None:
        """Return where `try_place` would place a gang; take nothing."""
        with self.capacity.trial():
            return self.try_place(shape, allows, guaranteed=guaranteed)

    def try_admit(
        self, gang: Gang, shape: Shape, allows: Callable[[Amounts], bool], *, guaranteed: bool
    ) -> bool:
        """Start `gang` if it can be placed, and if its charge there is allowed."""
        if self.is_too_full(shape, guaranteed=guaranteed):
            return False
        placed = self.try_place(shape, allows, guaranteed=guaranteed)
        if placed is None:
            is_allowed = not shape.takes_whole  # its charge is known, and checked before
            if is_allowed or self.would_place(shape, guaranteed=guaranteed) is None:
                self.search.too_full.add((shape.form, guaranteed))
            return False
        self.admit(gang, shape, placed)
        return True

    def is_too_full(self, shape: Shape, *, guaranteed: bool) -> bool:
        """Whether it is known not to fit: while nothing is opened, free capacity only shrinks."""
        return (shape.form, guaranteed) in self.search.too_full

    def admit(self, gang: Gang, shape: Shape, placed: Placed) -> None:
        """Start `gang`, whose devices are already taken."""
        project, charge = gang[0].project, placed.total
        within = self.has_own_place(gang[0].id) or self.shares.is_own(project, charge)
        admitted = Admitted(gang=gang, shape=shape, placed=placed, within_share=within)
        self.admitted.append(admitted)
        self.reservations.end_drain(gang)
        self.starts_beyond |= not within
        self.admitted_by[project].append(admitted)
        self.shares.add(project, charge)
        if shape.priority > self.lowest_priority(project):
            self.lowest[project] = shape.priority

    @property
    def closed(self) -> list[Reserved]:
        """Return what is closed for promises, then for planned starts."""
        return [*self.promised.values(), *self.plans.values()]

    def has_own_place(self, name: str) -> bool:
        """Whether a gang of that name was promised a place on its share before this cycle."""
        return self.class_of_promise.get(name) is JobClass.GUARANTEED

    def is_open_to(self, running: Running, project: str) -> bool:
        """Whether `project` may have it stopped for a share."""
        if not running.is_borrowed:
            return False
        cover, groups_of = running.cover, self.snapshot.quota.groups_of
        return not cover or any(each.name == cover for each in groups_of(project))

    def departing(self, *, firm: bool = False) -> Departing:
        """Return running gangs that stop now or later; `firm`: without those that may be spared."""
        return self.departures.of(self.shares, self.running, firm=firm)

    def end_of(self, shape: Shape) -> float | None:
        """Return when a gang of `shape` ends at the latest if it starts now; None: no limit."""
        limit = shape.max_runtime_s
        return None if limit is None else self.now + limit + shape.grace_s

    def ends_at(self, running: Running) -> float:
        """Return when it has ended at the latest, as far as that is set."""
        stop = self.victims.get(running.name)
        return running.frees_at if stop is None else min(stop.end_at, running.frees_at)

    def holders(self, wanted: Footprint) -> list[Running]:
        """Return running gangs beside which `wanted` cannot be had, by name; amounts ignored."""
        near = {r.name: r for machine in wanted.masks for r in self.on(machine)}
        return [near[name] for name in sorted(near) if near[name].footprint.meets(wanted)]

    @cached_property
    def borrowers(self) -> dict[str, list[Running]]:
        """Return running gangs that use what others leave idle, by project."""
        found: dict[str, list[Running]] = {}
        for running in self.running.values():
            if running.is_borrowed and not running.is_leaving:
                found.setdefault(running.project, []).append(running)
        return found

    def lowest_priority(self, project: str) -> int:
        """Return the largest priority number of all that run or start; 0 without any."""
        return self.lowest.get(project, 0)

    def on(self, machine: str) -> Sequence[Running]:
        """Return running gangs that hold anything on `machine`."""
        return self.occupancy.on.get(machine, ())
