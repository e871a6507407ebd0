"""
What a placement takes of every machine: devices by index, amounts, or all of it.

Two gangs exclude each other on a machine if one of them takes all of it, or if both want the same
device. Amounts (`cpu`, `memory`) have no index: there it depends on how much is left.

This module must not know whose placement it is.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from bastion.job import Placement, ReplicaPlace
from bastion.scheduler.placement.capacity import Capacity
from bastion.scheduler.placement.device_mask import mask_of
from bastion.scheduler.placement.place import Placed
from bastion.scheduler.queue.shape import Part, Shape

Pairs = Iterable[tuple[Part, ReplicaPlace]]
"""Replicas, each with what it asks for."""


def pairs_of(parts: Sequence[Part], placements: Sequence[Placement]) -> Pairs:
    """Return every replica of a gang, with what it asks for."""
    return [(part, replica) for part, places in zip(parts, placements) for replica in places]


class Footprint:
    """What some replicas take, machine by machine."""

    def __init__(self, pairs: Pairs) -> None:
        self.masks: dict[str, dict[str, int]] = {}
        """Machine -> type -> mask of its devices; every machine is included."""
        self.counts: dict[str, dict[str, int]] = {}
        """Machine -> type without devices -> how much, where not all of the machine is taken."""
        self.whole: set[str] = set()
        """Machines of which all is taken."""
        for part, place in pairs:
            for host in place.hosts:
                masks = self.masks.setdefault(host.machine, {})
                for resource, indices in host.devices.items():
                    masks[resource] = masks.get(resource, 0) | mask_of(indices)
                if part.takes_whole:
                    self.whole.add(host.machine)
                    continue
                for resource, units in part.counts_of_host:
                    counts = self.counts.setdefault(host.machine, {})
                    counts[resource] = counts.get(resource, 0) + units

    def meets(self, other: Footprint) -> bool:
        """Whether both cannot be there together; amounts are ignored."""
        for machine, masks in self.masks.items():
            theirs = other.masks.get(machine)
            if theirs is None:
                continue
            if machine in self.whole or machine in other.whole:
                return True
            for resource, mask in masks.items():
                if mask & theirs.get(resource, 0):
                    return True
        return False

    def lacking(self, capacity: Capacity) -> dict[tuple[str, str], int]:
        """
        Return (machine, type without devices) -> how much must become free there.

        What others are owed on that machine comes first.
        """
        found = {}
        for machine, counts in self.counts.items():
            room = capacity.by_name.get(machine)
            if room is None:
                continue
            for resource, units in counts.items():
                short = units - max(0, room.counts.get(resource, 0))
                if short > 0:
                    found[machine, resource] = short + room.owed.get(resource, 0)
        return found

    def opens(self, capacity: Capacity) -> list[str]:
        """Return machines where devices are free, or become free with this gone."""
        found = []
        for machine, masks in self.masks.items():
            room = capacity.by_name.get(machine)
            if room is None or not room.opened:
                continue
            for resource, free in room.masks.items():
                if free or room.freed(resource, masks.get(resource, 0)):
                    found.append(machine)
                    break
        return found

    def frees(self, machine: str, resource: str) -> float:
        """Return how much of a type without devices becomes free on `machine` with this gone."""
        if machine in self.whole:
            return math.inf
        return self.counts.get(machine, {}).get(resource, 0)


class Located(NamedTuple):
    """Where a waiting gang will lie; the same from cycle to cycle while its machines are."""

    shape: Shape
    placed: Placed
    footprint: Footprint


def located(shape: Shape, placed: Placed) -> Located:
    """Return where a gang of `shape` that is `placed` will lie."""
    return Located(shape, placed, Footprint(pairs_of(shape.parts, placed.placements)))
