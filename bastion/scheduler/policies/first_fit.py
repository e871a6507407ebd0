"""`first-fit`: the first machine by name that holds a replica; easy to predict by hand."""

from __future__ import annotations

from bastion.scheduler.placement.candidates import View
from bastion.scheduler.placement.room import Room


def first_fit(view: View, want: int) -> tuple[Room, int] | None:
    """Return the first machine by name with room, filled up to `want`."""
    for room in view.in_order():
        slots = room.slots(view.part)
        if slots:
            return room, min(slots, want)
    return None
