"""`best-fit`: the fullest machine that holds all replicas, else the emptiest, for few machines."""

from __future__ import annotations

from bastion.scheduler.placement.candidates import EQUALS, View
from bastion.scheduler.placement.room import Room


def best_fit(view: View, want: int) -> tuple[Room, int] | None:
    """Return the fullest machine that holds `want` replicas, else the one that holds most."""
    return _holding_all(view, want) or _holding_most(view)


def _holding_all(view: View, want: int) -> tuple[Room, int] | None:
    """Among equally full machines, prefer one without jobs of the other class."""
    first: Room | None = None
    level, seen = -1, 0
    for free, room in view.fullest(want):
        if first is not None and (free != level or seen >= EQUALS):
            break
        if room.slots(view.part) < want:
            continue
        if not view.has_strangers(room):
            return room, want
        if first is None:
            first, level = room, free
        seen += 1
    return None if first is None else (first, want)


def _holding_most(view: View) -> tuple[Room, int] | None:
    best: Room | None = None
    most = 0
    units = view.part.leading[1]
    for free, room in view.emptiest():
        if units and free // units <= most:
            break
        slots = room.slots(view.part)
        if slots > most:
            best, most = room, slots
    return None if best is None else (best, most)
