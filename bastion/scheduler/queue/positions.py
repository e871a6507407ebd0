"""
Gangs that wait in lines: all for the same reason, or in a row, one behind the other.

Nothing is done for them, so the reason of each is worked out on request. What is kept here
is all that this needs, and nothing that a later cycle changes.

It must not know why a line waits.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from operator import itemgetter
from typing import NamedTuple

from bastion.scheduler.queue.order import Entry, Gang, Rank
from bastion.scheduler.reasons.next_wall import NextWall
from bastion.scheduler.reasons.reason import Behind, WaitingReason
from bastion.scheduler.reasons.words import NAMED
from bastion.value import value
from quota.amounts import NOTHING, Amounts

_Place = tuple[Rank, float, float, str, int, Gang]
"""(rank, usage of its user, submitted, name, number of its stretch, gang)"""

_order = itemgetter(0, 1, 2, 3, 4)

Reasons = Iterator[tuple[Gang, WaitingReason]]
"""Gangs that wait, and what for."""

Tail = tuple[Sequence[Entry], int]
"""The gangs of a line, and the number of the first that still waits."""


@value
class Crowd:
    """The gangs of one line, or of several, that wait for the same reason."""

    tails: Sequence[Tail]
    reason: WaitingReason

    def reasons(self) -> Reasons:
        """Every gang with it, line by line."""
        return ((entry.gang, self.reason) for gangs, at in self.tails for entry in gangs[at:])


class Stretch(NamedTuple):
    """The lines of a row that ask for the same room, and wait for the same."""

    tails: Sequence[tuple[Tail, float]]
    """Each with the usage of its user, as it counts in the order of their project."""
    units: Amounts
    """Each gang asks for."""
    short: Amounts
    """What is missing for one of them alone, now."""
    then: NextWall | None
    """What it meets once that is free."""


@value
class Row:
    """Gangs of one project that wait for the same types, one behind the other."""

    stretches: Sequence[Stretch]

    @property
    def first(self) -> tuple[int, Gang]:
        """The first gang of all, after the number of its stretch."""
        *_, number, gang = min(self._places(most=1), key=_order)
        return number, gang

    def reasons(self) -> Reasons:
        """Every gang but the first, and which is before it."""
        units, jobs = NOTHING, 0
        first: tuple[str, ...] = ()
        for *_, number, gang in sorted(self._places(), key=_order):
            stretch = self.stretches[number]
            if jobs:
                short, then = stretch.short, stretch.then
                yield gang, Behind(jobs=jobs, units=units, first=first, short=short, then=then)
            if len(first) < NAMED:
                first = (*first, *(job.id for job in gang))[:NAMED]
            jobs += len(gang)
            units = units + stretch.units

    def _places(self, most: int | None = None) -> list[_Place]:
        """Those of every gang, or of so many of each line at `most`."""
        return [
            (entry.rank, usage, entry.submitted_at, entry.name, number, entry.gang)
            for number, stretch in enumerate(self.stretches)
            for (gangs, at), usage in stretch.tails
            for entry in gangs[at : None if most is None else at + most]
        ]
