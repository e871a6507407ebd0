"""
The interface of an order policy: a rank for every gang of a project, the lowest first.

Priority comes first under every policy. Otherwise a gang that yields to another by the order could
outrank it by priority, and the two would preempt each other forever.
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
    Which gang goes first among equal priorities, before age and name decide.

    `between_users`: among equal ranks, users with less usage go first; `order = "fifo"` of the
    project turns it off.
    """

    rank_of: RankOf | None = None
    """The rank of one gang; without it and `ranks_of`, priority alone decides."""
    ranks_of: RanksOf | None = None
    """Replaces `rank_of` where the rank of a gang depends on all gangs together."""
    between_users: bool = False
    is_lasting: bool = False
    """Whether the rank of a waiting gang depends on its records alone."""

    def rank(self, snapshot: Snapshot, now: float) -> Callable[[Sequence[JobRecord]], Rank]:
        """Return the rank of a gang in this cycle."""
        if self.ranks_of is not None:
            among_equals = self.ranks_of(snapshot, now)
            return lambda gang: (_priority_of(gang), among_equals(gang))
        rank_of = self.rank_of
        if rank_of is None:
            return _by_priority
        return lambda gang: (_priority_of(gang), rank_of(gang, snapshot, now))


def _by_priority(gang: Sequence[JobRecord]) -> Rank:
    # For a single job, which nearly all gangs are, without another call.
    return (gang[0].request.priority if len(gang) == 1 else _priority_of(gang)), 0.0


def _priority_of(gang: Sequence[JobRecord]) -> float:
    """Return the priority of its most important job."""
    if len(gang) == 1:
        return gang[0].request.priority
    return min(job.request.priority for job in gang)
