"""
Upper bound: what could be free at most, with all gone that a gang could ever have stopped.

Most searches for victims fail, and nearly all of these fail here, in a few operations per shape:
too few machines have enough devices, because what stays is spread over them.

This module must not know which possible victims are legal.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator

from bastion.scheduler.placement.capacity import Capacity
from bastion.scheduler.placement.room import Room
from bastion.scheduler.placement.scope import Scope
from bastion.scheduler.queue.shape import Part, Shape
from bastion.scheduler.state.decisions import Victims
from bastion.scheduler.state.memory.occupancy import Occupancy

MACHINES_SEEN_A_STEP = 32
"""Machines examined in the time of one step; a question takes as long as one of them."""


class UpperBound:
    """The bound of one cycle, with borrowers and victims gone; it may `spend` steps of search."""

    def __init__(
        self,
        capacity: Capacity,
        occupancy: Occupancy,
        victims: Victims,
        spend: Callable[[int], None],
    ) -> None:
        self._capacity, self._occupancy, self._victims = capacity, occupancy, victims
        self._spend, self._looked_at = spend, 0
        self._free: dict[tuple[Scope, str], tuple[Counter[int], Iterator[int]]] = {}
        """(scope, type) -> devices that may be free on a machine -> how many; of possible ones."""
        self._seen = 0
        """How many changes of the victims are known."""
        self._holds = True
        """Whether only borrowers are victims."""

    def may_fit(self, shape: Shape) -> bool:
        """Whether `shape` might fit with all borrowers gone, including those that start now."""
        self._look()
        changed, running = self._victims.changed, self._occupancy.running
        self._holds = self._holds and all(running[n].is_borrowed for n in changed[self._seen :])
        self._seen = len(changed)
        return not self._holds or all(map(self._may_hold, shape.parts))

    def _may_hold(self, part: Part) -> bool:
        if not part.is_plain:
            return True
        scope, (resource, units) = self._capacity.scope_of(part), part.leading
        if scope.is_narrow or any(shelf.left for tier in scope.singles for shelf in tier):
            return True  # searching a few machines is as fast; or more may be created
        if (scope, resource) not in self._free:
            rooms = (room for room in (*scope.all(),) if room.shelf.hosts == 1)
            self._free[scope, resource] = Counter(), (self._on(room, resource) for room in rooms)
        seen, rest = self._free[scope, resource]
        slots = sum(many * (free // units) for free, many in seen.items())
        while slots < part.replicas and (free := next(rest, None)) is not None:
            seen[free] += 1
            slots += free // units
        return slots >= part.replicas

    def _look(self) -> None:
        """Count one more examination."""
        self._looked_at += 1
        if self._looked_at % MACHINES_SEEN_A_STEP == 0:
            self._spend(1)

    def _on(self, room: Room, resource: str) -> int:
        """Return how many devices may be free on `room` at most."""
        self._look()
        kept, name = 0, room.name
        for running in self._occupancy.on.get(name, ()):
            if not (running.is_borrowed or running.is_leaving):
                wanted = running.footprint
                kept |= -1 if name in wanted.whole else wanted.masks[name].get(resource, 0)
        return (room.in_order(resource) & ~kept).bit_count()
