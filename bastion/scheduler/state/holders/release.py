"""
`Release`: what would be free if an admitted gang were gone; can be undone and repeated.

Part of a trial on the cycle's capacity. What is promised to a gang does not become free.
"""

from __future__ import annotations

from bastion.scheduler.placement.capacity import Capacity
from bastion.scheduler.placement.device_mask import mask_of
from bastion.scheduler.placement.room import Room
from bastion.scheduler.queue.shape import COUNTED, Part
from bastion.scheduler.state.holders.running import Running


class Release:
    """
    `running` removed from `capacity`, until this is withdrawn or the trial is undone.

    If it `is_far`, its rooms do not matter: only its part of the tiers' totals is freed.
    """

    def __init__(self, capacity: Capacity, running: Running, *, is_far: bool = False) -> None:
        self.capacity = capacity
        self.running = running
        self.rooms: list[Room] = []
        self._masks: list[tuple[Room, str, int]] = []
        self._counts: list[tuple[Room, str, int, int]] = []
        self._seals: list[Room] = []
        self._replicas: list[tuple[Room, Part]] = []
        """What it has on each of them."""
        for part, place in () if is_far else running.places:
            for host in place.hosts:
                room = capacity.by_name.get(host.machine)
                if room is None or not room.opened:
                    continue
                self._replicas.append((room, part))
                if room not in self.rooms:
                    self.rooms.append(room)
                if part.takes_whole:
                    self._note_whole(room)
                else:
                    for resource, indices in host.devices.items():
                        self._note_mask(room, resource, mask_of(indices))
                    for resource, units in part.counts_of_host:
                        self._note_count(room, resource, units)
        self.repeat()

    def _note_mask(self, room: Room, resource: str, mask: int) -> None:
        freed = room.freed(resource, mask)
        if freed:
            self._masks.append((room, resource, freed))

    def _note_count(self, room: Room, resource: str, units: int) -> None:
        owed = sum(paid for r, t, _, paid in self._counts if r is room and t == resource)
        paid = min(units, max(0, room.owed.get(resource, 0) - owed))
        self._counts.append((room, resource, units - paid, paid))

    def _note_whole(self, room: Room) -> None:
        if room in self._seals:
            return
        self._seals.append(room)
        for resource, units in room.full.items():
            if resource in COUNTED:
                self._note_count(room, resource, units)
            else:
                self._note_mask(room, resource, room.devices[resource])

    @property
    def pays(self) -> bool:
        """Whether some of it was owed: with this put back, the next to leave would pay it."""
        return any(paid for *_, paid in self._counts)

    def repeat(self) -> None:
        """Remove it."""
        self.capacity.charge(self.running.left, sign=-1)
        self._move(sign=1)

    def withdraw(self) -> None:
        """Put it back."""
        self.capacity.charge(self.running.left)
        self._move(sign=-1)

    def _move(self, *, sign: int) -> None:
        for room in self.rooms:
            self.capacity.note(room)
        for room, resource, mask in self._masks:
            held = room.masks.get(resource, 0)
            room.masks[resource] = held | mask if sign > 0 else held & ~mask
        for room, resource, units, paid in self._counts:
            room.counts[resource] = room.counts.get(resource, 0) + sign * units
            room.owed[resource] = room.owed.get(resource, 0) - sign * paid
            if not room.owed[resource]:
                del room.owed[resource]
        for room in self._seals:
            room.sealed = sign < 0
        for room, part in self._replicas:
            room.count(part, -sign, guaranteed=not self.running.is_borrowed)
        for room in self.rooms:
            room.shelf.settle(room)
