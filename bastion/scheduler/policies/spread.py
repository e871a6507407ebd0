"""`spread`: replica by replica on the emptiest machine, so that one lost machine hurts least."""

from __future__ import annotations

from bastion.scheduler.placement.candidates import View
from bastion.scheduler.placement.room import Room


def spread(view: View, want: int) -> tuple[Room, int] | None:
    """Return the emptiest machine that holds one replica; called once per replica."""
    del want
    for _, room in view.emptiest():
        if room.slots(view.part):
            return room, 1
    return None
