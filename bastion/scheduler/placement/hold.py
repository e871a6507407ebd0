"""
`Hold`: what is closed for one gang on machines, and what that costs.

This module must not know for how long.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from bastion.job import Placement
from bastion.scheduler.placement.room import Room
from quota.amounts import Amounts

Charge = tuple[Amounts, ...]
"""The charge of a placement, tier by tier, of the types under quota."""


def machines_of(placements: Iterable[Placement]) -> Iterator[str]:
    """Return the machine of every replica, and of every host of its slice."""
    return (host.machine for each in placements for place in each for host in place.hosts)


class Hold:
    """Devices closed for one gang, lifted as one; `before` is its hold before it was lent."""

    def __init__(self, before: Hold | None = None) -> None:
        self._due: dict[tuple[int, str], int] = {}
        for room, resource, _, later in before.counts if before else ():
            if later:
                key = room.ordinal, resource
                self._due[key] = self._due.get(key, 0) + later
        self.charge: Charge = ()
        self.masks: list[tuple[Room, str, int, int, int]] = []
        """(room, type, devices wanted, those of them that were free, those that others hold)"""
        self.counts: list[tuple[Room, str, int, int]] = []
        """(room, type, amount that was free, amount that others hold)"""
        self.best_effort: list[Room] = []
        self.wholes: set[Room] = set()
        self.rooms: set[Room] = set()
        """Where any of this is."""

    def due(self, room: Room, resource: str, units: int) -> int:
        """Return how much of `units` others still held before it was lent; once per amount."""
        key = room.ordinal, resource
        due = min(units, self._due.get(key, 0))
        if due:
            self._due[key] -= due
        return due

    @property
    def keeps_any(self) -> bool:
        """Whether anything that it closes is free; otherwise others still hold all of it."""
        return bool(
            any(self.charge)
            or self.best_effort
            or self.wholes
            or any(free for *_, free, _ in self.masks)
            or any(free for *_, free, _ in self.counts)
        )
