"""
Why a gang waits: the one reason whose removal would let it start.

The order is: what no waiting changes (it never fits, no machine matches), then the quota (ceiling,
share), then what time solves (closed, scattered, lost, in use).

This module must not change anything: whatever it tries, it undoes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import cached_property, partial
from typing import TypeVar

from bastion.job import JobRecord
from bastion.scheduler.explain.next_walls import (
    WithNext,
    change_of,
    user_wall,
    wall_of,
    without,
)
from bastion.scheduler.explain.outage import outage_of
from bastion.scheduler.explain.quota_walls import QuotaWalls
from bastion.scheduler.explain.scatter import Scatter, scatter_of
from bastion.scheduler.explain.supply import Supply
from bastion.scheduler.explain.trial import Change, made
from bastion.scheduler.phases.reservations.backfill import put_off
from bastion.scheduler.phases.reservations.lending import counted
from bastion.scheduler.placement.feasibility import Beyond
from bastion.scheduler.placement.hold import machines_of
from bastion.scheduler.placement.place import Placed, cheapest
from bastion.scheduler.preemption.harm import least_lost
from bastion.scheduler.preemption.victims import Found, find
from bastion.scheduler.queue.order import Gang
from bastion.scheduler.queue.shape import MOST_BEST_EFFORT, Shape
from bastion.scheduler.reasons.next_wall import NextWall
from bastion.scheduler.reasons.reason import (
    CapacityLost,
    Fragmented,
    Maintenance,
    NoMachineMatches,
    PlannedForOther,
    WaitingForCapacity,
    WaitingReason,
)
from bastion.scheduler.reasons.words import NAMED
from bastion.scheduler.state.draft import Draft
from bastion.scheduler.state.holders.footprint import Footprint, pairs_of
from bastion.scheduler.state.holders.release import Release
from bastion.scheduler.state.holders.running import Running
from bastion.scheduler.state.reservation import Reserved
from quota.amounts import NOTHING, Amounts, missing

SEARCHES, SEARCHES_OF_FEW = 2, 8
"""Scattered gangs per cycle whose obstacles are searched; the cost grows with running jobs."""

MOST_NAMED = 8
"""The most other gangs named by a reason, among those with a reservation."""

TRIALS = 8
"""Second walls tried per cycle."""

SCATTERS = 32
"""Shapes per cycle whose parts are all counted on free capacity; each costs every machine."""

MOST_TRIED = 200
"""With more running gangs, no second wall is tried and no start beyond a share is estimated."""

T = TypeVar("T")


def _kept(closed: Sequence[Reserved]) -> PlannedForOther:
    """Return the gangs that have a reservation, in the order of their starts."""
    first, *others = sorted(closed, key=lambda each: (each.until, each.name))
    more = tuple(each.name for each in others[:MOST_NAMED])
    at = None if first.drains else first.until
    return PlannedForOther(other=first.name, at=at, units=first.shape.units, more=more)


def _several(shape: Shape) -> Amounts:
    """Return the devices of one replica, if all replicas are alike and need several of a type."""
    if shape.takes_whole or len({part.per_replica for part in shape.parts}) > 1:
        return NOTHING
    devices = Amounts(dict(shape.parts[0].devices))
    return devices if any(n > 1 for _, n in devices.items()) else NOTHING


@contextmanager
def _not_paid(closed: Sequence[Reserved]) -> Iterator[None]:
    """Temporarily free all that the gangs for which `closed` waits are charged."""
    paid = [each for reserved in closed for each in reserved.paid]
    for running, tier, units in paid:
        running.pay(tier, -units)
    yield
    for running, tier, units in paid:
        running.pay(tier, units)


class Diagnosis:
    """
    Finds the dominant reason of gangs that cannot start.

    Args:
        draft: At the end of its cycle.
        waits: What each project waits for within its share.
        change: What was changed on trial; None in the cycle's own diagnosis.
    """

    def __init__(
        self, draft: Draft, waits: Mapping[str, Amounts], change: Change | None = None
    ) -> None:
        self.draft, self.change = draft, change
        self.supply = Supply(draft, change.gone if change else ())
        self.searches = self.trials = 0
        self._waits = waits
        self._opened: dict[int, WaitingReason | None] = {}
        """Form of a shape -> the closed capacity on which it would fit, once that was tried."""
        self._maintained: dict[int, Maintenance | None] = {}
        self._scatters: dict[int, Scatter] = {}
        self._capacity: dict[int, WaitingReason] = {}

    @cached_property
    def quota(self) -> QuotaWalls:
        """What quota says against gangs."""
        return QuotaWalls(self.draft, self._waits, is_trial=self.change is not None)

    def reason(self, gang: Gang, shape: Shape) -> WaitingReason:
        """Return why `gang`, which asks for `shape`, waits."""
        project = gang[0].project
        found = (
            self.draft.beyond(shape)
            or self.quota.find(project, shape)
            or self._once(self._maintained, self._closed_without, shape)
            or self._by_closure(shape)
            or self._by_first(gang, shape)
            or self._by_capacity(project, shape)
        )
        return self._with_next(gang, shape, found)

    def never(self, project: str, shape: Shape) -> Beyond | None:
        """Return why a gang of `project` can never start, whatever ends; None if it may start."""
        return self.draft.beyond(shape) or self.quota.never(project, shape)

    def wall_after(
        self,
        gang: Sequence[JobRecord],
        shape: Shape,
        change: Change,
        *,
        is_limited: bool = True,
        is_renewed: bool = False,
    ) -> NextWall | None:
        """
        Return what blocks a gang that is not queued yet, once `change` has happened.

        `is_limited`: whether the limits of its user still apply then. Budgets apply unless they are
        renewed by then, or the gang starts whatever was used.
        """
        project = gang[0].project
        if (never := self.never(project, shape)) is not None:
            return wall_of(never)
        budget = self.draft.budgets.over(project, self.draft.asks(shape))
        if budget is not None and not is_renewed:
            return NextWall(kind="BudgetSpent", names=(budget.of,))
        over = user_wall(self.draft, gang, shape, change) if is_limited else None
        if over is not None:
            return over
        if not self.is_tried:
            return self._outage_wall(shape)
        return self._next_wall(gang, shape, change)

    def _once(self, known: dict[int, T], ask: Callable[[Shape], T], shape: Shape) -> T:
        """Ask what depends on the shape alone once per form."""
        if shape.form not in known:
            known[shape.form] = ask(shape)
        return known[shape.form]

    def _with_next(self, gang: Gang, shape: Shape, reason: WaitingReason) -> WaitingReason:
        """
        Return `reason`, with what blocks the gang once the named cause is gone.

        With many running gangs, only machines that are out of use are considered: a trial would be
        slow.
        """
        if isinstance(reason, NoMachineMatches) and reason.filter and not reason.is_final:
            asked = self.draft.shapes.if_filtered(gang, partial(without, written=reason.filter))
            then = self.wall_after(gang, asked, Change())
            if then is None or (then.kind == "NeverFits" and reason.empty):
                return reason  # a pool that creates no machines now would do
            return replace(reason, then=then)
        if not isinstance(reason, WithNext):
            return reason
        if self.is_tried:
            then = self._next_wall(gang, shape, change_of(self.draft, reason))
        elif isinstance(reason, CapacityLost):
            then = reason.then
        else:
            then = self._outage_wall(shape)
        return replace(reason, then=then)

    @property
    def is_tried(self) -> bool:
        """Whether trials are made: with many running gangs each would be slow."""
        holding = len(self.draft.running) + len(self.draft.admitted)
        return holding <= MOST_TRIED and self.trials < TRIALS

    def _outage_wall(self, shape: Shape) -> NextWall | None:
        """Return the machines that `shape` needs back, whatever else changes."""
        lost, machines = self.supply.lost(shape)
        if not machines or self.supply.is_enough(shape):
            return None
        return NextWall(kind="CapacityLost", units=lost, names=machines)

    def _next_wall(
        self, gang: Sequence[JobRecord], shape: Shape, change: Change
    ) -> NextWall | None:
        """Return what blocks the gang once `change` has happened, by trying it out."""
        draft, project = self.draft, gang[0].project
        self.trials += 1
        with made(draft, change):
            there = Diagnosis(draft, {}, change)
            drained = there._by_first(gang, shape)
            if drained is None and there._starts(project, shape):
                return None
            reason = there.quota.find(project, shape) or there._closed_without(shape) or drained
            scarcity = there._by_capacity(project, shape)
        closed = [each for each in draft.closed if each.name not in change.opened]
        if reason is None and closed:
            with (
                self._open_all(draft.closed),
                _not_paid(draft.closed),
                made(draft, replace(change, opened=())),
            ):
                reason = _kept(closed) if self._is_placed(shape) else None
        return wall_of(reason or scarcity)

    def _starts(self, project: str, shape: Shape) -> bool:
        """Whether the quota and the machines let the gang start."""
        allows = partial(self.draft.shares.has_room, project, shape)
        return allows(shape.asked) and self._is_placed(shape, allows)

    def _is_placed(self, shape: Shape, allows: Callable[[Amounts], bool] | None = None) -> bool:
        return self.draft.would_place(shape, allows, guaranteed=False) is not None

    def _closed_without(self, shape: Shape, gone: Iterable[Running] = ()) -> Maintenance | None:
        """Return the maintenance that keeps it out if `gone` had ended and nothing else closed."""
        capacity = self.draft.capacity
        if not capacity.closures:
            return None
        with capacity.maintained_until(), self._ended(gone):
            placed = self.draft.try_place(shape, guaranteed=False)
            names = [] if placed is None else [*machines_of(placed.placements)]
            machines = [capacity.by_name[name].machine for name in names]
        window = capacity.closures.first(machines)
        if window is None:
            return None
        return Maintenance(
            window=str(window),
            at=window.starts_at,
            until=window.ends_at,
            over_by=window.starts_at - capacity.closures.spare_s - shape.grace_s,
        )

    def _by_first(self, gang: Sequence[JobRecord], shape: Shape) -> WaitingReason | None:
        """Return a reason if it delays earlier gangs of its project, or they drain its room."""
        line, opened = self.draft.line_of(tuple(gang)), self.change.opened if self.change else ()
        reservations, project = self.draft.reservations, line.project
        planned = [each for each in reservations.ahead_of(line) if each.name not in opened]
        kept = [each for each in reservations.drained_before(line) if each.name not in opened]
        with counted(self.draft, planned):
            is_within = self.draft.shares.may_start(project, shape.asked, own=not shape.borrows)
        if not is_within:
            kept += put_off(self.draft, planned, shape)
        return _kept(kept) if kept else None

    def _by_closure(self, shape: Shape) -> WaitingReason | None:
        """Return a reason if it would fit were nothing closed for others."""
        if shape.form not in self._opened:
            waiting = (line.shape for line in self.draft.blocked if not line.is_over)
            self._try_open({each.form: each for each in (*waiting, shape)})
        return self._opened[shape.form]

    def _try_open(self, shapes: Mapping[int, Shape]) -> None:
        """Try all `shapes` while everything is open: opening takes longer than checking."""
        closed = [r for r in self.draft.closed if r.hold is not None and r.hold.keeps_any]
        with self._open_all(closed):
            placed = {
                form: self.draft.would_place(shape, guaranteed=False)
                for form, shape in shapes.items()
                if closed
            }
        on: dict[str, list[Reserved]] = {}
        for each in closed:
            for machine in each.footprint.masks:
                on.setdefault(machine, []).append(each)
        for form, shape in shapes.items():
            there = placed.get(form)
            reason = None if there is None else _kept(self._in_the_way(shape, there, on) or closed)
            self._opened[form] = reason

    def _in_the_way(
        self, shape: Shape, placed: Placed, on: Mapping[str, Sequence[Reserved]]
    ) -> list[Reserved]:
        """Return the closures where it was `placed`; none if only these open do not suffice."""
        wanted = Footprint(pairs_of(shape.parts, placed.placements))
        near = {each.name: each for machine in wanted.masks for each in on.get(machine, ())}
        found = [each for each in near.values() if each.footprint.meets(wanted)]
        with self._open_all(found):
            return found if self.draft.would_place(shape, guaranteed=False) is not None else []

    @contextmanager
    def _open_all(self, closed: Sequence[Reserved]) -> Iterator[None]:
        """Temporarily open what machines and tiers keep for `closed`; the quota still counts."""
        with self.draft.capacity.trial():
            for hold in [each.hold for each in closed if each.hold is not None]:
                self.draft.capacity.lift(hold)
            yield

    def _by_capacity(self, project: str, shape: Shape) -> WaitingReason:
        free = self.supply.free(shape)
        if not missing(shape.units, free):
            scattered = self._scattered(project, shape, free)
            if scattered is not None:
                return scattered
        short = missing(shape.units, free)
        if not short:  # the quota has too little room
            charge = self._charge(shape)
            available = self.draft.shares.available(project, charge)
            return self._missing(shape, missing(charge, available))
        return self._once(
            self._capacity, partial(self._missing, short=short, is_machines=True), shape
        )

    def _charge(self, shape: Shape) -> Amounts:
        """Return the charge of a gang: for whole machines, of those that are free."""
        capacity, policy = self.draft.capacity, self.draft.parts.placement
        placed = cheapest(capacity, shape, policy) if shape.takes_whole else None
        return self.draft.asks(shape) if placed is None else placed.total

    @contextmanager
    def _ended(self, gone: Iterable[Running]) -> Iterator[None]:
        """Temporarily free what `gone` hold of machines."""
        with self.draft.capacity.trial():
            for running in gone:
                Release(self.draft.capacity, running)
            yield

    def _missing(self, shape: Shape, short: Amounts, *, is_machines: bool = False) -> WaitingReason:
        for shelf in self.supply.shelves(shape):
            if shelf.stockout is not None and shelf.could_make:
                return shelf.stockout
        lost, machines = self.supply.lost(shape)
        if short and (short <= lost or (machines and not self.supply.is_enough(shape))):
            return self._capacity_lost(shape, lost, machines)
        holders = self.supply.holders(shape.types.union(self.draft.asks(shape).types()))
        closed = self.draft.closed
        if closed and not holders:
            return _kept(closed)
        return WaitingForCapacity(
            asked=shape.units,
            short=short,
            holders=holders,
            replicas=shape.replicas,
            replica=_several(shape) if is_machines else NOTHING,
        )

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

    def _scattered(
        self, project: str, shape: Shape, free: Amounts
    ) -> Fragmented | CapacityLost | Maintenance | None:
        draft, shares = self.draft, self.draft.shares
        borrows = shares.ever_borrows(project, shape)
        is_allowed = shares.may_borrow if borrows else shares.is_within
        if not is_allowed(project, self._charge(shape)):
            return None
        found = None
        if self.change is not None:
            there = [r for name, r in draft.running.items() if name not in self.change.gone]
            with self._ended(there):
                fits = self._is_placed(shape)
            if not fits:
                return self._unusable(shape, there) or self._fragmented(shape, free)
        elif self.searches < (SEARCHES_OF_FEW if len(draft.running) <= MOST_TRIED else SEARCHES):
            there = [running for running in draft.running.values() if not running.is_leaving]
            there.sort(key=lambda running: least_lost(draft, running))
            self.searches += 1
            found = find(draft, shape, there, lambda *_: True, guaranteed=False)
            if found is None:
                return self._unusable(shape, there) or self._fragmented(shape, free)
        return self._fragmented(shape, free, found)

    def _unusable(self, shape: Shape, gone: Iterable[Running]) -> CapacityLost | Maintenance | None:
        """Return the unusable machines that it lacks even if all of `gone` had ended."""
        lost, machines = self.supply.lost(shape)
        if machines:
            return self._capacity_lost(shape, lost, machines)
        return self._closed_without(shape, gone)

    def _fragmented(self, shape: Shape, free: Amounts, found: Found | None = None) -> Fragmented:
        draft = self.draft
        to_end = tuple(job for r in found.victims for job in r.ids) if found else ()
        in_full = len(self._scatters) < SCATTERS
        count = partial(scatter_of, draft, in_full=in_full)
        over, fitting = self._once(self._scatters, count, shape)
        return Fragmented(
            asked=shape.units,
            free=free,
            fitting=fitting,
            replicas=shape.replicas,
            to_end=to_end,
            per_machine=0 if shape.units else MOST_BEST_EFFORT,
            over=over,
        )
