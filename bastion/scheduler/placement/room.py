"""
Rooms and shelves: what is free on one machine, and the machines of one pool in that order.

They are the working copies of a cycle: it changes them while it decides, and the next cycle
restores them first. Devices are bits of a mask per type, because a device is taken, promised or
given back by index.

Only `Capacity` changes a room. A device promised to a gang is never among the free ones. While
another gang still holds it, it is `spoken` for, and does not become free when that gang ends.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterable, Iterator, Mapping
from operator import attrgetter

from bastion.machine import Machine, MachinePhase, Pool
from bastion.scheduler.placement.device_mask import mask_of
from bastion.scheduler.queue.shape import BEST_EFFORT, COUNTED, MOST_BEST_EFFORT, Part
from bastion.scheduler.reasons.reason import ProviderStockout
from bastion.spec.where import Where
from quota.amounts import NOTHING, Amounts

RoomState = tuple[
    dict[str, int], dict[str, int], dict[str, int], dict[str, int], int, int, bool, int, int
]

_ordinal = attrgetter("ordinal")


class Room:
    """What is free on one machine."""

    def __init__(self, machine: Machine, shelf: Shelf, ordinal: int, *, opened: bool) -> None:
        self.name = machine.name
        self.machine = machine
        self.shelf = shelf
        self.ordinal = ordinal
        self.opened = opened
        """Whether anything new may be placed here."""
        self.full = machine.resources or (shelf.pool.resources if shelf.pool else NOTHING)
        self.devices = {t: (1 << n) - 1 for t, n in self.full.items() if t not in COUNTED}
        """All that it has, by type."""
        bad = machine.bad_devices.items()
        self.bad = {t: mask_of(indices) & self.devices.get(t, 0) for t, indices in bad}
        """Devices that it has, and that are broken."""
        self.noted_in = 0
        """The last trial that recorded its state before a change."""
        self.keys: dict[str, int] = {}
        """What the shelf's indices say is free."""
        self.empty()

    def empty(self) -> None:
        """Reset to an empty room."""
        devices, items = (self.devices, self.full.items()) if self.opened else ({}, ())
        self.masks = {t: every & ~self.bad.get(t, 0) for t, every in devices.items()}
        self.counts = {t: n for t, n in items if t in COUNTED}
        self.spoken: dict[str, int] = {}
        """Devices promised to a gang, and held by another."""
        self.owed: dict[str, int] = {}
        """Counted amounts promised to a gang, and held by another."""
        self.closed = 0
        """For how many gangs all of it is closed, even to replicas that ask for nothing."""
        self.best_effort = 0
        """Replicas that ask for nothing, including those that were promised this machine."""
        self.sealed = False
        """Whether one gang has all of it."""
        self.guaranteed = 0
        self.borrowed = 0
        """Replicas that ask for something, by class."""

    def count(self, part: Part, replicas: int, *, guaranteed: bool) -> None:
        """Count so many more replicas of `part` here (negative: fewer)."""
        if part.asks_nothing:
            self.best_effort += replicas
        elif guaranteed:
            self.guaranteed += replicas
        else:
            self.borrowed += replicas

    @property
    def occupants(self) -> int:
        """Return how many replicas are here that ask for something, on part of the machine."""
        return self.guaranteed + self.borrowed

    def free(self, resource: str) -> int:
        """Return units of `resource` that are free and open."""
        if resource in COUNTED:
            return max(0, self.counts.get(resource, 0))  # a machine may report less than before
        if resource == BEST_EFFORT:
            is_open = self.opened and not (self.closed or self.sealed)
            return max(0, MOST_BEST_EFFORT - self.best_effort) if is_open else 0
        return self.masks.get(resource, 0).bit_count()

    def in_order(self, resource: str) -> int:
        """Return all devices of `resource` except broken ones."""
        return self.devices.get(resource, 0) & ~self.bad.get(resource, 0)

    def freed(self, resource: str, taken: int) -> int:
        """Return those of the devices `taken` that become free and open without their holder."""
        kept = self.spoken.get(resource, 0) | self.bad.get(resource, 0)
        return taken & self.devices.get(resource, 0) & ~kept

    def slots(self, part: Part) -> int:
        """Return how many replicas of `part` fit now, side by side."""
        if self.sealed or not self.opened:
            return 0
        if part.asks_nothing:
            return self.free(BEST_EFFORT)
        if part.exclusive and not self.is_vacant:
            return 0
        most = part.replicas
        for resource, units in part.devices:
            most = min(most, self.masks.get(resource, 0).bit_count() // units)
        for resource, units in part.counts:
            most = min(most, self.free(resource) // units)
        return most

    @property
    def is_vacant(self) -> bool:
        """Whether nothing is here and nothing is promised here."""
        if self.occupants or self.best_effort or self.sealed or self.spoken or self.owed:
            return False
        for resource, units in self.full.items():
            if resource in COUNTED:
                if self.counts.get(resource, 0) != units:
                    return False
            elif self.masks.get(resource, 0).bit_count() != units - self.lost(resource):
                return False
        return True

    @property
    def is_idle(self) -> bool:
        """Whether all of it can be had now."""
        return self.opened and self.is_vacant and self.is_whole

    @property
    def is_leaving(self) -> bool:
        """Whether its machine is being deleted, and never returns."""
        return self.machine.phase is MachinePhase.DELETING

    @property
    def is_being_made(self) -> bool:
        """Whether its machine does not run yet."""
        return self.machine.phase is MachinePhase.CREATING

    @property
    def is_whole(self) -> bool:
        """Whether no device is broken."""
        return not any(self.bad.values())

    @property
    def sound(self) -> Amounts:
        """Return all that it has except what is broken."""
        return self.full - Amounts({t: mask.bit_count() for t, mask in self.bad.items()})

    def lost(self, resource: str) -> int:
        """Return devices of `resource` that are broken."""
        return self.bad.get(resource, 0).bit_count()

    def keep(self) -> RoomState:
        """Return its state, to restore later."""
        return (
            self.masks.copy(),
            self.counts.copy(),
            self.spoken.copy(),
            self.owed.copy(),
            self.closed,
            self.best_effort,
            self.sealed,
            self.guaranteed,
            self.borrowed,
        )

    def go_back(self, kept: RoomState) -> None:
        """Restore a state that `keep` returned."""
        self.masks, self.counts, self.spoken, self.owed = kept[:4]
        self.closed, self.best_effort, self.sealed, self.guaranteed, self.borrowed = kept[4:]


class Shelf:
    """The rooms of one pool, sorted by what is free, for every type that was asked for."""

    def __init__(self, name: str, pool: Pool | None, tier: int, *, hosts: int) -> None:
        self.name = name
        self.pool = pool
        self.tier = tier
        self.hosts = hosts
        self.rooms: list[Room] = []
        self.slices: dict[str, list[Room]] = {}
        self.could_make = 0
        """Machines that the pool may have beside the existing ones."""
        self.left = 0
        """How many of these could be created now."""
        self.leaving = 0
        """Existing machines that are being deleted, and never return."""
        self.made = 0
        self.stockout: ProviderStockout | None = None
        """Why none of them could be created now, or none in some zones, if the provider says so."""
        self.sizes: dict[tuple[Where, int], list[tuple[Amounts, int]]] = {}
        """(filter, hosts of a replica) -> the size of its machines, while it has the same."""
        self._indices: dict[str, list[tuple[int, int]]] = {}
        self._empty: dict[object, list[Room]] | None = None
        """The empty rooms, by `kind_of`, each in order; kept once it is requested."""

    def add(self, room: Room) -> None:
        """Put `room` on the shelf."""
        self.sizes.clear()
        self.rooms.append(room)
        if self._empty is not None:
            self._sort_out(self._empty, room)
        self.leaving += room.is_leaving
        if room.machine.slice:
            self.slices.setdefault(room.machine.slice, []).append(room)
        if room.opened:
            for resource, index in self._indices.items():
                room.keys[resource] = room.free(resource)
                insort(index, (room.keys[resource], room.ordinal))

    def remove(self, room: Room) -> None:
        """Remove the room that was added last."""
        self.sizes.clear()
        self.rooms.remove(room)
        alike = self._empty.get(kind_of(room)) if self._empty is not None else None
        if alike and alike[-1] is room:
            alike.pop()
        if room.machine.slice:
            self.slices[room.machine.slice].remove(room)
            if not self.slices[room.machine.slice]:
                del self.slices[room.machine.slice]
        for resource, index in self._indices.items():
            del index[bisect_left(index, (room.keys[resource], room.ordinal))]

    def count_what_it_could_make(self) -> None:
        """Set how many machines the pool may have beside existing ones, and may have now."""
        if self.pool is None:
            return
        self.could_make = max(0, self.pool.max_machines - len(self.rooms))
        in_stock = self.could_make
        if self.pool.machines_per_zone:
            free = self.pool.free_zones(room.machine.zone for room in self.rooms)
            self.could_make = min(self.could_make, len(free))
            in_stock = len(self.zones_in_stock())
        is_dry = self.stockout is not None and not self.stockout.zones
        self.left = 0 if is_dry else min(self.could_make, in_stock)

    def zones_in_stock(self) -> tuple[str, ...]:
        """Return the zones of a pool of hosts in which a machine could be created now."""
        if self.pool is None:
            return ()
        dry = self.stockout.zones if self.stockout is not None else ()
        free = self.pool.free_zones(room.machine.zone for room in self.rooms)
        return tuple(zone for zone in free if zone not in dry)

    @property
    def ever(self) -> int:
        """Return the machines that the pool may have one day, beside those that stay."""
        if self.pool is None:
            return 0
        return max(0, self.pool.max_machines - len(self.rooms) + self.leaving)

    def empty(self) -> Iterable[list[Room]]:
        """Return the empty rooms, grouped by equal contents; each group in order."""
        if self._empty is None:
            self._empty = together(room for room in self.rooms if room.is_vacant)
        return self._empty.values()

    def _sort_out(self, empty: dict[object, list[Room]], room: Room) -> None:
        """Update whether `room` is empty."""
        alike = empty.setdefault(kind_of(room), [])
        at = bisect_left(alike, room.ordinal, key=_ordinal)
        is_known = at < len(alike) and alike[at] is room
        if is_known is room.is_vacant:
            return
        if is_known:
            del alike[at]
        else:
            alike.insert(at, room)

    def forget_order(self) -> None:
        """Sort the rooms again when that is next requested: another set of them is open."""
        self._indices.clear()
        self._empty = None

    def settle(self, room: Room) -> None:
        """Update the indices after `room` changed."""
        if self._empty is not None:
            self._sort_out(self._empty, room)
        if not room.opened:
            return
        for resource, index in self._indices.items():
            free, known = room.free(resource), room.keys[resource]
            if free != known:
                del index[bisect_left(index, (known, room.ordinal))]
                insort(index, (free, room.ordinal))
                room.keys[resource] = free

    def ascending(self, resource: str, least: int) -> Iterator[tuple[int, int]]:
        """Yield (free, ordinal) of rooms with at least that much free, the fullest first."""
        index = self._index(resource)
        for position in range(bisect_left(index, (least, -1)), len(index)):
            yield index[position]

    def descending(self, resource: str) -> Iterator[tuple[int, int]]:
        """Yield (free, ordinal) of all rooms, the emptiest first, ties by ordinal."""
        index = self._index(resource)
        end = len(index)
        while end:
            free = index[end - 1][0]
            start = bisect_left(index, (free, -1))
            yield from index[start:end]
            end = start

    def _index(self, resource: str) -> list[tuple[int, int]]:
        index = self._indices.get(resource)
        if index is None:
            for room in self.rooms:
                room.keys[resource] = room.free(resource)
            index = sorted((r.keys[resource], r.ordinal) for r in self.rooms if r.opened)
            self._indices[resource] = index
        return index


def together(rooms: Iterable[Room]) -> dict[object, list[Room]]:
    """Return `rooms`, grouped by equal contents when empty."""
    found: dict[object, list[Room]] = {}
    for room in rooms:
        found.setdefault(kind_of(room), []).append(room)
    return found


def kind_of(room: Room) -> object:
    """Return its contents; a room with broken devices is alone, as a trial may repair them."""
    return room.ordinal if room.machine.bad_devices else room.full


def labels_of(machine: Machine | None, pool: Pool | None) -> Mapping[str, str]:
    """Return the pool's labels, overridden by those of the machine."""
    return {**(pool.labels if pool else {}), **(machine.labels if machine else {})}
