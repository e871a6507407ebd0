"""
`Lack`: a lower bound on how many replicas of one part have no machine.

The bound takes a few integer operations: it ignores amounts without devices and the tiers' totals,
and changes nothing. Most searches end here, before any gang is removed on trial.

This module must not know what is removed, nor why.
"""

from __future__ import annotations

from bastion.scheduler.placement.capacity import Capacity
from bastion.scheduler.queue.shape import Part
from bastion.scheduler.state.holders.footprint import Footprint


class Lack:
    """
    The lack of a `part` that `is_plain`.

    Args:
        capacity: Its state up to the last `let_go`.
        part: What is asked for.
    """

    def __init__(self, capacity: Capacity, part: Part) -> None:
        self._rooms, self._scope = capacity.by_name, capacity.scope_of(part)
        self._resource, self._units = part.leading
        self._free: dict[str, int] = {}
        """Machine -> mask of the free devices, where any were freed."""
        slots = 0
        for shelf in (shelf for tier in self._scope.singles for shelf in tier):
            if shelf.left and shelf.pool is not None:
                slots += shelf.left * part.most_on(shelf.pool.resources)
            for free, _ in self._scope.ascending(shelf, self._resource, self._units):
                slots += free // self._units
        self.replicas = part.replicas - slots
        """The number that find no devices; none if it is not above zero."""

    def let_go(self, footprint: Footprint) -> None:
        """Count without what lies there."""
        resource, units = self._resource, self._units
        for machine, masks in footprint.masks.items():
            taken = -1 if machine in footprint.whole else masks.get(resource, 0)
            room = self._rooms.get(machine) if taken else None
            if room is None or not room.opened or not self._scope.has(room):
                continue
            had = self._free.get(machine)
            if had is None:
                had = room.masks.get(resource, 0)
            has = had | room.freed(resource, taken)
            self._free[machine] = has
            self.replicas -= has.bit_count() // units - had.bit_count() // units

    def put_back(self, footprint: Footprint) -> None:
        """Count what lies there again; no other removed gang has any of its devices."""
        resource, units = self._resource, self._units
        for machine, masks in footprint.masks.items():
            had = self._free.get(machine)
            if had is None:
                continue
            has = 0 if machine in footprint.whole else had & ~masks.get(resource, 0)
            self._free[machine] = has
            self.replicas -= has.bit_count() // units - had.bit_count() // units

    def may_hold(self, machine: str) -> bool:
        """Whether a replica could lie there, if there are enough devices of all kinds."""
        free, room = self._free.get(machine), self._rooms.get(machine)
        if free is None:
            free = room.masks.get(self._resource, 0) if room is not None else 0
        return free.bit_count() >= self._units
