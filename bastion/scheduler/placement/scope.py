"""
Scope: the machines that pass the filters of a request, existing ones and possible ones.

This module must not know what is free.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from itertools import chain, takewhile

from bastion.machine import Machine, Pool
from bastion.scheduler.placement.room import Room, Shelf, labels_of, together
from bastion.spec.where import POOL, Where

NEW = -1.0
"""`created_at` of a machine that this cycle creates, until the plan sets it."""


NARROW = 8
"""A filter that leaves less than this fraction of all rooms is queried by its own list."""


class Scope:
    """
    The rooms that pass a filter, by tier.

    Args:
        where: The filter.
        tiers: Shelves with existing or possible rooms that pass.
        standing: The existing rooms that pass, in order; None for all of the shelves.
        rooms: Those of all shelves; what a cycle creates is added to them while the scope lasts.
    """

    def __init__(
        self,
        where: Where,
        tiers: list[list[Shelf]],
        standing: list[Room] | None,
        rooms: list[Room],
    ) -> None:
        self.where = where
        self.tiers = tiers
        self.singles = [[shelf for shelf in tier if shelf.hosts == 1] for tier in tiers]
        """Those without slices."""
        self.allowed: frozenset[int] | None = None
        """Ordinals of existing rooms, or None for all of the shelves."""
        if standing is not None:  # without what a trial creates: the scope may outlast it
            self.allowed = frozenset(room.ordinal for room in standing if not _is_new(room))
        self._rooms = rooms
        self._whole = _whole(where, tiers, standing)
        """Shelves of which every room passes."""
        self._few: dict[str, list[Room]] | None = None
        """Shelf -> the existing rooms that pass, for a filter that leaves few."""
        if standing is not None and len(standing) * NARROW < len(rooms):
            self._few = {}
            for room in standing:
                if not _is_new(room):
                    self._few.setdefault(room.shelf.name, []).append(room)

    @property
    def is_narrow(self) -> bool:
        """Whether few of all rooms pass the filter."""
        return self._few is not None

    def has(self, room: Room) -> bool:
        """Whether `room` passes the filter."""
        if self.allowed is None:
            return True
        if _is_new(room):
            is_left = room.shelf in self.tiers[room.shelf.tier]  # maintenance may close the pool
            return is_left and passes(self.where, room.machine, room.shelf.pool)
        return room.ordinal in self.allowed

    def all(self) -> list[Room]:
        """Return the rooms that pass, in order."""
        if self.allowed is None:
            return self._rooms
        made = [room for room in _made(self._rooms) if self.has(room)]
        return [*(self._rooms[n] for n in sorted(self.allowed)), *made]

    def on(self, shelf: Shelf) -> list[Room]:
        """Return the rooms of `shelf` that pass, in order."""
        if shelf.name in self._whole:
            return shelf.rooms
        if self._few is None:
            return [room for room in shelf.rooms if self.has(room)]
        made = (room for room in _made(shelf.rooms) if self.has(room))
        return [*self._few.get(shelf.name, ()), *made]

    def empty(self, shelf: Shelf) -> Iterable[list[Room]]:
        """Return its empty rooms of `shelf`, grouped by equal contents, in order."""
        if shelf.name in self._whole:
            return shelf.empty()
        own = self.on(shelf) if self._few is not None else chain.from_iterable(shelf.empty())
        return together(room for room in own if room.is_vacant and self.has(room)).values()

    def ascending(self, shelf: Shelf, resource: str, least: int) -> Iterable[tuple[int, int]]:
        """Return (free, ordinal) of its rooms of `shelf` with `least` free, the fullest first."""
        if shelf.name in self._whole:
            return shelf.ascending(resource, least)
        if self._few is not None:
            own = ((room.free(resource), room.ordinal) for room in self.on(shelf) if room.opened)
            return sorted(pair for pair in own if pair[0] >= least)
        return self._left_of(shelf.ascending(resource, least))

    def descending(self, shelf: Shelf, resource: str) -> Iterable[tuple[int, int]]:
        """Return (free, ordinal) of its rooms of `shelf`, the emptiest first, ties by ordinal."""
        if shelf.name in self._whole:
            return shelf.descending(resource)
        if self._few is not None:
            own = ((-room.free(resource), room.ordinal) for room in self.on(shelf) if room.opened)
            return [(-less, ordinal) for less, ordinal in sorted(own)]
        return self._left_of(shelf.descending(resource))

    def _left_of(self, pairs: Iterator[tuple[int, int]]) -> Iterator[tuple[int, int]]:
        return (pair for pair in pairs if self.has(self._rooms[pair[1]]))


def _whole(where: Where, tiers: list[list[Shelf]], standing: list[Room] | None) -> frozenset[str]:
    """Return shelves all of whose rooms are `standing`, or pass the filter once created."""
    shelves = chain.from_iterable(tiers)
    if standing is None:
        return frozenset(shelf.name for shelf in shelves)
    left = Counter(room.shelf.name for room in standing if not _is_new(room))
    return frozenset(
        shelf.name
        for shelf in shelves
        if left[shelf.name] == len(shelf.rooms) - len(_made(shelf.rooms))
        and (shelf.pool is None or can_make(where, shelf))
    )


def _is_new(room: Room) -> bool:
    return room.machine.created_at == NEW


def _made(rooms: list[Room]) -> list[Room]:
    """Return those that this cycle creates: the last of `rooms`."""
    return [*takewhile(_is_new, reversed(rooms))][::-1]


class RoomIndex:
    """Rooms by name, host name and label: a filter checks possible matches, not all rooms."""

    def __init__(self, rooms: list[Room]) -> None:
        self._rooms = rooms
        self._index: dict[str | tuple[str, ...], list[Room]] = {}
        """Of existing rooms; made on the first question."""

    def narrowed(self, where: Where) -> list[Room]:
        """Return some rooms, in order, that include all that pass `where`, in any pool."""
        if not self._index:
            for room in self._rooms:
                for key in _keys(room) if not _is_new(room) else ():
                    self._index.setdefault(key, []).append(room)
        found = [self._index.get(label, []) for label in wanted_labels(where).items()]
        if where.same not in ("", POOL):
            found.append(self._index.get((where.same,), []))
        if where.hostnames:
            named = chain.from_iterable(self._index.get(name, ()) for name in where.hostnames)
            found.append([self._rooms[ordinal] for ordinal in sorted({r.ordinal for r in named})])
        return [*min(found, key=len), *_made(self._rooms)] if found else self._rooms


def _keys(room: Room) -> Iterator[str | tuple[str, ...]]:
    """Yield its names, its labels with their values, and its labels alone."""
    labels = labels_of(room.machine, room.shelf.pool)
    yield from {room.name, room.machine.hostname}
    yield from labels.items()
    yield from ((label,) for label in labels)


def passes(where: Where, machine: Machine | None, pool: Pool | None) -> bool:
    """Whether this machine passes `where` (None: any that the pool could create)."""
    if where.pool and where.pool != (pool.name if pool else machine.pool if machine else ""):
        return False
    if where.hostnames and (
        machine is None
        or (machine.hostname not in where.hostnames and machine.name not in where.hostnames)
    ):
        return False
    wanted, same = wanted_labels(where), where.same if where.same != POOL else ""
    if not (wanted or same):
        return True
    have = labels_of(machine, pool)
    has_same = not same or same in have
    return has_same and all(have.get(label) == text for label, text in wanted.items())


def wanted_labels(where: Where) -> Mapping[str, str]:
    """Return the labels that `where` asks for: cluster and shard are ordinary labels."""
    if not (where.cluster or where.shard):
        return where.labels
    named = {"cluster": where.cluster, "shard": where.shard}
    return {**where.labels, **{label: text for label, text in named.items() if text}}


def can_make(where: Where, shelf: Shelf) -> bool:
    """Whether a machine that this shelf's pool creates would pass `where`."""
    return shelf.pool is not None and passes(where, None, shelf.pool)
