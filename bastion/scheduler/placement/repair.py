"""
Machines that are out of use, treated as if they were in order.

Part of a trial on the cycle's capacity, like `Release`: the trial undoes what is placed there.

This module must not know why a machine is out of use.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from bastion.scheduler.placement.capacity import Capacity, Occupied
from bastion.scheduler.placement.device_mask import mask_of
from bastion.scheduler.placement.room import Room


@contextmanager
def repaired(capacity: Capacity, rooms: Iterable[tuple[Room, list[Occupied]]]) -> Iterator[None]:
    """Put `rooms`, with what is held there, into use with all devices until this ends."""
    found = list(rooms)
    was = [(room, room.opened, room.bad) for room, _ in found]
    for room, held in found:
        capacity.note(room)
        room.shelf.forget_order()
        if room.opened:
            _mend(room, held)
        else:
            room.opened, room.bad = True, {}
            capacity.refill(room, held)
    try:
        yield
    finally:
        for room, opened, bad in was:
            room.opened, room.bad = opened, bad
            room.shelf.forget_order()


def _mend(room: Room, held: Iterable[Occupied]) -> None:
    """Make broken devices that nothing holds free."""
    taken: dict[str, int] = {}
    for _, host, _ in held:
        for resource, indices in host.devices.items():
            taken[resource] = taken.get(resource, 0) | mask_of(indices)
    for resource, mask in room.bad.items():
        room.masks[resource] = room.masks.get(resource, 0) | (mask & ~taken.get(resource, 0))
    room.bad = {}
