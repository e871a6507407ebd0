"""
Why the gangs of a line wait: the one reason that, taken away, would let them go on.

Asked in the order from what nobody can change by waiting (it never fits, no machine matches) over
what the quota says (ceiling, share) to what time will solve (closed, scattered, lost, in use).

It must not change anything: what it tries, it undoes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import cached_property

from bastion.scheduler.explain.outage import outage_of
from bastion.scheduler.forecast.estimate import Estimates, estimates
from bastion.scheduler.phases.planned_starts import Claims
from bastion.scheduler.placement.capacity import can_make
from bastion.scheduler.placement.place import cheapest
from bastion.scheduler.placement.room import Room, Shelf
from bastion.scheduler.plan import Wait, wait_for
from bastion.scheduler.preemption.victims import find, least_lost
from bastion.scheduler.queue.order import Entry, Gang, Line
from bastion.scheduler.queue.positions import Crowd, Row, Stretch
from bastion.scheduler.queue.shape import Shape
from bastion.scheduler.reasons.reason import (
    NAMED,
    BeyondShare,
    CapacityLost,
    Fragmented,
    NeverFits,
    OverCeiling,
    Planned,
    PlannedForOther,
    WaitingForCapacity,
    WaitingReason,
)
from bastion.scheduler.state.draft import Draft
from bastion.scheduler.state.footprint import Footprint, Pairs, pairs_of
from bastion.scheduler.state.reservation import Reserved
from bastion.scheduler.state.running import Running
from bastion.spec.where import Where
from quota.amounts import Amounts, missing

SEARCHES = 2
"""Scattered gangs for whom those in their way are looked for in one cycle; each costs time."""

FEW = 200
"""Gangs that run: with more, those who ask beyond their share are too many to be estimated."""
HOPE = (WaitingForCapacity, Fragmented)
HOPE_OF_FEW = (*HOPE, BeyondShare)
"""Those who wait for these are let go on by time alone."""

Told = tuple[Gang, Wait]
"""A waiting gang; why it waits, and when it will probably start."""


def _kept(closed: Sequence[Reserved]) -> PlannedForOther:
    """The first of those for whom something is kept."""
    first = min(closed, key=lambda each: (each.until, each.name))
    return PlannedForOther(other=first.name, at=first.until, units=first.shape.units)


def _always(_units: Amounts, _gone: Sequence[Running]) -> bool:
    return True


class _Used:
    """What is used and claimed of the types of `asked`, as a project sees it."""

    __slots__ = ("all", "held", "others", "share", "total")

    def __init__(self, diagnosis: Diagnosis, project: str, asked: Amounts) -> None:
        shares = diagnosis.draft.shares
        self.share = shares.project(project).nominal.only(asked)
        self.held = shares.held(project).only(asked)
        self.others = diagnosis.claims.of_others(project).only(asked)
        self.all = self.others + self.held
        self.total = shares.totals.only(asked)


class Diagnosis:
    """Finds the dominant reason of every line that is blocked."""

    def __init__(self, draft: Draft) -> None:
        self.draft = draft
        self.searches = 0
        self.estimates = Estimates(starts={})
        """Of those whom time alone lets go on; complete once `tell` is over."""
        self.in_line: list[Crowd | Row] = []
        """Those for whom nothing is done."""
        self._known: dict[tuple[str, int], WaitingReason] = {}
        self._used: dict[tuple[str, tuple[str, ...]], _Used] = {}
        self._closure: dict[int, WaitingReason | None] = {}
        self._capacity: dict[int, WaitingReason] = {}
        self._free_of: dict[int, Amounts] = {}
        self._rooms_of: dict[tuple[Where, ...], list[Room]] = {}
        self._lost_of: dict[
            tuple[tuple[Where, ...], frozenset[str]], tuple[Amounts, tuple[str, ...]]
        ] = {}
        self._holders_of: dict[frozenset[str], tuple[tuple[str, Amounts], ...]] = {}

    @cached_property
    def claims(self) -> Claims:
        """Of all projects, at the end of the cycle."""
        return Claims(self.draft)

    def tell(self) -> Iterator[Told]:
        """
        Every blocked gang, but for those that stand `in_line`, which is complete once this is over.

        Whoever waits for the same types stands behind others.
        """
        rows: dict[tuple[str, frozenset[str]], list[tuple[Line, WaitingForCapacity]]] = {}
        hopeful: list[Line] = []
        hope = HOPE_OF_FEW if len(self.draft.running) <= FEW else HOPE
        crowds: dict[tuple[str, int], list[Entry]] = {}
        plans = self.draft.plans
        for line in self.draft.blocked:
            if plans and (plan := plans.get(line.head[0].id)) is not None:
                yield line.head, Wait(reason=self._planned(plan), estimated_at=plan.until)
                line.at += 1
                if line.is_over:
                    continue
            key = line.project, line.shape.form
            reason = self._known.get(key) or self._reason(line)
            if isinstance(reason, hope):
                hopeful.append(line)
            if isinstance(reason, WaitingForCapacity):
                rows.setdefault((line.project, line.shape.types), []).append((line, reason))
            elif line.fail_when_busy or isinstance(reason, NeverFits):
                yield from ((entry[3], Wait(reason=reason)) for entry in line.waiting)
            else:
                crowds.setdefault(key, []).extend(line.waiting)
        if hopeful:
            self.estimates = estimates(self.draft, hopeful)
        for key, entries in crowds.items():
            self.in_line.append(Crowd(entries=entries, reason=self._known[key]))
        for lines in rows.values():
            yield from self._in_a_row(lines)

    def _planned(self, plan: Reserved) -> Planned:
        ending = plan.waits
        return Planned(at=plan.until, waiting_for=tuple(job for r in ending for job in r.ids))

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
        found = self._known[line.project, line.shape.form] = (
            self.draft.beyond(line.shape)
            or self._by_quota(line)
            or self._once(self._closure, self._by_closure, line.shape)
            or self._by_capacity(line)
        )
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
        if not shares.is_under_ceiling(line.project, asked):
            over = self._over_ceiling(line.project, asked)
            if over is not None:
                return over
        if not asked or shares.is_within(line.project, asked):
            return None
        key = line.project, asked.types()
        used = self._used.get(key)
        if used is None:
            used = self._used[key] = _Used(self, line.project, asked)
        if not used.others or used.total.holds(used.all, asked):
            return None
        return BeyondShare(
            project=line.project,
            asked=asked,
            share=used.share,
            held=used.held,
            others=used.others,
            total=used.total,
        )

    def _over_ceiling(self, name: str, asked: Amounts) -> OverCeiling | None:
        """Unless the ceiling is the total, and the total would do."""
        shares = self.draft.shares
        ceiling, totals = shares.project(name).ceiling, shares.totals
        if all(ceiling[t] == totals[t] and units <= totals[t] for t, units in asked.items()):
            return None
        held = shares.held(name).only(asked)
        return OverCeiling(project=name, asked=asked, held=held, ceiling=ceiling.only(asked))

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
            self._free_of[shape.form] = self._free(shape)
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

    def _missing(self, shape: Shape, short: Amounts) -> WaitingReason:
        for shelf in self._shelves(shape):
            if shelf.stockout is not None and shelf.could_make:
                return shelf.stockout
        lost, machines = self._lost(shape.wheres, shape.types)
        if short and (short <= lost or (machines and not self._is_enough(shape))):
            return self._capacity_lost(shape, lost, machines)
        holders = self._holders(shape.types.union(self.draft.asks(shape).types()))
        closed = [*self.draft.reserved.values(), *self.draft.plans.values()]
        if closed and not holders:
            return _kept(closed)
        return WaitingForCapacity(asked=shape.units, short=short, holders=holders)

    def _is_enough(self, shape: Shape) -> bool:
        """Whether machines in order could hold it if nothing else were there."""
        rooms = [room for room in self._rooms(shape.wheres) if room.opened]
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
        of = Amounts.sum(room.full for room in self._rooms(shape.wheres)).only(shape.types)
        rooms = self.draft.capacity.by_name
        outages = tuple(outage_of(rooms[name], shape.types) for name in machines[:NAMED])
        return CapacityLost(asked=shape.units, lost=lost, of=of, machines=machines, outages=outages)

    def _rooms(self, wheres: tuple[Where, ...]) -> list[Room]:
        """Machines that any of them leaves."""
        found = self._rooms_of.get(wheres)
        if found is None:
            scopes = [self.draft.capacity.scope(where) for where in wheres]
            rooms = self.draft.capacity.rooms
            found = [room for room in rooms if any(scope.has(room) for scope in scopes)]
            self._rooms_of[wheres] = found
        return found

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
        rooms = self._rooms(shape.wheres)
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
        cost = self._costs_now(shape) or draft.asks(shape)
        if not draft.shares.may_borrow(line.project, cost):
            return None
        fitting = sum(
            min(
                part.replicas,
                sum(room.slots(part) for room in self._rooms(shape.wheres))
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
            lost, machines = self._lost(shape.wheres, shape.types)
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

    def _lost(
        self, wheres: tuple[Where, ...], types: frozenset[str]
    ) -> tuple[Amounts, tuple[str, ...]]:
        """What would be free if the machines that are out of use were back; and which they are."""
        key = wheres, types
        if key not in self._lost_of:
            self._lost_of[key] = self._look_for_lost(wheres, types)
        return self._lost_of[key]

    def _look_for_lost(
        self, wheres: tuple[Where, ...], types: frozenset[str]
    ) -> tuple[Amounts, tuple[str, ...]]:
        """What would be free if the machines that are out of use were back."""
        lost: dict[str, int] = {}
        machines = []
        for room in self._rooms(wheres):
            gone = {t: room.lost(t) for t in types} if room.opened else self._unheld(room, types)
            if any(gone.values()) or not (types or room.opened):
                machines.append(room.name)
                for resource, units in gone.items():
                    lost[resource] = lost.get(resource, 0) + units
        return Amounts(lost), tuple(sorted(machines))

    def _unheld(self, room: Room, types: frozenset[str]) -> dict[str, int]:
        """What nobody holds of a machine to which nobody new may come."""
        left = {t: room.full[t] for t in types}
        for running in self.draft.on(room.name):
            if room.name in running.footprint.whole:
                return {}
            masks = running.footprint.masks[room.name]
            counts = running.footprint.counts.get(room.name, {})
            for resource in types:
                left[resource] -= masks.get(resource, 0).bit_count() + counts.get(resource, 0)
        return left

    def _holders(self, types: frozenset[str]) -> tuple[tuple[str, Amounts], ...]:
        """Projects and what they hold of `types`, most first."""
        if types not in self._holders_of:
            self._holders_of[types] = self._look_for_holders(types)
        return self._holders_of[types]

    def _look_for_holders(self, types: frozenset[str]) -> tuple[tuple[str, Amounts], ...]:
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
