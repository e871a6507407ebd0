"""
`Outset`: what one pass of a cycle begins with.

A cycle that finds out late what it should have known begins once more, knowing it: a promise or a
plan of an earlier cycle does not hold; or a gang that starts in this cycle would be stopped for
another: then that one gets its promise first, and the other does not start.

And what a pass decides is carried out, and decided upon again, until nothing more moves: so the
next cycle has nothing to add.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field

from bastion.scheduler.queue.order import Ids
from bastion.scheduler.snapshot import Snapshot
from bastion.scheduler.state.decisions import Moves
from bastion.value import value

PASSES = 12
"""After so many, what was found stands; the rest is for the next cycle."""


@value
class Outset:
    """What one pass of a cycle begins with."""

    given: Snapshot
    """As the cycle was given it."""
    snapshot: Snapshot
    """The same with what is `done`, and without promises and plans that do not hold."""
    done: Moves = field(default_factory=Moves)
    """What earlier passes decided: the snapshot has it as carried out."""
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
    vain: frozenset[str] = frozenset()
    """Names of gangs beyond their share for whom nobody is stopped: it would be for nothing."""
    helped: frozenset[str] = frozenset()
    """Those of them that had started then: perhaps because somebody was stopped."""
    needed: frozenset[str] = frozenset()
    """Names of gangs taken out of them: they do not start unless somebody is stopped for them."""
    unplanned: frozenset[str] = frozenset()
    """Names of gangs for whom nothing is planned: what moves in this cycle leaves no room."""
    unrotated: frozenset[str] = frozenset()
    """Jobs of borrowers not to be rotated: a gang within its share takes what they leave."""
    later: frozenset[str] = frozenset()
    """Names of gangs within their share that would have had somebody stopped for nothing."""
    is_first: bool = True
    """Whether nothing is carried out yet."""
    passes: int = 1
    """How many there were, this one included."""

    @property
    def skipped(self) -> frozenset[str]:
        """Names of gangs that are not looked at in this pass; in the next they are."""
        return self.later if self.is_first and self.passes < PASSES else frozenset()
