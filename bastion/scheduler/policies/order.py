"""
What an order policy is: a rank for every gang of a project, the lowest first.

Priority comes first under every policy. A gang that yields to another by the order would else
outrank it by priority, and the two would stop each other for ever.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from bastion.job import JobRecord
from bastion.scheduler.queue.order import Rank
from bastion.scheduler.snapshot import Snapshot
from bastion.value import value

RankOf = Callable[[Sequence[JobRecord], Snapshot, float], float]
RanksOf = Callable[[Snapshot, float], Callable[[Sequence[JobRecord]], float]]


@value
class OrderPolicy:
    """
    Which gang goes first among equals of priority, before age and name decide.

    `between_users`: among equals of rank, users with less usage first; the project's own
    `order = "fifo"` turns it off.
    """

    rank_of: RankOf | None = None
    """Of one gang; without it and `ranks_of`, priority alone decides."""
    ranks_of: RanksOf | None = None
    """In place of `rank_of`, where the rank of a gang follows from all of them together."""
    between_users: bool = False
    is_lasting: bool = False
    """Whether the rank of a waiting gang follows from its records alone."""

    def rank(self, snapshot: Snapshot, now: float) -> Callable[[Sequence[JobRecord]], Rank]:
        """The rank of a gang in this cycle."""
        if self.ranks_of is not None:
            among_equals = self.ranks_of(snapshot, now)
            return lambda gang: (_priority_of(gang), among_equals(gang))
        rank_of = self.rank_of
        if rank_of is None:
            return _by_priority
        return lambda gang: (_priority_of(gang), rank_of(gang, snapshot, now))


def _by_priority(gang: Sequence[JobRecord]) -> Rank:
    # Of one job alone, which nearly all are, without another call.
    return (gang[0].request.priority if len(gang) == 1 else _priority_of(gang)), 0.0


def _priority_of(gang: Sequence[JobRecord]) -> float:
    """The priority of its most important job."""
    if len(gang) == 1:
        return gang[0].request.priority
    return min(job.request.priority for job in gang)
