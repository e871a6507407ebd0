"""
Rooms and shelves: what is free on one machine, and the machines of one pool in order of it.

The working copies of a cycle: they change while it decides, and what it changed is put right at the
start of the next. Devices are bits of a mask per type, because a device is taken, promised or given
back by index.

Rules: only `Capacity` changes a room. A device promised to a gang is never among the free ones;
while another gang still holds it, it is `spoken` for, and is not free when that gang ends.
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
    dict[str, int], dict[str, int], dict[str, int], dict[str, int], int, int, int, bool, int, int
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
        """Whether anything new may come here."""
        self.full = machine.resources or (shelf.pool.resources if shelf.pool else NOTHING)
        self.devices = {t: (1 << n) - 1 for t, n in self.full.items() if t not in COUNTED}
        """All that it has, by type."""
        bad = machine.bad_devices.items()
        self.bad = {t: mask_of(indices) & self.devices.get(t, 0) for t, indices in bad}
        """Devices that it has, and that are out of order."""
        self.noted_in = 0
        """The last trial in which its state was noted, before anything changed there."""
        self.keys: dict[str, int] = {}
        """What the shelf's indices say is free."""
        self.empty()

    def empty(self) -> None:
        """Be as if nothing were here."""
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
        """Replicas that ask for nothing, those that are promised this machine among them."""
        self.occupants = 0
        """Replicas that ask for something."""
        self.sealed = False
        """Whether one gang has all of it."""
        self.guaranteed = 0
        self.borrowed = 0

    def free(self, resource: str) -> int:
        """Units of `resource` that are free and open."""
        if resource in COUNTED:
            return max(0, self.counts.get(resource, 0))  # a machine may say that it has less now
        if resource == BEST_EFFORT:
            is_open = self.opened and not (self.closed or self.sealed)
            return max(0, MOST_BEST_EFFORT - self.best_effort) if is_open else 0
        return self.masks.get(resource, 0).bit_count()

    def in_order(self, resource: str) -> int:
        """All devices of `resource` but those that are out of order."""
        return self.devices.get(resource, 0) & ~self.bad.get(resource, 0)

    def freed(self, resource: str, taken: int) -> int:
        """Those of the devices `taken` that are free and open once what has them is gone."""
        kept = self.spoken.get(resource, 0) | self.bad.get(resource, 0)
        return taken & self.devices.get(resource, 0) & ~kept

    def slots(self, part: Part) -> int:
        """How many replicas of `part`, one beside the other, fit now."""
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
        """Whether its machine is being deleted, and never comes back."""
        return self.machine.phase is MachinePhase.DELETING

    @property
    def is_being_made(self) -> bool:
        """Whether its machine does not run yet."""
        return self.machine.phase is MachinePhase.CREATING

    @property
    def is_whole(self) -> bool:
        """Whether no device is out of order."""
        return not any(self.bad.values())

    @property
    def sound(self) -> Amounts:
        """All of it but what is out of order."""
        return self.full - Amounts({t: mask.bit_count() for t, mask in self.bad.items()})

    def lost(self, resource: str) -> int:
        """Devices of `resource` that are out of order."""
        return self.bad.get(resource, 0).bit_count()

    def keep(self) -> RoomState:
        """Its state, to go back to."""
        return (
            self.masks.copy(),
            self.counts.copy(),
            self.spoken.copy(),
            self.owed.copy(),
            self.closed,
            self.best_effort,
            self.occupants,
            self.sealed,
            self.guaranteed,
            self.borrowed,
        )

    def go_back(self, kept: RoomState) -> None:
        """Restore what `keep` gave."""
        self.masks, self.counts, self.spoken, self.owed = kept[:4]
        self.closed, self.best_effort, self.occupants, self.sealed = kept[4:8]
        self.guaranteed, self.borrowed = kept[8:]


class Shelf:
    """The rooms of one pool, and for every type that was asked for, in order of what is free."""

    def __init__(self, name: str, pool: Pool | None, tier: int, *, hosts: int) -> None:
        self.name = name
        self.pool = pool
        self.tier = tier
        self.hosts = hosts
        self.rooms: list[Room] = []
        self.slices: dict[str, list[Room]] = {}
        self.could_make = 0
        """Machines that the pool may have beside those that stand."""
        self.left = 0
        """Of these, how many could be made now."""
        self.leaving = 0
        """Machines of those that stand that are being deleted, and never come back."""
        self.made = 0
        self.stockout: ProviderStockout | None = None
        """Why none of them could be made now, or none in some zones, if the provider says so."""
        self.sizes: dict[tuple[Where, int], list[tuple[Amounts, int]]] = {}
        """(filter, hosts of a replica) -> how large its machines are, while it has the same."""
        self._indices: dict[str, list[tuple[int, int]]] = {}
        self._empty: dict[object, list[Room]] | None = None
        """The rooms where nothing is, by `kind_of`, each in order; kept once it is asked for."""

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
        """Take back the room that was added last."""
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
        """Say how many machines the pool may have beside those that stand, and may have now."""
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
        """Return the zones of a pool of hosts in which a machine could be made now."""
        if self.pool is None:
            return ()
        dry = self.stockout.zones if self.stockout is not None else ()
        free = self.pool.free_zones(room.machine.zone for room in self.rooms)
        return tuple(zone for zone in free if zone not in dry)

    @property
    def ever(self) -> int:
        """Machines that the pool may have one day beside those that stay."""
        if self.pool is None:
            return 0
        return max(0, self.pool.max_machines - len(self.rooms) + self.leaving)

    def empty(self) -> Iterable[list[Room]]:
        """The rooms where nothing is, those together that hold the same; each in order."""
        if self._empty is None:
            self._empty = together(room for room in self.rooms if room.is_vacant)
        return self._empty.values()

    def _sort_out(self, empty: dict[object, list[Room]], room: Room) -> None:
        """Say anew whether nothing is in `room`."""
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
        """Put the rooms in order anew when that is asked for: another set of them is open."""
        self._indices.clear()
        self._empty = None

    def settle(self, room: Room) -> None:
        """Bring the indices up to date after `room` changed."""
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
        """(free, ordinal) of rooms with at least that much free, the fullest first."""
        index = self._index(resource)
        for position in range(bisect_left(index, (least, -1)), len(index)):
            yield index[position]

    def descending(self, resource: str) -> Iterator[tuple[int, int]]:
        """(free, ordinal) of all rooms, the emptiest first; among equals by ordinal."""
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
    """`rooms`, those together that hold the same while nothing is there."""
    found: dict[object, list[Room]] = {}
    for room in rooms:
        found.setdefault(kind_of(room), []).append(room)
    return found


def kind_of(room: Room) -> object:
    """What it holds; one with devices out of order is alone, as they may be in order on trial."""
    return room.ordinal if room.machine.bad_devices else room.full


def has_labels(machine: Machine | None, pool: Pool | None, wanted: Mapping[str, str]) -> bool:
    """Whether all of `wanted` are among the labels of the machine and its pool."""
    have = labels_of(machine, pool)
    return all(have.get(label) == text for label, text in wanted.items())


def labels_of(machine: Machine | None, pool: Pool | None) -> Mapping[str, str]:
    """Those of the pool, and those of the machine before them."""
    return {**(pool.labels if pool else {}), **(machine.labels if machine else {})}
