"""
Scope: the machines that the filters of a request leave, those that stand and those to be made.

It must not know what is free.
"""

from __future__ import annotations

from collections.abc import Mapping

from bastion.machine import Machine, Pool
from bastion.scheduler.placement.room import Room, Shelf, has_labels
from bastion.spec.where import Where

NEW = -1.0
"""`created_at` of a machine that this cycle makes, until the plan says when."""


class Scope:
    """The rooms that a filter leaves, by tier."""

    __slots__ = ("allowed", "singles", "tiers", "where")

    def __init__(self, where: Where, tiers: list[list[Shelf]], allowed: frozenset[int] | None):
        self.where = where
        self.tiers = tiers
        self.singles = [[shelf for shelf in tier if shelf.hosts == 1] for tier in tiers]
        """Those without slices."""
        self.allowed = allowed
        """Ordinals of rooms, or None for all of the shelves."""

    def has(self, room: Room) -> bool:
        """Whether the filter leaves `room`."""
        if self.allowed is None:
            return True
        if room.machine.created_at == NEW:
            return passes(self.where, room.machine, room.shelf.pool)
        return room.ordinal in self.allowed


def passes(where: Where, machine: Machine | None, pool: Pool | None) -> bool:
    """Whether the filters of `where` leave this machine (None: any that the pool could make)."""
    if where.pool and where.pool != (pool.name if pool else machine.pool if machine else ""):
        return False
    if where.hostnames and (
        machine is None
        or (machine.hostname not in where.hostnames and machine.name not in where.hostnames)
    ):
        return False
    wanted = wanted_labels(where)
    return not wanted or has_labels(machine, pool, wanted)


def wanted_labels(where: Where) -> Mapping[str, str]:
    """The labels that `where` asks for: cluster and shard are labels like others."""
    if not (where.cluster or where.shard):
        return where.labels
    named = {"cluster": where.cluster, "shard": where.shard}
    return {**where.labels, **{label: text for label, text in named.items() if text}}


def can_make(where: Where, shelf: Shelf) -> bool:
    """Whether a machine that this shelf's pool makes would pass `where`."""
    return shelf.pool is not None and passes(where, None, shelf.pool)
