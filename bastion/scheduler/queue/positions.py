"""
Positions of waiting gangs: all with one reason, or in a row, one behind the other.

Nothing is done for these gangs, so the reason of each is computed on request. This module keeps
only what that needs, and nothing that a later cycle changes.

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
"""(rank, usage of its user, submission time, name, number of its stretch, gang)"""

_order = itemgetter(0, 1, 2, 3, 4)

Reasons = Iterator[tuple[Gang, WaitingReason]]
"""Waiting gangs, and the reason why they wait."""

Tail = tuple[Sequence[Entry], int]
"""The gangs of a line, and the index of the first that still waits."""


@value
class Crowd:
    """The gangs of one or more lines that wait for the same reason."""

    tails: Sequence[Tail]
    reason: WaitingReason

    def reasons(self) -> Reasons:
        """Return every gang with its reason, line by line."""
        return ((entry.gang, self.reason) for gangs, at in self.tails for entry in gangs[at:])


class Stretch(NamedTuple):
    """The lines of a row that need the same room and wait for the same thing."""

    tails: Sequence[tuple[Tail, float]]
    """Each with its user's usage, as it counts in the order of their project."""
    units: Amounts
    """What each gang asks for."""
    short: Amounts
    """What one of them alone lacks now."""
    then: NextWall | None
    """The next wall, once that is free."""


@value
class Row:
    """Gangs of one project that wait for the same types, one behind the other."""

    stretches: Sequence[Stretch]

    @property
    def first(self) -> tuple[int, Gang]:
        """Return the first gang of all, after the number of its stretch."""
        *_, number, gang = min(self._places(most=1), key=_order)
        return number, gang

    def reasons(self) -> Reasons:
        """Yield every gang except the first, each with its reason and the gang before it."""
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
        """Return the places of every gang, or of `most` gangs of each line."""
        return [
            (entry.rank, usage, entry.submitted_at, entry.name, number, entry.gang)
            for number, stretch in enumerate(self.stretches)
            for (gangs, at), usage in stretch.tails
            for entry in gangs[at : None if most is None else at + most]
        ]
