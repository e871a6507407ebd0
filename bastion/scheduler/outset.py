"""
`Outset`: what one pass of a cycle begins with.

A cycle that finds out late what it should have known begins once more, knowing it. Two things are
found out late. A promise of an earlier cycle does not hold: all was decided beside a promise that
there is not. Or a gang that starts in this cycle would be stopped for one of higher priority in the
next: then that one gets its promise first, and the other does not start.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field

from bastion.scheduler.order import Ids
from bastion.scheduler.snapshot import Snapshot
from bastion.value import value

PASSES = 8
"""After so many, who starts does: what somebody else should have had is his in the next cycle."""


@value
class Outset:
    """What one pass of a cycle begins with."""

    snapshot: Snapshot
    """As the cycle was given it, its promises and plans apart."""
    before: Mapping[Ids, frozenset[Ids]] = field(default_factory=dict)
    """Gangs that were given a promise in this cycle, and those that would have started instead."""
    late: frozenset[Ids] = frozenset()
    """
    Those of them that others took the room of after all.

    They are looked at last: what they start on is not theirs for long, and others can have it.
    """
    new: frozenset[Ids] = frozenset()
    """
    Gangs with a promise of this cycle.

    It counts in no class yet: whoever stood on a share when it began does so until it ends.
    """
    passes: int = 1
    """How many there were, this one included."""
    unplanned: frozenset[Ids] = frozenset()
    """Gangs for whom nothing is planned: what starts in this cycle leaves no room for them."""
