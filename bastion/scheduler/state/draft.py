"""
`Draft`: the plan of one cycle in the making, and the working copies it is made on.

The phases change it one after the other; nobody else sees it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property

from bastion.job import JobClass
from bastion.scheduler.placement.capacity import Capacity, Charge
from bastion.scheduler.placement.feasibility import Beyond, Extent, beyond
from bastion.scheduler.placement.place import Placed, place
from bastion.scheduler.promise import PlannedStart, Promise
from bastion.scheduler.queue.eligibility import Waiting, wait_or_queue
from bastion.scheduler.queue.order import Gang, Ids, Line, stand
from bastion.scheduler.queue.shape import Shape
from bastion.scheduler.reasons.reason import WaitingReason
from bastion.scheduler.state.classes import promised_by
from bastion.scheduler.state.decisions import Admitted, Doom
from bastion.scheduler.state.footprint import Footprint, pairs_of
from bastion.scheduler.state.memory import Memory
from bastion.scheduler.state.outset import Outset
from bastion.scheduler.state.policy_choice import Parts
from bastion.scheduler.state.reservation import Reserved
from bastion.scheduler.state.running import Running, charge_of, gather
from bastion.scheduler.state.shares import Shares
from quota.amounts import Amounts


class Draft:
    """Everything one cycle has worked out so far."""

    def __init__(self, outset: Outset, now: float, parts: Parts, memory: Memory) -> None:
        self.outset = outset
        self.snapshot = snapshot = outset.snapshot
        self.now, self.parts = now, parts
        self.options = snapshot.quota.scheduler
        self.memory = memory
        self.shapes = memory.recall(snapshot.quota, parts.order, snapshot.jobs, now)
        self.capacity = Capacity(snapshot, now)
        self.running: dict[str, Running] = {}
        self.of_job: dict[str, Running] = {}
        self.shares: Shares
        self.lines: Mapping[str, list[Line]] = {}
        self.rest: dict[str, list[Line]] = {}
        """Lines that phase 3 passed on."""
        self.blocked: list[Line] = []
        """Lines with heads that cannot start now, in the order in which they were looked at."""
        self.aside: Mapping[str, WaitingReason] = {}
        """Waiting jobs that are not in the queue, and why."""
        self.admitted: list[Admitted] = []
        self.admitted_by: defaultdict[str, list[Admitted]] = defaultdict(list)
        """The same, by project."""
        self.class_of_promise: Mapping[str, JobClass] = {}
        """Of gangs with a promise of an earlier cycle."""
        self.known = {promise.gang[0] for promise in snapshot.promises}
        """Gangs with a promise of an earlier cycle, by name."""
        self.promises: dict[str, Promise] = {}
        self.void: set[Ids] = set()
        """Gangs whose promises of earlier cycles do not hold, though they had counted already."""
        self.starting: dict[str, Running] = {}
        """Some of those who start, as the next cycle will see them."""
        self.instead: dict[Ids, frozenset[Ids]] = {}
        """Gangs with a promise, and those that do not start for their sake: it begins again."""
        self.unplanned: set[str] = set()
        """Gangs with a plan that those who start leave no room for."""
        self.planned: dict[str, PlannedStart] = {}
        self.plans: dict[str, Reserved] = {}
        """What is closed for planned starts, by the name of the gang."""
        self.reserved: dict[str, Reserved] = {}
        """What is closed for promises, by the name of the gang."""
        self.usage_by_user: dict[str, dict[str, float]] = {}
        """Of projects with waiting gangs, as far as it counts in their order."""
        self.doomed: dict[str, Doom] = {}
        """Running gangs that will be stopped, or are from this cycle on."""
        self.rank = parts.order.rank(snapshot, now)
        self._too_full: set[tuple[int, bool]] = set()
        self._leaving: list[str] | None = None
        self._beyond: dict[int, Beyond | None] = {}
        self._by_project: dict[str, list[Running]] | None = None
        self.hopeless: set[tuple[str, int]] = set()
        """(project, shape) for which no victims were found in this cycle: it only gets fuller."""
        self.no_room: dict[tuple[str, int], int] = {}
        """(project, form) -> at which state of the shares the quota had no room to borrow it."""
        self.leaves_nothing: set[str] = set()
        """Those among the departing with whom nothing becomes free and open."""
        self.in_order: set[str] = set()
        """Projects whose `borrowers` are in the order in which they are let go."""
        self.is_overtaken = False
        """Whether it began without knowing where a gang with a promise starts: it begins again."""
        self.is_deferred = False
        """Whether somebody within its share may borrow rather than have others stopped."""
        self.is_open = True
        """Whether a gang within its share may still break what is closed for others."""
        self.patient: set[tuple[str, int]] = set()
        """(project, shape) that nobody had to be stopped for: enough comes free anyway."""
        self.asked: set[tuple[str, int]] = set()
        """(project, shape) for which it was looked who of lower priority might be stopped."""
        self._by_machine: dict[str, list[Running]] | None = None
        self._lowest: dict[str, int] = {}

    def survey(self) -> None:
        """Phase 1: who holds what, who waits, what is free."""
        jobs = self.snapshot.jobs
        known, others = self.memory.recognise(jobs)
        found = gather(others, self.shapes, self.capacity, self.memory.running)
        quota = self.snapshot.quota
        lasting = [each for each in self.snapshot.promises if each.gang not in self.outset.new]
        promised = promised_by(lasting, jobs, self.cost_of)
        self.class_of_promise = self.parts.classify(quota, found, promised)
        for running in found:
            self.running[running.name] = running
            if running.priority > self._lowest.get(running.project, 0):
                self._lowest[running.project] = running.priority
            for job in running.jobs:
                self.of_job[job.id] = running
            for part, replica in running.places:
                self.capacity.occupy(part, replica, guaranteed=not running.is_borrowed)
            self.capacity.charge(running.charge)
        self.memory.keep_running(found)
        self.shares = Shares(self.snapshot.quota, found)
        self._line_up(wait_or_queue(self.snapshot, self.now, known, others))

    def _line_up(self, waiting: Waiting) -> None:
        standing = [*waiting.known]
        standing += [stand(gang, self.shapes, self.rank) for gang in waiting.gangs]
        if self.parts.order.is_lasting:
            self.memory.keep_ready(standing, new=standing[len(waiting.known) :])
        used = Amounts.sum(map(self.shares.held, self.shares.names()))
        able = (each[3][3] for each in standing if self.beyond(each[2]) is None)
        held_back = self.parts.admission(able, self.snapshot.quota, used)
        self.aside = {**waiting.aside, **held_back}
        if held_back:
            standing = [each for each in standing if each[0].id not in held_back]
        if skipped := self.outset.skipped:
            standing = [each for each in standing if each[0].id not in skipped]
        self.lines = self.memory.lines.of(standing)

    def cost_of(self, promise: Promise, gang: Gang) -> Amounts:
        """What `promise` to `gang` is charged, at least what it asks for."""
        shape = self.shapes.of(gang)
        if not shape.takes_whole:
            return shape.asked
        pairs = pairs_of(shape.parts, promise.placements)
        return shape.asked | Amounts.sum(charge_of(pairs, self.capacity))

    @cached_property
    def extent(self) -> Extent:
        """What there is when nobody else is there."""
        return Extent(self.snapshot, self.now, self.parts.placement)

    def beyond(self, shape: Shape) -> Beyond | None:
        """Why no machine there is, or could be, holds a gang of `shape`; None when they do."""
        if shape.form not in self._beyond:
            self._beyond[shape.form] = beyond(self.capacity, shape, lambda: self.extent)
        return self._beyond[shape.form]

    def asks(self, shape: Shape) -> Amounts:
        """What a gang is charged: where it takes whole machines, as much as it would be alone."""
        placed = self.extent.alone(shape) if shape.takes_whole else None
        return shape.asked if placed is None else placed.total

    # Starting

    def try_place(
        self, shape: Shape, allows: Callable[[Amounts], bool] | None = None, *, guaranteed: bool
    ) -> Placed | None:
        """Take devices for a gang, or nothing and give None; `allows` as in `place`."""
        policy = self.parts.placement
        return place(self.capacity, shape, policy, guaranteed=guaranteed, allows=allows)

    def try_admit(
        self, gang: Gang, shape: Shape, allows: Callable[[Amounts], bool], *, guaranteed: bool
    ) -> bool:
        """Let `gang` start if it can be placed, and if what it is charged there is allowed."""
        if self.is_too_full(shape, guaranteed=guaranteed):
            return False
        placed = self.try_place(shape, allows, guaranteed=guaranteed)
        if placed is None:
            if not self._fits(shape, guaranteed=guaranteed):
                self._too_full.add((shape.form, guaranteed))
            return False
        self.admit(gang, shape, placed)
        return True

    def _fits(self, shape: Shape, *, guaranteed: bool) -> bool:
        """Whether it could be placed, were it allowed what that costs."""
        if not shape.takes_whole:
            return False  # that is known before
        self.capacity.begin()
        placed = self.try_place(shape, guaranteed=guaranteed)
        self.capacity.undo()
        return placed is not None

    def is_too_full(self, shape: Shape, *, guaranteed: bool) -> bool:
        """Whether it is known not to fit: while nothing is opened, a cycle only gets fuller."""
        return (shape.form, guaranteed) in self._too_full

    def admit(self, gang: Gang, shape: Shape, placed: Placed) -> None:
        """Let `gang` start; its devices are taken already."""
        project, charge = gang[0].project, placed.total
        was = self.class_of_promise.get(gang[0].id)
        within = was is JobClass.GUARANTEED or self.shares.is_within(project, charge)
        admitted = Admitted(gang=gang, shape=shape, placed=placed, within_share=within)
        self.admitted.append(admitted)
        self.admitted_by[project].append(admitted)
        self.shares.add(project, charge)
        if shape.priority > self.lowest_priority(project):
            self._lowest[project] = shape.priority

    def borrows(self, admitted: Admitted) -> None:
        """The newest that starts has its place on a share after what was promised before."""
        for found in (self.admitted, self.admitted_by[admitted.gang[0].project]):
            found[-1] = admitted._replace(within_share=False)

    # Reserving

    def reserve(self, reserved: Reserved) -> None:
        """
        Close devices for a waiting gang.

        Its charge counts against the tiers at once, and a promise's against its project, except
        for what those it waits for will give back by then: that would be counted twice.
        """
        kept = self.reserved if reserved.is_promise else self.plans
        kept[reserved.name] = reserved
        self.shut(reserved)
        if reserved.holds_quota:
            self.count(reserved)

    def count(self, reserved: Reserved) -> None:
        """Let the project of `reserved` hold it in the quota."""
        owner, left = reserved.gang[0].project, reserved.placed.total
        self.shares.add(owner, left)
        for running in reserved.waits:
            gift = (left & self.shares.left_of(running)).positive()
            if gift:
                left = left - gift
                reserved.gifts.append((running, gift))
                self.shares.give(running, gift, to=owner)

    def discount(self, reserved: Reserved) -> None:
        """Take back what `count` did."""
        owner = reserved.gang[0].project
        self.shares.add(owner, -reserved.placed.total)
        for running, gift in reserved.gifts:
            self.shares.give(running, -gift, to=owner)
        reserved.gifts.clear()

    def forget_plan(self, gang: Gang) -> None:
        """Open what was planned for `gang`: something better was done for it."""
        plan = self.plans.get(gang[0].id)
        if plan is not None:
            self.planned.pop(plan.name, None)
            self.open(plan)
            self.release(plan)

    def spare_for(self, plan: Reserved) -> dict[str, Doom]:
        """Let those go on who were to be rotated for `plan`; they are returned."""
        spared = {name: doom for name, doom in self.doomed.items() if doom.by == plan.name}
        for name in spared:
            del self.doomed[name]
        return spared

    def discount_plans(self) -> None:
        """Planned starts keep others from their room in the quota only while gangs are admitted."""
        for plan in self.plans.values():
            self.discount(plan)
            plan.holds_quota = False

    def open(self, reserved: Reserved) -> None:
        """Open for a moment what is closed for one gang: for itself, or for a short borrower."""
        assert reserved.hold is not None
        self._too_full.clear()
        self.leaves_nothing.clear()
        self.capacity.lift(reserved.hold)
        self._pay_back(reserved)

    def shut(self, reserved: Reserved) -> None:
        """Close it, or what is left of it."""
        net = self._net(reserved)
        reserved.hold = self.capacity.close(reserved.shape.parts, reserved.placed.placements, net)

    def _pay_back(self, reserved: Reserved) -> None:
        for running, tier, units in reserved.paid:
            running.pay(tier, -units)
        reserved.paid.clear()

    def _net(self, reserved: Reserved) -> Charge:
        """Its charge, less what those it waits for pay of it."""
        net = []
        for tier, left in enumerate(reserved.placed.charge):
            for running in reserved.waits:
                units = (left & running.left[tier]).positive()
                if units:
                    left = left - units
                    reserved.paid.append((running, tier, units))
                    running.pay(tier, units)
            net.append(left)
        return tuple(net)

    def weak(self, project: str) -> list[Reserved]:
        """Reservations that any gang within its share may break, but for those of `project`."""
        if not self.is_open:
            return []
        promised = [
            reserved
            for reserved in self.reserved.values()
            if reserved.gang[0].project != project and not self.promises[reserved.name].within_share
        ]
        return [*promised, *self.plans.values()]

    def outranked(self, project: str, priority: int, *, later: bool = False) -> list[Reserved]:
        """
        Promises of `project` that a gang of it of that priority, within the share, may break.

        Those of lower priority, whose gangs it could stop if they ran; not those of higher or equal
        priority: those who stopped it would stop it again, for ever. One within the share that was
        made in this pass stands: it was made after all of higher priority had been looked at. But
        `later`, in another pass, it may be broken too.
        """
        return [
            reserved
            for reserved in self.reserved.values()
            if self.is_open
            and reserved.gang[0].project == project
            and reserved.shape.priority > priority
            and (
                not self.promises[reserved.name].within_share
                or (self.parts.preemption.outranks and (later or reserved.name in self.known))
            )
        ]

    def is_within(self, reserved: Reserved) -> bool:
        """Whether it fits in the share of its project, which counts it as held already."""
        self.discount(reserved)
        is_within = self.shares.is_within(reserved.gang[0].project, reserved.placed.total)
        self.count(reserved)
        return is_within

    def lend(self, reserved: Reserved) -> None:
        """Open it for those who are gone in time: until then its gang does not need it."""
        self.open(reserved)
        if reserved.holds_quota:
            self.discount(reserved)

    def call_in(self, reserved: Reserved) -> None:
        """End what `lend` began."""
        if reserved.holds_quota:
            self.count(reserved)
        self.shut(reserved)

    def set_apart(self, reserved: Sequence[Reserved], others: Sequence[Reserved]) -> None:
        """Lend them; `others` count on what those give back for whom these would have waited."""
        for each in others:
            self._refund(each)
        for each in reserved:
            self.lend(each)
        for each in others:
            self._draw(each)

    def put_back(self, reserved: Sequence[Reserved], others: Sequence[Reserved]) -> None:
        """End what `set_apart` began."""
        for each in others:
            self._refund(each)
        for each in reserved:
            self.call_in(each)
        for each in others:
            self._draw(each)

    def _refund(self, reserved: Reserved) -> None:
        """Count on nobody any more; its devices stay closed."""
        assert reserved.hold is not None
        self.capacity.charge(reserved.hold.charge, sign=-1)
        self._pay_back(reserved)
        if reserved.holds_quota:
            self.discount(reserved)

    def _draw(self, reserved: Reserved) -> None:
        """End what `_refund` began: count on those for whom it waits, as far as they have left."""
        assert reserved.hold is not None
        reserved.hold.charge = self._net(reserved)
        self.capacity.charge(reserved.hold.charge)
        if reserved.holds_quota:
            self.count(reserved)

    def release(self, reserved: Reserved) -> None:
        """Forget a reservation that is open: it is void, or something better was done."""
        if reserved.holds_quota:
            self.discount(reserved)
        self.drop(reserved)

    def drop(self, reserved: Reserved) -> None:
        """Forget a reservation that is lent: its gang starts."""
        if not reserved.is_promise:
            del self.plans[reserved.name]
            return
        del self.reserved[reserved.name]
        for running in reserved.victims:
            if self.doomed[running.name].by == reserved.name:
                self._spare(running)

    def _spare(self, running: Running) -> None:
        """Let a victim go on, unless another promise needs it gone as well."""
        doom = self.doomed.pop(running.name)
        for other in self.reserved.values():
            if running in other.victims:
                is_firm = self.promises[other.name].within_share
                self.doomed[running.name] = replace(doom, by=other.name, is_firm=is_firm)
                return

    def departing(self, *, firm: bool = False) -> list[Running]:
        """Running gangs that are being stopped, or will be; `firm`: without those yet to spare."""
        if self._leaving is None:
            self._leaving = [name for name, r in self.running.items() if r.is_leaving]
        going = [name for name, doom in self.doomed.items() if doom.is_firm or not firm]
        return [self.running[name] for name in sorted({*self._leaving, *going})]

    def _is_doomed(self, running: Running, *, firm: bool) -> bool:
        doom = self.doomed.get(running.name)
        return doom is not None and (doom.is_firm or not firm)

    def is_departing(self, running: Running) -> bool:
        """Whether it is being stopped, or will be."""
        return running.is_leaving or running.name in self.doomed

    def ends_at(self, running: Running) -> float:
        """When it has ended at the latest, as far as that is set."""
        doom = self.doomed.get(running.name)
        return running.frees_at if doom is None else min(doom.end_at, running.frees_at)

    def holders(self, wanted: Footprint) -> list[Running]:
        """Running gangs beside whom `wanted` cannot be had, by name; amounts apart."""
        near = {r.name: r for machine in wanted.masks for r in self.on(machine)}
        return [near[name] for name in sorted(near) if near[name].footprint.meets(wanted)]

    def staying(self, project: str | None = None, *, firm: bool = False) -> list[Running]:
        """Running gangs, of one project or all, that are not among the departing."""
        if self._by_project is None:
            self._by_project = {}
            for running in self.running.values():
                if not running.is_leaving:
                    self._by_project.setdefault(running.project, []).append(running)
        if project is None:
            found = [r for name in sorted(self._by_project) for r in self._by_project[name]]
        else:
            found = self._by_project.get(project, [])
        return [r for r in found if not self._is_doomed(r, firm=firm)] if self.doomed else found

    @cached_property
    def borrowers(self) -> dict[str, list[Running]]:
        """Running gangs that stand on what others leave idle, by project."""
        found: dict[str, list[Running]] = {}
        for running in self.running.values():
            if running.is_borrowed and not running.is_leaving:
                found.setdefault(running.project, []).append(running)
        return found

    def lowest_priority(self, project: str) -> int:
        """The largest number among the priorities of those who run or start; 0 without any."""
        return self._lowest.get(project, 0)

    def on(self, machine: str) -> Sequence[Running]:
        """Running gangs that hold anything on `machine`."""
        if self._by_machine is None:
            self._by_machine = {}
            for running in self.running.values():
                for _, place_ in running.places:
                    for host in place_.hosts:
                        found = self._by_machine.setdefault(host.machine, [])
                        if not found or found[-1] is not running:
                            found.append(running)
        return self._by_machine.get(machine, ())
