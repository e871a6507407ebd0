"""
Why the gangs of a line wait: the one reason that, taken away, would let them go on.

Asked in the order from what nobody can change by waiting (it never fits, no machine matches) over
what the quota says (ceiling, share) to what time will solve (closed, scattered, lost, in use).

It must not change anything: what it tries, it undoes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from operator import itemgetter

from bastion.scheduler.capacity import can_make
from bastion.scheduler.draft import Draft, Reserved
from bastion.scheduler.estimate import Estimates
from bastion.scheduler.extent import never_fits, no_way, unmatched
from bastion.scheduler.footprint import Footprint, Pairs, pairs_of
from bastion.scheduler.order import Gang, Line
from bastion.scheduler.plan import Wait
from bastion.scheduler.planned import Claims
from bastion.scheduler.reason import (
    NAMED,
    Behind,
    BeyondShare,
    CapacityLost,
    Fragmented,
    OverCeiling,
    Planned,
    PlannedForOther,
    ProviderStockout,
    WaitingForCapacity,
    WaitingReason,
)
from bastion.scheduler.room import Room, Shelf
from bastion.scheduler.running import Running
from bastion.scheduler.shape import Shape
from bastion.scheduler.victims import find, least_lost
from quota.amounts import NOTHING, Amounts, missing

SEARCHES = 2
"""Gangs waiting for capacity whose start is estimated in one cycle; each costs time."""

Told = tuple[Gang, Wait]
"""A waiting gang; why it waits, and when it will probably start."""


_order = itemgetter(0, 1, 2, 3, 4)


def _always(_: Sequence[Running]) -> bool:
    return True


class Diagnosis:
    """Finds the dominant reason of every line that is blocked."""

    def __init__(self, draft: Draft) -> None:
        self.draft = draft
        self.searches = 0
        self.estimates = Estimates(draft)
        self._known: dict[tuple[str, int], WaitingReason] = {}
        self._by_shape: dict[int, WaitingReason | None] = {}
        self._closure: dict[int, WaitingReason | None] = {}
        self._capacity: dict[int, WaitingReason] = {}
        self._free_of: dict[int, Amounts] = {}

    @cached_property
    def claims(self) -> Claims:
        """Of all projects, at the end of the cycle."""
        return Claims(self.draft)

    def tell(self) -> Iterator[Told]:
        """Every blocked gang; those that wait for the same behind each other."""
        queues: dict[tuple[str, frozenset[str]], list[tuple[Line, WaitingForCapacity]]] = {}
        for line in self.draft.blocked:
            plan = self.draft.plans.get(line.head[0].id) if self.draft.plans else None
            if plan is not None:
                yield line.head, Wait(reason=self._planned(plan), estimated_at=plan.until)
                line.at += 1
                if line.is_over:
                    continue
            reason = self._reason(line)
            if isinstance(reason, WaitingForCapacity):
                queues.setdefault((line.project, line.shape.types), []).append((line, reason))
            else:
                told = Wait(reason=reason)
                for entry in line.waiting:
                    yield entry[3], told
        for lines in queues.values():
            yield from self._in_a_row(lines)

    def _planned(self, plan: Reserved) -> Planned:
        ending = plan.waits
        return Planned(at=plan.until, waiting_for=tuple(job for r in ending for job in r.ids))

    def _in_a_row(self, lines: list[tuple[Line, WaitingForCapacity]]) -> Iterator[Told]:
        row = []
        used = self.draft.usage_by_user.get(lines[0][0].project, {})
        for number, (line, _) in enumerate(lines):
            usage = used.get(line.user, 0.0)
            for rank, submitted, name, gang, _ in line.waiting:
                row.append((rank, usage, submitted, name, number, gang))
        row.sort(key=_order)
        units, jobs = NOTHING, 0
        first: tuple[str, ...] = ()
        for *_, number, gang in row:
            line, reason = lines[number]
            if jobs:
                behind = Behind(jobs=jobs, units=units, first=first, short=reason.short)
                yield gang, Wait(reason=behind)
            else:
                yield gang, self._with_start(line, reason)
            if len(first) < NAMED:
                first = (*first, *(job.id for job in gang))[:NAMED]
            jobs += len(gang)
            units = units + line.shape.units

    def _with_start(self, line: Line, reason: WaitingReason) -> Wait:
        """What the head of `line` is told: why it waits, and when it will probably start."""
        found = None
        if self.searches < SEARCHES:
            self.searches += 1
            found = self.estimates.of(line)
        if found is None:
            return Wait(reason=reason)
        return Wait(
            reason=reason,
            estimated_at=found.at,
            rests_on=found.rests_on,
            off_by_s=found.off_by_s,
        )

    def _reason(self, line: Line) -> WaitingReason:
        key = line.project, line.shape.form
        known = self._known.get(key)
        if known is None:
            known = self._known[key] = (
                self.beyond(line.shape)
                or self._by_quota(line)
                or self._once(self._closure, self._by_closure, line.shape)
                or self._by_capacity(line)
            )
        return known

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

    def beyond(self, shape: Shape) -> WaitingReason | None:
        """Why no machine there is, or could be, holds a gang of `shape`; None when they do."""
        return self._once(self._by_shape, self._by_extent, shape)

    def _by_extent(self, shape: Shape) -> WaitingReason | None:
        capacity = self.draft.capacity
        found = unmatched(capacity, shape) or never_fits(capacity, shape)
        is_intricate = shape.takes_whole or len(shape.parts) > 1
        if found is None and is_intricate and self.draft.extent.alone(shape) is None:
            return no_way(capacity, shape)
        return found

    def _by_quota(self, line: Line) -> WaitingReason | None:
        shares, shape = self.draft.shares, line.shape
        project = shares.project(line.project)
        held, asked, totals = shares.held(line.project), self.draft.asks(shape), shares.totals
        if not shares.is_under_ceiling(line.project, asked) and any(
            project.ceiling[t] != totals[t] or units > totals[t] for t, units in asked.items()
        ):
            ceiling = project.ceiling.only(asked)
            return OverCeiling(
                project=line.project, asked=asked, held=held.only(asked), ceiling=ceiling
            )
        if not asked or shares.is_within(line.project, asked):
            return None
        claimed = self.claims.of_others(line.project)
        if totals.holds(claimed + held, asked):
            return None
        others = claimed.only(asked)
        if not others:
            return None
        return BeyondShare(
            project=line.project,
            asked=asked,
            share=project.nominal.only(asked),
            held=held.only(asked),
            others=others,
            total=totals.only(asked),
        )

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
        first = min(closed, key=lambda each: (each.until, each.name))
        return PlannedForOther(other=first.name, at=first.until, units=first.shape.units)

    def _by_capacity(self, line: Line) -> WaitingReason:
        shape = line.shape
        if shape.form not in self._free_of:
            self._free_of[shape.form] = self._free(shape)
        free = self._free_of[shape.form]
        if not missing(shape.units, free):
            scattered = self._scattered(line, free)
            if scattered is not None:
                return scattered
        short = missing(shape.units, free)
        if not short:  # it is the quota that has too little room
            room = self.draft.shares.available(line.project, self.draft.asks(shape))
            return self._missing(shape, missing(self.draft.asks(shape), room))
        if shape.form not in self._capacity:
            self._capacity[shape.form] = self._missing(shape, short)
        return self._capacity[shape.form]

    def _missing(self, shape: Shape, short: Amounts) -> WaitingReason:
        for shelf in self._shelves(shape):
            if shelf.stocked_out_until > self.draft.now and shelf.could_make:
                return ProviderStockout(pool=shelf.name, until=shelf.stocked_out_until)
        lost, machines = self._lost(shape)
        if short and (short <= lost or (machines and not self._is_enough(shape))):
            return self._capacity_lost(shape, lost, machines)
        return WaitingForCapacity(asked=shape.units, short=short, holders=self._holders(shape))

    def _is_enough(self, shape: Shape) -> bool:
        """Whether machines in order could hold it if nothing else were there."""
        rooms = [room for room in self._rooms(shape) if room.opened]
        made = self._makeable(shape)
        return all(
            part.hosts > 1
            or sum(part.most_on(room.sound) for room in rooms)
            + sum(left * part.most_on(size) for size, left in made)
            >= part.replicas
            for part in shape.parts
        )

    def _capacity_lost(
        self, shape: Shape, lost: Amounts, machines: tuple[str, ...]
    ) -> CapacityLost:
        of = Amounts.sum(room.full for room in self._rooms(shape)).only(shape.types)
        return CapacityLost(asked=shape.units, lost=lost, of=of, machines=machines)

    def _rooms(self, shape: Shape) -> list[Room]:
        scopes = [self.draft.capacity.scope(part.where) for part in shape.parts]
        rooms = self.draft.capacity.rooms
        return [room for room in rooms if any(scope.has(room) for scope in scopes)]

    def _shelves(self, shape: Shape) -> list[Shelf]:
        scopes = [self.draft.capacity.scope(part.where) for part in shape.parts]
        found = {s.name: s for scope in scopes for tier in scope.tiers for s in tier}
        return [found[name] for name in sorted(found)]

    def _makeable(self, shape: Shape) -> list[tuple[Amounts, int]]:
        """(size, number) of machines that pools it may use could still make."""
        wheres = [part.where for part in shape.parts]
        return [
            (shelf.pool.resources, shelf.left)
            for shelf in self._shelves(shape)
            if shelf.left and shelf.pool and any(can_make(where, shelf) for where in wheres)
        ]

    def _free(self, shape: Shape) -> Amounts:
        """Free on machines it may use, or that can be made, and within the tiers' totals."""
        rooms = self._rooms(shape)
        tiers = self.draft.capacity.tier_free
        free = {}
        for resource in shape.types:
            free[resource] = sum(room.free(resource) for room in rooms)
            free[resource] += sum(left * size[resource] for size, left in self._makeable(shape))
            if resource in self.draft.capacity.types:
                allowed = sum(max(0, tier[resource]) for tier in tiers)
                free[resource] = min(free[resource], allowed)
        return Amounts(free)

    def _scattered(self, line: Line, free: Amounts) -> Fragmented | CapacityLost | None:
        draft, shape = self.draft, line.shape
        if not draft.shares.may_borrow(line.project, self.draft.asks(shape)):
            return None
        fitting = sum(
            min(
                part.replicas,
                sum(room.slots(part) for room in self._rooms(shape))
                + sum(left * part.most_on(size) for size, left in self._makeable(shape)),
            )
            for part in shape.parts
        )
        staying = [r for r in draft.running.values() if not r.is_leaving]
        staying.sort(key=lambda running: least_lost(draft, running))
        found = None
        if self.searches < SEARCHES:
            self.searches += 1
            found = find(draft, shape, staying, _always, guaranteed=False)
            lost, machines = self._lost(shape)
            if found is None and machines:
                return self._capacity_lost(shape, lost, machines)
        to_end = tuple(job for r in found.victims for job in r.ids) if found else ()
        return Fragmented(
            asked=shape.units,
            free=free,
            fitting=min(fitting, shape.replicas),
            replicas=shape.replicas,
            to_end=to_end,
        )

    def _lost(self, shape: Shape) -> tuple[Amounts, tuple[str, ...]]:
        """What would be free if the machines that are out of use were back."""
        lost: dict[str, int] = {}
        machines = []
        for room in self._rooms(shape):
            if room.opened:
                gone = {t: room.lost(t) for t in shape.types}
            elif self.draft.is_used(room.name):
                continue
            else:
                gone = {t: room.full[t] for t in shape.types}
            if any(gone.values()) or not (shape.types or room.opened):
                machines.append(room.name)
                for resource, units in gone.items():
                    lost[resource] = lost.get(resource, 0) + units
        return Amounts(lost), tuple(sorted(machines))

    def _holders(self, shape: Shape) -> tuple[tuple[str, Amounts], ...]:
        types = shape.types.union(self.draft.asks(shape).types())
        held: dict[str, list[Amounts]] = {}
        for running in self.draft.running.values():
            held.setdefault(running.project, []).append(self._has(running.shape, running.places))
        for each in self.draft.admitted:
            pairs = pairs_of(each.shape.parts, each.placed.placements)
            held.setdefault(each.gang[0].project, []).append(self._has(each.shape, pairs))
        sums = {name: Amounts.sum(parts).only(types) for name, parts in held.items()}
        sums = {name: units for name, units in sums.items() if units}
        weight = self.draft.shares.weight
        most = sorted(sums, key=lambda name: (-weight(sums[name]), name))
        return tuple((name, sums[name]) for name in most[:NAMED])

    def _has(self, shape: Shape, pairs: Pairs) -> Amounts:
        """Everything a gang keeps from others: what it asks for, or the whole machines it takes."""
        if not shape.takes_whole:
            return shape.units
        rooms = self.draft.capacity.by_name
        whole = Footprint(pairs).whole
        return shape.units | Amounts.sum(rooms[name].full for name in whole if name in rooms)
