"""What an order policy is: a rank for every gang of a project, the lowest first."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from bastion.job import JobRecord
from bastion.scheduler.snapshot import Snapshot
from bastion.value import value

RankOf = Callable[[Sequence[JobRecord], Snapshot, float], float]


@value
class OrderPolicy:
    """
    Who goes first inside a project, before age and name decide.

    `between_users`: among equals of rank, users with less usage first; the project's own
    `order = "fifo"` turns it off.
    """

    rank_of: RankOf
    between_users: bool = False
    is_lasting: bool = False
    """Whether the rank of a waiting gang follows from its records alone."""

    def rank(self, snapshot: Snapshot, now: float) -> Callable[[Sequence[JobRecord]], float]:
        """The rank of a gang in this cycle."""
        return lambda gang: self.rank_of(gang, snapshot, now)


def priority_of(gang: Sequence[JobRecord], _: Snapshot, __: float) -> float:
    """The priority of its most important job."""
    if len(gang) == 1:
        return gang[0].request.priority
    return min(job.request.priority for job in gang)
