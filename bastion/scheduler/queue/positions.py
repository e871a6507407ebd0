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
from bastion.scheduler.reasons.reason import NAMED, Behind, NextWall, WaitingReason
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
        return ((entry[3], self.reason) for gangs, at in self.tails for entry in gangs[at:])


class Stretch(NamedTuple):
    """The gangs of a row that stand in one line, in order; at least one."""

    entries: Sequence[Entry]
    usage: float
    """Of their user, as it counts in the order of their project."""
    units: Amounts
    """Each asks for."""
    short: Amounts
    """What is missing for one of them alone, now."""
    then: NextWall | None
    """What it meets once that is free."""


@value
class Row:
    """Gangs of one project that wait for the same types, one behind the other."""

    stretches: Sequence[Stretch]

    @property
    def first(self) -> int:
        """The number of the stretch in which the first gang of all stands."""
        heads = (_place(each.entries[0], each, n) for n, each in enumerate(self.stretches))
        return min(heads, key=_order)[4]

    def reasons(self) -> Reasons:
        """Every gang but the first, and which is before it."""
        row = [_place(e, each, n) for n, each in enumerate(self.stretches) for e in each.entries]
        row.sort(key=_order)
        units, jobs = NOTHING, 0
        first: tuple[str, ...] = ()
        for *_, number, gang in row:
            stretch = self.stretches[number]
            if jobs:
                short, then = stretch.short, stretch.then
                yield gang, Behind(jobs=jobs, units=units, first=first, short=short, then=then)
            if len(first) < NAMED:
                first = (*first, *(job.id for job in gang))[:NAMED]
            jobs += len(gang)
            units = units + stretch.units


def _place(entry: Entry, stretch: Stretch, number: int) -> _Place:
    rank, submitted, name, gang, _ = entry
    return rank, stretch.usage, submitted, name, number, gang
