"""
Why the gangs of a line wait: the one reason that, taken away, would let them go on.

Asked in the order from what no waiting changes (it never fits, no machine matches) over what the
quota says (ceiling, share) to what time will solve (closed, scattered, lost, in use).

It must not change anything: what it tries, it undoes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import cached_property

from bastion.scheduler.explain.next_walls import WithNext, change_of, wall_of
from bastion.scheduler.explain.outage import outage_of
from bastion.scheduler.explain.reach import Reach
from bastion.scheduler.explain.supply import Supply
from bastion.scheduler.explain.trial import Change, made, staying
from bastion.scheduler.forecast.estimate import Estimates, estimates
from bastion.scheduler.phases.claims import Claims
from bastion.scheduler.placement.place import cheapest
from bastion.scheduler.placement.room import GUESTS
from bastion.scheduler.plan import Wait, wait_for
from bastion.scheduler.preemption.harm import least_lost
from bastion.scheduler.preemption.victims import find
from bastion.scheduler.queue.order import Entry, Gang, Line
from bastion.scheduler.queue.positions import Crowd, Row, Stretch
from bastion.scheduler.queue.shape import Shape
from bastion.scheduler.reasons.reason import (
    NAMED,
    BeyondShare,
    CapacityLost,
    Fragmented,
    Maintenance,
    NeverFits,
    NextWall,
    NotYetConsidered,
    OverCeiling,
    Planned,
    PlannedForOther,
    ShareInUse,
    WaitingForCapacity,
    WaitingReason,
    can_never_run,
)
from bastion.scheduler.state.draft import Draft
from bastion.scheduler.state.release import Release
from bastion.scheduler.state.reservation import Reserved
from bastion.scheduler.state.running import Running
from quota.amounts import NOTHING, Amounts, missing

SEARCHES = 2
"""Scattered gangs whose obstacles are looked for in one cycle; each search costs time."""

MOST_NAMED = 8
"""Other gangs that a reason names of those that something is reserved for."""

TRIALS = 8
"""Second walls that are tried out in one cycle."""

FEW = 200
"""Running gangs: with more, gangs beyond their share are too many to be estimated."""
HOPE = (WaitingForCapacity, Fragmented)
HOPE_OF_FEW = (*HOPE, BeyondShare)
"""Reasons that time alone ends."""

Told = tuple[Gang, Wait]
"""A waiting gang; why it waits, and when it will probably start."""


def _kept(closed: Sequence[Reserved]) -> PlannedForOther:
    """Those that something is reserved for, the first to start before the others."""
    first, *others = sorted(closed, key=lambda each: (each.until, each.name))
    more = tuple(each.name for each in others[:MOST_NAMED])
    at = None if first.drains else first.until
    return PlannedForOther(other=first.name, at=at, units=first.shape.units, more=more)


def _always(_units: Amounts, _gone: Sequence[Running]) -> bool:
    return True


class _Used:
    """What is used and claimed of the types of `asked`, as a project sees it."""

    __slots__ = ("all", "held", "lenders", "others", "share", "total")

    def __init__(self, diagnosis: Diagnosis, project: str, asked: Amounts) -> None:
        shares = diagnosis.draft.shares
        self.share = shares.project(project).nominal.only(asked)
        self.held = shares.held(project).only(asked)
        self.others = diagnosis.claims.of_others(project).only(asked)
        self.lenders = diagnosis.claims.lenders(project, asked)
        self.all = self.others + self.held
        self.total = shares.totals.only(asked)


class Diagnosis:
    """Finds the dominant reason of every line that is blocked."""

    def __init__(self, draft: Draft, change: Change | None = None) -> None:
        self.draft = draft
        self.change = change
        """What has changed on trial; None where it is the cycle's own diagnosis."""
        self.supply = Supply(draft, change.gone if change else ())
        self.reach = Reach(draft.snapshot.quota)
        self.searches = self.trials = 0
        self.estimates = Estimates(starts={})
        """Of gangs that time alone lets start; complete once `tell` is over."""
        self.in_line: list[Crowd | Row] = []
        """Gangs that nothing is done for."""
        self._known: dict[tuple[str, int], WaitingReason] = {}
        self._used: dict[tuple[str, tuple[str, ...]], _Used] = {}
        self._closure: dict[int, WaitingReason | None] = {}
        self._maintained: dict[int, WaitingReason | None] = {}
        self._capacity: dict[int, WaitingReason] = {}
        self._free_of: dict[int, Amounts] = {}

    @cached_property
    def claims(self) -> Claims:
        """Of all projects, at the end of the cycle."""
        return Claims(self.draft)

    def tell(self) -> Iterator[Told]:
        """
        Every blocked gang, but for those that stand `in_line`, which is complete once this is over.

        A gang stands behind others of its project that wait for the same devices.
        """
        rows: dict[tuple[str, frozenset[str]], list[tuple[Line, WaitingForCapacity]]] = {}
        hopeful: list[Line] = []
        hope = HOPE_OF_FEW if len(self.draft.running) <= FEW else HOPE
        crowds: dict[tuple[str, int], list[Entry]] = {}
        plans = self.draft.plans
        for line in self.draft.blocked:
            if plans and (plan := plans.get(line.head[0].id)) is not None:
                at = None if plan.drains else plan.until
                yield line.head, Wait(reason=self._planned(plan, at), estimated_at=at)
                line.at += 1
                if line.is_over:
                    continue
            if self._is_unseen(line):
                yield from ((entry[3], Wait(reason=NotYetConsidered())) for entry in line.waiting)
                continue
            key = line.project, line.shape.form
            reason = self._known.get(key) or self._reason(line)
            if isinstance(reason, hope):
                hopeful.append(line)
            if isinstance(reason, WaitingForCapacity):
                rows.setdefault((line.project, line.shape.scarce), []).append((line, reason))
            elif line.fail_when_busy or can_never_run(reason):
                yield from ((entry[3], Wait(reason=reason)) for entry in line.waiting)
            else:
                crowds.setdefault(key, []).extend(line.waiting)
        if hopeful:
            self.estimates = estimates(self.draft, hopeful)
        for key, entries in crowds.items():
            self.in_line.append(Crowd(entries=entries, reason=self._known[key]))
        for lines in rows.values():
            yield from self._in_a_row(lines)

    def _is_unseen(self, line: Line) -> bool:
        """Whether the cycle did not come to it; what can never run is told so all the same."""
        draft = self.draft
        if not draft.search.unseen or draft.beyond(line.shape) is not None:
            return False
        return draft.search.is_cut_short or draft.search.is_unseen(line.head)

    def _planned(self, plan: Reserved, at: float | None) -> Planned:
        ending = plan.waits
        return Planned(at=at, waiting_for=tuple(job for r in ending for job in r.ids))

    def _in_a_row(self, lines: list[tuple[Line, WaitingForCapacity]]) -> Iterator[Told]:
        """The first of a row; the others too, where one of them may not wait."""
        used = self.draft.usage_by_user[lines[0][0].project]
        stretches = [
            Stretch(
                entries=line.waiting,
                usage=used.get(line.user, 0.0),
                units=line.shape.units,
                short=reason.short,
            )
            for line, reason in lines
        ]
        row = Row(stretches=stretches)
        line, reason = lines[row.first]
        yield line.head, wait_for(reason, self.estimates.starts.get(line.head[0].id))
        if any(each.fail_when_busy for each, _ in lines):
            yield from ((gang, Wait(reason=behind)) for gang, behind in row.reasons())
        else:
            self.in_line.append(row)

    def _reason(self, line: Line) -> WaitingReason:
        found = (
            self.draft.beyond(line.shape)
            or self._by_quota(line)
            or self._once(self._maintained, self._by_maintenance, line.shape)
            or self._once(self._closure, self._by_closure, line.shape)
            or self._by_capacity(line)
        )
        found = self._known[line.project, line.shape.form] = self._with_next(line, found)
        return found

    def _once(
        self,
        known: dict[int, WaitingReason | None],
        ask: Callable[[Shape], WaitingReason | None],
        shape: Shape,
    ) -> WaitingReason | None:
        """What depends on the shape alone is asked once for every shape."""
        if shape.form not in known:
            known[shape.form] = ask(shape)
        return known[shape.form]

    def _by_quota(self, line: Line) -> WaitingReason | None:
        shares, asked = self.draft.shares, self.draft.asks(line.shape)
        if name := shares.over_ceiling(line.project, asked):
            over = self._never(line, asked) or self._over_ceiling(name, asked)
            if over is not None:
                return over
        if not asked or shares.is_within(line.project, asked, own=not line.shape.borrows):
            return None
        never = self._never(line, asked)
        if never is not None:
            return never
        key = line.project, asked.types()
        used = self._used.get(key)
        if used is None:
            used = self._used[key] = _Used(self, line.project, asked)
        if not self.draft.shares.ever_borrows(line.project, line.shape):
            return ShareInUse(project=line.project, asked=asked, held=used.held, share=used.share)
        if not used.others or used.total.holds(used.all, asked):
            return None
        own = missing(used.held + asked, self.reach.most(line.project)).only(asked)
        fits = asked <= used.share
        return BeyondShare(
            project=line.project,
            asked=asked,
            share=used.share,
            held=used.held,
            others=used.others,
            total=used.total,
            lenders=used.lenders,
            own=NOTHING if fits else own,
        )

    def _projects_of(self, names: Iterable[str]) -> set[str]:
        """The projects of `names`, and those in the groups among them."""
        groups = self.draft.snapshot.quota.groups
        found: set[str] = set()
        for name in names:
            found |= self._projects_of(groups[name].members) if name in groups else {name}
        return found

    def _never(self, line: Line, asked: Amounts) -> NeverFits | None:
        """Whether the quota file never lets it; on trial it is known that it does."""
        return self.reach.beyond(line, asked) if self.change is None else None

    def _with_next(self, line: Line, reason: WaitingReason) -> WaitingReason:
        """`reason`, with what is in the way of `line` once what it names has changed."""
        if not isinstance(reason, WithNext):
            return reason
        shape = line.shape
        if not (self.is_tried or self.supply.lost(shape.wheres, shape.types)[1]):
            return reason  # no machine is out of use, and more than that is seen on trial alone
        then = self.next_wall(line, change_of(self.draft, reason, self._projects_of))
        return replace(reason, then=then) if then is not None or self.is_tried else reason

    @property
    def is_tried(self) -> bool:
        """Whether trials are made: with many running gangs each would take long."""
        holding = len(self.draft.running) + len(self.draft.admitted)
        return holding <= FEW and self.trials <= TRIALS

    def next_wall(self, line: Line, change: Change) -> NextWall | None:
        """
        What is in the way of `line` once `change` has come.

        Tried out where few run; with many it is only seen whether enough machines are in order.
        """
        draft, shape = self.draft, line.shape
        self.trials += 1
        if not self.is_tried:
            lost, machines = self.supply.lost(shape.wheres, shape.types)
            if change.machines or not machines or self.supply.is_enough(shape):
                return None
            return NextWall(kind="CapacityLost", units=lost, names=machines)
        with made(draft, change):
            there = Diagnosis(draft, change)
            if there._starts(line):
                return None
            reason = there._by_quota(line) or there._by_maintenance(shape)
        every = (*draft.reserved.values(), *draft.plans.values())
        closed = [each for each in every if each.name not in change.opened]
        if reason is None and closed:
            names = tuple(each.name for each in every)
            with made(draft, replace(change, opened=names)):
                reason = _kept(closed) if self._is_placed(shape) else None
        if reason is None:
            with made(draft, change):
                reason = Diagnosis(draft, change)._by_capacity(line)
        return wall_of(reason)

    def _starts(self, line: Line) -> bool:
        """Whether the quota and the machines let the head of `line` start."""
        draft, shape = self.draft, line.shape

        def allows(units: Amounts) -> bool:
            own = not shape.borrows
            return draft.shares.may_start(line.project, units, own=own) or draft.shares.lets_borrow(
                line.project, shape, units
            )

        return allows(shape.asked) and self._is_placed(shape, allows)

    def _is_placed(self, shape: Shape, allows: Callable[[Amounts], bool] | None = None) -> bool:
        self.draft.capacity.begin()
        placed = self.draft.try_place(shape, allows, guaranteed=False)
        self.draft.capacity.undo()
        return placed is not None

    def _over_ceiling(self, name: str, asked: Amounts) -> OverCeiling | None:
        """Unless the ceiling is the total, and the total would do."""
        shares = self.draft.shares
        ceiling, totals = shares.quota.node(name).ceiling, shares.totals
        if all(ceiling[t] == totals[t] and units <= totals[t] for t, units in asked.items()):
            return None
        held = shares.closes(name).only(asked)
        return OverCeiling(
            project=name,
            asked=asked,
            held=held,
            ceiling=ceiling.only(asked),
        )

    def _by_maintenance(self, shape: Shape) -> WaitingReason | None:
        """Whether it would fit if nothing were closed for maintenance."""
        capacity = self.draft.capacity
        if not capacity.closures:
            return None
        with capacity.without_maintenance():
            capacity.begin()
            placed = self.draft.try_place(shape, guaranteed=False)
            places = [] if placed is None else [r for each in placed.placements for r in each]
            hosts = [host.machine for place in places for host in place.hosts]
            machines = [capacity.by_name[name].machine for name in hosts]
            capacity.undo()
        window = capacity.closures.first(machines)
        if window is None:
            return None
        return Maintenance(window=str(window), at=window.starts_at, until=window.ends_at)

    def _by_closure(self, shape: Shape) -> WaitingReason | None:
        """Whether it would fit if nothing were closed for others."""
        draft = self.draft
        closed = [*draft.reserved.values(), *draft.plans.values()]
        if not closed:
            return None
        for each in closed:
            draft.lend(each)
        draft.capacity.begin()
        placed = draft.try_place(shape, guaranteed=False)
        draft.capacity.undo()
        for each in closed:
            draft.call_in(each)
        if placed is None:
            return None
        return _kept(closed)

    def _by_capacity(self, line: Line) -> WaitingReason:
        shape = line.shape
        if shape.form not in self._free_of:
            self._free_of[shape.form] = self.supply.free(shape)
        free = self._free_of[shape.form]
        if not missing(shape.units, free):
            scattered = self._scattered(line, free)
            if scattered is not None:
                return scattered
        short = missing(shape.units, free)
        if not short:  # it is the quota that has too little room
            return self._missing(shape, self._beyond_quota(line))
        if shape.form not in self._capacity:
            self._capacity[shape.form] = self._missing(shape, short)
        return self._capacity[shape.form]

    def _beyond_quota(self, line: Line) -> Amounts:
        """What the quota lacks for the head of `line`, on the machines that are free."""
        cost = self._costs_now(line.shape) or self.draft.asks(line.shape)
        return missing(cost, self.draft.shares.available(line.project, cost))

    def _costs_now(self, shape: Shape) -> Amounts | None:
        """What one that takes whole machines is charged on those that are free."""
        if not shape.takes_whole:
            return None
        placed = cheapest(self.draft.capacity, shape, self.draft.parts.placement)
        return None if placed is None else placed.total

    def _fits_alone(self, shape: Shape) -> bool:
        """Whether it could be placed if nothing that may be stopped ran; on trial."""
        assert self.change is not None
        capacity = self.draft.capacity
        capacity.begin()
        for running in staying(self.draft, self.change):
            Release(capacity, running)
        is_placed = self._is_placed(shape)
        capacity.undo()
        return is_placed

    def _missing(self, shape: Shape, short: Amounts) -> WaitingReason:
        for shelf in self.supply.shelves(shape):
            if shelf.stockout is not None and shelf.could_make:
                return shelf.stockout
        lost, machines = self.supply.lost(shape.wheres, shape.types)
        if short and (short <= lost or (machines and not self.supply.is_enough(shape))):
            return self._capacity_lost(shape, lost, machines)
        holders = self.supply.holders(shape.types.union(self.draft.asks(shape).types()))
        closed = [*self.draft.reserved.values(), *self.draft.plans.values()]
        if closed and not holders:
            return _kept(closed)
        return WaitingForCapacity(asked=shape.units, short=short, holders=holders)

    def _capacity_lost(
        self, shape: Shape, lost: Amounts, machines: tuple[str, ...]
    ) -> CapacityLost:
        of = Amounts.sum(room.full for room in self.supply.rooms(shape.wheres)).only(shape.types)
        rooms = self.draft.capacity.by_name
        outages = tuple(outage_of(rooms[name], shape.types) for name in machines[:NAMED])
        left = missing(shape.units, self.supply.within_tiers(self.supply.free(shape) + lost))
        then = None
        if left:
            names = tuple(name for name, _ in self.supply.holders(shape.types))
            then = NextWall(kind="WaitingForCapacity", units=left, names=names)
        return CapacityLost(
            asked=shape.units, lost=lost, of=of, machines=machines, outages=outages, then=then
        )

    def _scattered(self, line: Line, free: Amounts) -> Fragmented | CapacityLost | None:
        draft, shape = self.draft, line.shape
        cost = self._costs_now(shape) or draft.asks(shape)
        if draft.shares.ever_borrows(line.project, shape):
            is_allowed = draft.shares.lets_borrow(line.project, shape, cost)
        else:
            is_allowed = draft.shares.is_within(line.project, cost)
        if not is_allowed:
            return None
        fitting = sum(
            min(
                part.replicas,
                sum(room.slots(part) for room in self.supply.rooms(shape.wheres))
                + sum(left * part.most_on(size) for size, left in self.supply.makeable(shape)),
            )
            for part in shape.parts
        )
        found = None
        if self.change is not None:
            lost, machines = self.supply.lost(shape.wheres, shape.types)
            if machines and not self._fits_alone(shape):
                return self._capacity_lost(shape, lost, machines)
        elif self.searches < SEARCHES:
            staying = [r for r in draft.running.values() if not r.is_leaving]
            staying.sort(key=lambda running: least_lost(draft, running))
            self.searches += 1
            found = find(draft, shape, staying, _always, guaranteed=False)
            lost, machines = self.supply.lost(shape.wheres, shape.types)
            if found is None and machines:
                return self._capacity_lost(shape, lost, machines)
        to_end = tuple(job for r in found.victims for job in r.ids) if found else ()
        return Fragmented(
            asked=shape.units,
            free=free,
            fitting=min(fitting, shape.replicas),
            replicas=shape.replicas,
            to_end=to_end,
            guests=0 if shape.units else GUESTS,
        )
