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
            self._is_enough[shape.form] = self._look_whether_enough(shape)
        return self._is_enough[shape.form]

    def _look_whether_enough(self, shape: Shape) -> bool:
        rooms = [room for room in self.rooms(shape.wheres) if room.opened]
        made = self.makeable(shape)
        return all(
            part.hosts > 1
            or sum(part.most_on(room.sound) for room in rooms)
            + sum(left * part.most_on(size) for size, left in made)
            >= part.replicas
            for part in shape.parts
        )

    def rooms(self, wheres: tuple[Where, ...]) -> list[Room]:
        """Return the machines that any part of it may use."""
        found = self._rooms_of.get(wheres)
        if found is None:
            scopes = [self.draft.capacity.scope(where) for where in wheres]
            rooms = {room.ordinal: room for scope in scopes for room in scope.all()}
            found = self._rooms_of[wheres] = [rooms[ordinal] for ordinal in sorted(rooms)]
        return found

    @cached_property
    def _impaired(self) -> list[Room]:
        """Return machines that are out of use, or have unusable devices."""
        return [room for room in self.draft.capacity.rooms if room.bad or not room.opened]

    def shelves(self, shape: Shape) -> list[Shelf]:
        """Return what pools have, or can create, of the machines that any part may use, by name."""
        scopes = [self.draft.capacity.scope(part.where) for part in shape.parts]
        found = {s.name: s for scope in scopes for tier in scope.tiers for s in tier}
        return [found[name] for name in sorted(found)]

    def makeable(self, shape: Shape) -> list[tuple[Amounts, int]]:
        """Return (size, number) of machines that pools it may use could still create."""
        wheres = [part.where for part in shape.parts]
        return [
            (shelf.pool.resources, shelf.left)
            for shelf in self.shelves(shape)
            if shelf.left and shelf.pool and any(can_make(where, shelf) for where in wheres)
        ]

    def free(self, shape: Shape) -> Amounts:
        """Return what is free on machines it may use or that can be created, within tier totals."""
        return self.within_tiers(Amounts({t: self._free(shape, t) for t in shape.types}))

    def _free(self, shape: Shape, resource: str) -> int:
        """Return units of `resource` free on machines that `shape` may use, or can be created."""
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
        if shape.form not in self._lost_of:
            self._lost_of[shape.form] = self._look_for_lost(shape)
        return self._lost_of[shape.form]

    def _look_for_lost(self, shape: Shape) -> tuple[Amounts, tuple[str, ...]]:
        types = shape.types
        scopes = [self.draft.capacity.scope(where) for where in shape.wheres]
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
        return Amounts(lost), tuple(sorted(machines))

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
        if types not in self._holders_of:
            self._holders_of[types] = self._look_for_holders(types)
        return self._holders_of[types]

    def _look_for_holders(self, types: frozenset[str]) -> tuple[tuple[str, Amounts], ...]:
        held: dict[str, list[Amounts]] = {}
        for running in self.draft.running.values():
            if running.name in self._gone:
                continue
            held.setdefault(running.project, []).append(self._has(running.shape, running.places))
        for each in self.draft.admitted:
            if each.gang[0].id in self._gone:
                continue
            pairs = pairs_of(each.shape.parts, each.placed.placements)
            held.setdefault(each.gang[0].project, []).append(self._has(each.shape, pairs))
        sums = {name: Amounts.sum(parts).only(types) for name, parts in held.items()}
        sums = {name: units for name, units in sums.items() if units}
        share = self.draft.shares.dominant_share
        most = sorted(sums, key=lambda name: (-share(sums[name]), name))
        return tuple((name, sums[name]) for name in most[:NAMED])

    def _has(self, shape: Shape, pairs: Pairs) -> Amounts:
        """Return all that a gang keeps from others: its replicas, or whole machines."""
        units = Amounts.sum(part.per_replica for part, _ in pairs)
        if not shape.takes_whole:
            return units
        rooms = self.draft.capacity.by_name
        whole = Footprint(pairs).whole
        return units | Amounts.sum(rooms[name].full for name in whole if name in rooms)
