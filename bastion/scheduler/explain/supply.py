"""
`Supply`: what machines have for a shape, how much is out of use, and which projects hold it.

This module must not change anything; inside a trial it describes the trial's state.
"""

from __future__ import annotations

from collections.abc import Collection
from functools import cached_property

from bastion.scheduler.placement.room import Room, Shelf
from bastion.scheduler.placement.scope import can_make
from bastion.scheduler.queue.shape import Shape
from bastion.scheduler.reasons.words import NAMED
from bastion.scheduler.state.draft import Draft
from bastion.scheduler.state.holders.footprint import Footprint, Pairs, pairs_of
from bastion.spec.where import Where
from quota.amounts import Amounts


class Supply:
    """The supply of one cycle, at its end."""

    def __init__(self, draft: Draft, gone: Collection[str] = ()) -> None:
        self.draft = draft
        self._gone = gone
        """Gangs that have ended on trial."""
        self._rooms_of: dict[tuple[Where, ...], list[Room]] = {}
        self._free_on: dict[tuple[tuple[Where, ...], str], int] = {}
        self._lost_of: dict[int, tuple[Amounts, tuple[str, ...]]] = {}
        self._is_enough: dict[int, bool] = {}
        """By the form of a shape."""
        self._holders_of: dict[frozenset[str], tuple[tuple[str, Amounts], ...]] = {}

    def is_enough(self, shape: Shape) -> bool:
        """Whether machines in order could hold it if nothing else ran."""
        if shape.form not in self._is_enough:
            sizes = [(room.sound, 1) for room in self.rooms(shape.wheres) if room.opened]
            sizes += self.makeable(shape)
            self._is_enough[shape.form] = all(
                part.hosts > 1 or sum(n * part.most_on(size) for size, n in sizes) >= part.replicas
                for part in shape.parts
            )
        return self._is_enough[shape.form]

    def rooms(self, wheres: tuple[Where, ...]) -> list[Room]:
        """Return the machines that any part of it may use."""
        found = self._rooms_of.get(wheres)
        if found is None:
            scopes = map(self.draft.capacity.scope, wheres)
            rooms = {room.ordinal: room for scope in scopes for room in scope.all()}
            found = self._rooms_of[wheres] = [rooms[ordinal] for ordinal in sorted(rooms)]
        return found

    @cached_property
    def _impaired(self) -> list[Room]:
        """Return machines that are out of use, or have unusable devices."""
        return [room for room in self.draft.capacity.rooms if room.bad or not room.opened]

    def shelves(self, shape: Shape) -> list[Shelf]:
        """Return what pools have, or can create, of the machines that any part may use, by name."""
        scopes = map(self.draft.capacity.scope, shape.wheres)
        found = {s.name: s for scope in scopes for tier in scope.tiers for s in tier}
        return [found[name] for name in sorted(found)]

    def makeable(self, shape: Shape) -> list[tuple[Amounts, int]]:
        """Return (size, number) of machines that pools it may use could still create."""
        return [
            (shelf.pool.resources, shelf.left)
            for shelf in self.shelves(shape)
            if shelf.left and shelf.pool and any(can_make(where, shelf) for where in shape.wheres)
        ]

    def free(self, shape: Shape) -> Amounts:
        """Return what is free on machines it may use or that can be created, within tier totals."""
        return self.within_tiers(Amounts({t: self._free(shape, t) for t in shape.types}))

    def _free(self, shape: Shape, resource: str) -> int:
        """Return units of `resource` that are free on those machines."""
        key = shape.wheres, resource
        if key not in self._free_on:
            standing = sum(room.free(resource) for room in self.rooms(shape.wheres))
            made = sum(left * size[resource] for size, left in self.makeable(shape))
            self._free_on[key] = standing + made
        return self._free_on[key]

    def within_tiers(self, free: Amounts) -> Amounts:
        """Return as much of `free` as the totals of the tiers leave."""
        capacity = self.draft.capacity
        left = {t: sum(max(0, tier[t]) for tier in capacity.tier_free) for t in capacity.types}
        return Amounts({t: min(units, left.get(t, units)) for t, units in free.items()})

    def lost(self, shape: Shape) -> tuple[Amounts, tuple[str, ...]]:
        """Return what would be free if unusable machines were back, and those machines."""
        known = self._lost_of.get(shape.form)
        if known is not None:
            return known
        types = shape.types
        scopes = [*map(self.draft.capacity.scope, shape.wheres)]
        lost: dict[str, int] = {}
        machines = []
        for room in self._impaired:
            if not any(scope.has(room) for scope in scopes):
                continue
            gone = {t: room.lost(t) for t in types} if room.opened else self._unheld(room, types)
            if any(gone.values()) or not (types or room.opened):
                machines.append(room.name)
                for resource, units in gone.items():
                    lost[resource] = lost.get(resource, 0) + units
        known = self._lost_of[shape.form] = Amounts(lost), tuple(sorted(machines))
        return known

    def _unheld(self, room: Room, types: frozenset[str]) -> dict[str, int]:
        """Return what is idle on a machine that takes no new jobs."""
        left = {t: room.full[t] for t in types}
        for running in self.draft.on(room.name):
            if running.name in self._gone:
                continue
            if room.name in running.footprint.whole:
                return {}
            masks = running.footprint.masks[room.name]
            counts = running.footprint.counts.get(room.name, {})
            for resource in types:
                left[resource] -= masks.get(resource, 0).bit_count() + counts.get(resource, 0)
        return left

    def holders(self, types: frozenset[str]) -> tuple[tuple[str, Amounts], ...]:
        """Return projects and what they hold of `types`, most first."""
        known = self._holders_of.get(types)
        if known is not None:
            return known
        there: list[tuple[str, str, Shape, Pairs]] = [
            (r.name, r.project, r.shape, r.places) for r in self.draft.running.values()
        ]
        for new in self.draft.admitted:
            places = pairs_of(new.shape.parts, new.placed.placements)
            there.append((new.gang[0].id, new.gang[0].project, new.shape, places))
        held: dict[str, list[Amounts]] = {}
        for name, project, shape, places in there:
            if name not in self._gone:
                held.setdefault(project, []).append(self._has(shape, places))
        sums = {name: Amounts.sum(parts).only(types) for name, parts in held.items()}
        share = self.draft.shares.dominant_share
        most = sorted(filter(sums.get, sums), key=lambda name: (-share(sums[name]), name))
        known = self._holders_of[types] = tuple((name, sums[name]) for name in most[:NAMED])
        return known

    def _has(self, shape: Shape, pairs: Pairs) -> Amounts:
        """Return all that a gang keeps from others: its replicas, or whole machines."""
        units = Amounts.sum(part.per_replica for part, _ in pairs)
        if not shape.takes_whole:
            return units
        rooms = self.draft.capacity.by_name
        whole = Footprint(pairs).whole
        return units | Amounts.sum(rooms[name].full for name in whole if name in rooms)
