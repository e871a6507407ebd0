"""
Capacity: every machine of the snapshot, and every machine that a pool could still create.

It is the working copy from which one cycle takes, promises and tries. A journal undoes a trial:
`begin` and `undo` may be nested, and `agree` keeps what was tried.

Usage never exceeds a tier's total of a type under quota. A device has one holder. What is closed
for one gang is open to no other unless it is deliberately lifted.

This module must not know projects, orders or policies.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import cached_property

from bastion.job import HostPlace, Placement, ReplicaPlace
from bastion.machine import Machine, MachinePhase, Pool
from bastion.machine_name import MachineName, parse_machine
from bastion.scheduler.placement.closures import Closures
from bastion.scheduler.placement.device_mask import all_of, lowest, mask_of
from bastion.scheduler.placement.hold import Charge, Hold, machines_of
from bastion.scheduler.placement.room import Room, RoomState, Shelf, kind_of
from bastion.scheduler.placement.scope import NEW, RoomIndex, Scope, can_make, passes
from bastion.scheduler.queue.shape import COUNTED, MOST_BEST_EFFORT, Part
from bastion.scheduler.snapshot import Snapshot
from bastion.spec.where import Where
from quota.amounts import NOTHING, Amounts

Occupied = tuple[Part, HostPlace, bool]
"""What one replica holds of one machine, and whether it is guaranteed."""


class Capacity:
    """All rooms of one cycle, and the tiers' totals."""

    def __init__(self, snapshot: Snapshot, now: float) -> None:
        self.quota = snapshot.quota
        self.types = snapshot.quota.types
        self.seq = snapshot.seq
        self.tier_count = len(snapshot.quota.tiers)
        self.tier_free = [{t: tier.units[t] for t in self.types} for tier in snapshot.quota.tiers]
        self.rooms: list[Room] = []
        self.by_name: dict[str, Room] = {}
        self.shelves: dict[str, Shelf] = {}
        self.created: list[Room] = []
        self.closures = Closures(snapshot.quota, now)
        self._index = RoomIndex(self.rooms)
        self._scopes: dict[Where, Scope] = {}
        self._scope_of: dict[Part, Scope] = {}
        self.texts: dict[str, tuple[str, ...]] = {}
        """Label -> its values on any machine, as far as requested."""
        self._journal: list[tuple[Room, RoomState] | tuple[None, Room]] = []
        self._trials: list[tuple[int, int, list[dict[str, int]]]] = []
        """(number, length of the journal at its beginning, the tiers' totals then)"""
        self._begun = 0
        for name in sorted(snapshot.pools):
            self._add_shelf(name, snapshot.pools[name], hosts=snapshot.pools[name].hosts)
        for name in sorted(snapshot.machines):
            self._add_machine(snapshot.machines[name], snapshot)
        for shelf in self.shelves.values():
            stockout = snapshot.stockouts.get(shelf.name)
            if stockout is not None and stockout.until > now:
                shelf.stockout = stockout
            shelf.count_what_it_could_make()

    def _add_shelf(self, name: str, pool: Pool | None, *, hosts: int, tier: int = 0) -> Shelf:
        tier = min(pool.tier if pool else tier, self.tier_count - 1)
        shelf = self.shelves[name] = Shelf(name, pool, tier, hosts=hosts)
        return shelf

    def _add_machine(self, machine: Machine, snapshot: Snapshot) -> None:
        shelf = self.shelves.get(machine.pool)
        if shelf is None:  # its pool is no longer in the settings
            hosts = 1
            if machine.slice:
                together = (each.slice == machine.slice for each in snapshot.machines.values())
                hosts = max(2, sum(together))
            shelf = self._add_shelf(machine.pool, None, hosts=hosts, tier=machine.tier)
        room = Room(machine, shelf, len(self.rooms), opened=machine.accepts)
        self.rooms.append(room)
        self.by_name[machine.name] = room
        shelf.add(room)
        if room.is_being_made:  # an earlier pass of this cycle may have created it
            shelf.made = max(shelf.made, self._number(shelf, machine.name) + 1)

    # Machines and pools

    @property
    def is_alike(self) -> bool:
        """Whether all machines, including possible ones, have equal contents in one tier."""
        return len(self._kinds) == 1 and (
            len(self.shelves) == 1 or not any(shelf.left for shelf in self.shelves.values())
        )

    @cached_property
    def _kinds(self) -> set[object]:
        made = {(s.tier, s.pool.resources) for s in self.shelves.values() if s.pool is not None}
        return made | {(room.shelf.tier, kind_of(room)) for room in self.rooms}

    def scope(self, where: Where) -> Scope:
        """Return the rooms and shelves that pass `where`."""
        found = self._scopes.get(where)
        if found is None:
            found = self._scopes[where] = self._scope(where)
        return found

    def scope_of(self, part: Part) -> Scope:
        """Return the same for the filter of `part`."""
        found = self._scope_of.get(part)
        if found is None:
            found = self.scope(part.where)
            if self.closures:
                found = self._open_scope(found, part)
            self._scope_of[part] = found
        return found

    def _open_scope(self, scope: Scope, part: Part) -> Scope:
        """Return what maintenance leaves of `scope` for `part`."""
        lets_start, lets_make = self.closures.lets_start, self.closures.lets_make
        standing = [room for room in scope.all() if lets_start(part, room.machine)]
        having = {room.shelf.name for room in standing}
        tiers = [
            [shelf for shelf in shelves if shelf.name in having or lets_make(part, shelf.name)]
            for shelves in scope.tiers
        ]
        return Scope(scope.where, tiers, standing, self.rooms)

    def _scope(self, where: Where) -> Scope:
        passing = None if where.is_anywhere else self.passing(where)
        having = {room.shelf.name for room in passing or ()}
        tiers: list[list[Shelf]] = [[] for _ in range(self.tier_count)]
        for name, shelf in self.shelves.items():
            if passing is None or name in having or can_make(where, shelf):
                tiers[shelf.tier].append(shelf)
        return Scope(where, tiers, passing, self.rooms)

    def passing(self, where: Where) -> list[Room]:
        """Return the rooms that pass `where`, in order."""
        rooms = self._index.narrowed(where)
        if where.pool:
            shelf = self.shelves.get(where.pool)
            own = shelf.rooms if shelf is not None else []
            rooms = min(rooms, own, key=len)
        return [room for room in rooms if passes(where, room.machine, room.shelf.pool)]

    @contextmanager
    def maintained_until(self, at: float = math.inf) -> Iterator[None]:
        """Temporarily search as if all maintenance that ends by `at` were over."""
        closures, scopes = self.closures, self._scope_of
        self.closures, self._scope_of = Closures(self.quota, at), {}
        try:
            yield
        finally:
            self.closures, self._scope_of = closures, scopes

    def make_room(self, shelf: Shelf) -> Room:
        """Return a room for a machine (the first of its slice) that `shelf` can create."""
        made = [self._make_room(shelf, host) for host in range(shelf.hosts)]
        shelf.made += 1
        return made[0]

    def make_again(self, placements: Iterable[Placement]) -> None:
        """Create the machines of `placements` again, which an undone trial created; same names."""
        missing = {name for name in machines_of(placements) if name not in self.by_name}
        for shelf in self.shelves.values():
            last = max((self._number(shelf, name) for name in missing), default=-1)
            while shelf.made <= last:
                self.make_room(shelf)

    def begin_cycle(self, seq: int) -> None:
        """Begin a trial that lasts for a cycle; machines that it creates are named by `seq`."""
        if seq != self.seq:
            self.seq = seq
            for shelf in self.shelves.values():
                names = (room.name for room in shelf.rooms if room.is_being_made)
                shelf.made = max((self._number(shelf, name) + 1 for name in names), default=0)
        self.begin()

    def end_cycle(self) -> None:
        """Return to the beginning of the cycle, whatever is on trial."""
        del self._trials[1:]
        self.undo()

    def _number(self, shelf: Shelf, machine: str) -> int:
        """Return its index among those this cycle creates for `shelf`; -1 for other machines."""
        named = parse_machine(machine, shelf.name)
        return named.index if named is not None and named.seq == self.seq else -1

    def _make_room(self, shelf: Shelf, host: int) -> Room:
        pool = shelf.pool
        assert pool is not None, "only a pool makes machines"
        name = MachineName(pool=shelf.name, seq=self.seq, index=shelf.made)
        zones = shelf.zones_in_stock() if pool.machines_per_zone else pool.zones
        machine = Machine(
            name=str(replace(name, host=host)) if shelf.hosts > 1 else str(name),
            pool=shelf.name,
            phase=MachinePhase.CREATING,
            resources=pool.resources,
            slice=str(name) if shelf.hosts > 1 else "",
            tier=pool.tier,
            zone=zones[0] if zones else "",
            labels=dict(pool.labels),
            created_at=NEW,
            permit_s=pool.permit_s,
        )
        room = Room(machine, shelf, len(self.rooms), opened=True)
        self.rooms.append(room)
        self.by_name[room.name] = room
        self.created.append(room)
        shelf.add(room)
        shelf.left -= 1
        if self._trials:
            self._journal.append((None, room))
        return room

    def _unmake_room(self, room: Room) -> None:
        self.rooms.pop()
        del self.by_name[room.name]
        self.created.pop()
        room.shelf.remove(room)
        room.shelf.left += 1
        named = parse_machine(room.name, room.shelf.name)
        assert named is not None, "it was named by this cycle"
        if not named.host:  # a single machine, or the first of its slice
            room.shelf.made -= 1

    # Trials

    @contextmanager
    def trial(self) -> Iterator[None]:
        """Try something that is always undone."""
        self.begin()
        try:
            yield
        finally:
            self.undo()

    def begin(self) -> None:
        """Begin a trial; `undo` or `agree` ends it."""
        before = [tier.copy() for tier in self.tier_free]
        self._begun += 1
        self._trials.append((self._begun, len(self._journal), before))

    def undo(self) -> None:
        """Return to the beginning of the innermost trial."""
        _, mark, self.tier_free = self._trials.pop()
        while len(self._journal) > mark:
            entry = self._journal.pop()
            if entry[0] is None:
                self._unmake_room(entry[1])
            else:
                room, kept = entry
                room.go_back(kept)
                room.shelf.settle(room)

    def agree(self) -> None:
        """Keep the changes of the innermost trial."""
        self._trials.pop()
        if not self._trials:
            self._journal.clear()

    def note(self, room: Room) -> None:
        """Record the state of `room` before its first change in the innermost trial."""
        if self._trials:
            number = self._trials[-1][0]
            if room.noted_in != number:
                room.noted_in = number
                self._journal.append((room, room.keep()))

    # Taking and giving back

    def take(self, room: Room, part: Part, *, guaranteed: bool) -> HostPlace:
        """Give one replica of `part` its lowest free devices on `room`."""
        self.note(room)
        devices = {}
        for resource, units in part.devices:
            devices[resource], room.masks[resource] = lowest(room.masks[resource], units)
        for resource, units in part.counts:
            room.counts[resource] -= units
        room.count(part, 1, guaranteed=guaranteed)
        room.shelf.settle(room)
        return HostPlace(machine=room.name, devices=devices)

    def take_all(self, room: Room, part: Part, *, guaranteed: bool) -> HostPlace:
        """Give one host of a slice to a replica of `part`, with all devices of its types."""
        self.note(room)
        devices = {t: all_of(room.masks.get(t, 0)) for t, _ in part.devices}
        room.count(part, 1, guaranteed=guaranteed)
        self.seal(room)
        return HostPlace(machine=room.name, devices=devices)

    def seal(self, room: Room) -> None:
        """Close it to all other gangs: one has taken the whole machine."""
        self.note(room)
        room.sealed = True
        room.masks = {}
        room.counts = {}
        room.shelf.settle(room)

    def occupy(self, part: Part, place: ReplicaPlace, *, guaranteed: bool) -> None:
        """Take exactly `place`: what an admitted replica holds, or an exact promise."""
        for host in place.hosts:
            room = self.by_name.get(host.machine)
            if room is not None:
                self._occupy(room, part, host, guaranteed=guaranteed)
                room.shelf.settle(room)

    def _occupy(self, room: Room, part: Part, host: HostPlace, *, guaranteed: bool) -> None:
        self.note(room)
        for resource, indices in host.devices.items():
            if resource in room.masks:
                room.masks[resource] &= ~mask_of(indices)
        for resource, units in part.counts_of_host:
            if resource in room.counts:
                room.counts[resource] -= units
        room.count(part, 1, guaranteed=guaranteed)
        if part.takes_whole:
            self.seal(room)

    def refill(self, room: Room, held: Iterable[Occupied]) -> None:
        """Make `held` the exact contents of `room`."""
        room.empty()
        for part, host, guaranteed in held:
            self._occupy(room, part, host, guaranteed=guaranteed)
        room.shelf.settle(room)

    def charge(self, charge: Charge, *, sign: int = 1) -> None:
        """Count `charge` against the tiers (`sign=-1`: give it back)."""
        for tier, amounts in zip(self.tier_free, charge):
            for resource, units in amounts.items():
                tier[resource] -= sign * units

    def charge_more(self, charge: list[Amounts], tier: int, units: Amounts) -> None:
        """Count `units` against one tier, and add them to `charge`."""
        free = self.tier_free[tier]
        for resource, number in units.items():
            free[resource] -= number
        charge[tier] = charge[tier] + units

    def nothing(self) -> list[Amounts]:
        """Return a charge of nothing, to add to."""
        return [NOTHING] * self.tier_count

    # Closing for one gang

    def close(
        self,
        parts: Sequence[Part],
        places: Sequence[Placement],
        charge: Charge,
        before: Hold | None = None,
    ) -> Hold:
        """
        Close `places` to all gangs: what is free now, and what becomes free of them.

        `charge` is what they cost beyond the charges of the gangs that will end for them. Amounts
        that were to become free in the hold `before` still are, though others have been opened.
        """
        hold = Hold(before)
        for part, placement in zip(parts, places):
            for host in (host for replica in placement for host in replica.hosts):
                room = self.by_name.get(host.machine)
                if room is None or room in hold.wholes:
                    continue
                hold.rooms.add(room)
                self.note(room)
                if part.takes_whole:
                    self._close_all(hold, room)
                else:
                    self._close_some(hold, room, part, host)
                room.shelf.settle(room)
        hold.charge = charge
        self.charge(charge)
        return hold

    def _close_all(self, hold: Hold, room: Room) -> None:
        hold.wholes.add(room)
        room.closed += 1
        for resource, units in room.full.items():
            if resource in COUNTED:
                self._close_count(hold, room, resource, units)
            else:
                self._close_mask(hold, room, resource, room.in_order(resource))

    def _close_some(self, hold: Hold, room: Room, part: Part, host: HostPlace) -> None:
        for resource, indices in host.devices.items():
            self._close_mask(hold, room, resource, mask_of(indices))
        for resource, units in part.counts:
            self._close_count(hold, room, resource, units)
        if part.asks_nothing:
            hold.best_effort.append(room)
            room.best_effort += 1

    def _close_mask(self, hold: Hold, room: Room, resource: str, mask: int) -> None:
        free = room.masks.get(resource, 0) & mask
        later = mask & ~free & ~room.spoken.get(resource, 0)
        if free:
            room.masks[resource] &= ~free
        if later:
            room.spoken[resource] = room.spoken.get(resource, 0) | later
        hold.masks.append((room, resource, mask, free, later))

    def _close_count(self, hold: Hold, room: Room, resource: str, units: int) -> None:
        due = hold.due(room, resource, units)
        free = max(0, min(units - due, room.counts.get(resource, 0)))
        if free:
            room.counts[resource] -= free
        if units > free:
            room.owed[resource] = room.owed.get(resource, 0) + units - free
        hold.counts.append((room, resource, free, units - free))

    def lift(self, hold: Hold) -> None:
        """Open what `hold` closed."""
        self.charge(hold.charge, sign=-1)
        for room in hold.rooms:
            self.note(room)
        for room in hold.wholes:
            room.closed -= 1
        for room in hold.best_effort:
            room.best_effort -= 1
        for room, resource, _, free, later in hold.masks:
            if free:
                room.masks[resource] |= free
            if later:
                _lower(room.spoken, resource, room.spoken.get(resource, 0) & ~later)
        for room, resource, free, later in hold.counts:
            if free:
                room.counts[resource] += free
            if later:
                _lower(room.owed, resource, room.owed.get(resource, 0) - later)
        for room in hold.rooms:
            room.shelf.settle(room)

    def is_free(self, parts: Sequence[Part], places: Sequence[Placement], charge: Charge) -> bool:
        """Whether exactly `places` could be taken now."""
        for free, amounts in zip(self.tier_free, charge):
            if any(units > free[resource] for resource, units in amounts.items()):
                return False
        with self.trial():
            return all(
                self._take_exactly(part, replica)
                for part, placement in zip(parts, places)
                for replica in placement
            )

    def _take_exactly(self, part: Part, replica: ReplicaPlace) -> bool:
        for host in replica.hosts:
            room = self.by_name.get(host.machine)
            if room is None or not room.opened or room.sealed:
                return False
            if part.takes_whole and not (room.is_vacant and room.is_whole):
                return False
            for resource, indices in host.devices.items():
                mask = mask_of(indices)
                if room.masks.get(resource, 0) & mask != mask:
                    return False
            if any(room.counts.get(t, 0) < units for t, units in part.counts_of_host):
                return False
            if part.asks_nothing and (room.closed or room.best_effort >= MOST_BEST_EFFORT):
                return False
        self.occupy(part, replica, guaranteed=True)
        return True


def _lower(amounts: dict[str, int], resource: str, left: int) -> None:
    if left > 0:
        amounts[resource] = left
    else:
        amounts.pop(resource, None)
