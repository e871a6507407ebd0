"""A job's request to the scheduler: the part of a spec that decides when and where it runs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bastion.spec.where import ANYWHERE, Where
from bastion.value import value
from quota.amounts import NOTHING, Amounts

if TYPE_CHECKING:
    from bastion.spec.launch import Job, Launch


@value
class Request:
    """
    The scheduler's view of one job.

    `per_replica` is the request of one replica, over all of its `hosts` (above 1 only for slices,
    which are allocated whole). `units` is the request of the whole gang.
    """

    replicas: int = 1
    """For an elastic job: the fewest."""
    per_replica: Amounts = NOTHING
    hosts: int = 1
    where: Where = ANYWHERE
    priority: int = 3
    max_runtime_s: float | None = None
    grace_s: float | None = None
    borrow: bool = True
    """Whether it may start beyond its project's share; if not, no other project preempts it."""
    max_replicas: int = 0
    """The most replicas that it may grow to; 0: it has the same number at every start."""

    @property
    def is_elastic(self) -> bool:
        """Whether its attempts may have more replicas than `replicas`."""
        return self.max_replicas > self.replicas

    @property
    def most(self) -> int:
        """The most replicas that one of its attempts may have."""
        return max(self.replicas, self.max_replicas)

    @property
    def takes_whole(self) -> bool:
        """Whether it takes, and is charged for, whole machines."""
        return self.where.exclusive or self.hosts > 1

    @property
    def units(self) -> Amounts:
        """The request of all replicas together; of the fewest replicas, if it can grow."""
        return self.replicas * self.per_replica


def request_of(launch: Launch, job: Job, *, per_replica: Amounts, hosts: int) -> Request:
    """Return the request of `job`; the caller has looked up its instance type."""
    from bastion.spec.code import is_image

    where = launch.where.with_containers() if is_image(launch.code) else launch.where
    return Request(
        replicas=job.range.least,
        max_replicas=job.range.most if job.range.is_elastic else 0,
        per_replica=per_replica,
        hosts=hosts,
        where=where,
        priority=job.priority,
        max_runtime_s=job.max_runtime_s,
        grace_s=job.grace_s,
        borrow=job.borrow,
    )
