"""
What a placement policy sees: the machines of one tier that a part may use, by fullness.

This module must not know the gang, its project, or what a machine costs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from heapq import merge
from typing import NamedTuple

from bastion.scheduler.placement.capacity import Capacity
from bastion.scheduler.placement.room import Room, Shelf
from bastion.scheduler.placement.scope import Scope
from bastion.scheduler.queue.shape import Part
from bastion.value import value

EQUALS = 32
"""Equally full machines compared for better neighbours; more cost time for little gain."""


class View(NamedTuple):
    """Machines for replicas of `part`, all of one tier."""

    capacity: Capacity
    shelves: Sequence[Shelf]
    scope: Scope
    part: Part
    guaranteed: bool

    def fullest(self, count: int) -> Iterator[tuple[int, Room]]:
        """Yield (free, room) of rooms that may hold `count` replicas, the fullest first."""
        resource, units = self.part.leading
        found = [self.scope.ascending(shelf, resource, units * count) for shelf in self.shelves]
        for free, ordinal in found[0] if len(found) == 1 else merge(*found):
            yield free, self.capacity.rooms[ordinal]

    def emptiest(self) -> Iterator[tuple[int, Room]]:
        """Yield (free, room) of all rooms, the emptiest first, ties by name."""
        resource = self.part.leading[0]
        found = [self.scope.descending(shelf, resource) for shelf in self.shelves]
        pairs = found[0] if len(found) == 1 else merge(*found, key=lambda pair: (-pair[0], pair[1]))
        for free, ordinal in pairs:
            yield free, self.capacity.rooms[ordinal]

    def in_order(self) -> Iterator[Room]:
        """Yield existing rooms, by name."""
        for shelf in self.shelves:
            yield from self.scope.on(shelf)

    def has_strangers(self, room: Room) -> bool:
        """Whether jobs of the other class are there: reclaiming would then break up a machine."""
        return bool(room.borrowed if self.guaranteed else room.guaranteed)


Choose = Callable[[View, int], tuple[Room, int] | None]
"""Returns the machine for the next replicas, at most that many, and how many; None: a new one."""


@value
class PlacementPolicy:
    """Which machines are best."""

    choose: Choose
    together: bool = False
    """Whether a gang must lie in one pool."""
