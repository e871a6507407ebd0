"""What another quota file or policy would have changed, per job and in total."""

from __future__ import annotations

from collections.abc import Iterable
from math import inf

from bastion.simulator.engine.result import JobResult, Result
from bastion.simulator.metrics.measures import jct_of, wait_of
from bastion.simulator.replay.record import by_name
from bastion.value import value

_SAME_S = 0.5
"""Ends that differ by less count as equal."""


@value
class JobChange:
    """A job that would have ended at a different time, or been preempted more or less often."""

    job: str
    project: str
    user: str
    devices: int
    before_s: float | None
    """From submission to end; None if it did not end."""
    after_s: float | None
    waited_before_s: float
    waited_after_s: float
    preempted_before: int
    preempted_after: int

    @property
    def sooner_s(self) -> float:
        """How much sooner it would have ended; negative: later. 0 if it does not end in both."""
        before_s, after_s = (inf if s is None else s for s in (self.before_s, self.after_s))
        return 0.0 if before_s == after_s else before_s - after_s


@value
class ProjectChange:
    """What would have changed for one project."""

    project: str
    jobs: int
    sooner: int
    later: int
    waited_before_s: float
    """Of all its jobs together."""
    waited_after_s: float
    preempted_before: int
    preempted_after: int


@value
class Difference:
    """What would have changed."""

    jobs: tuple[JobChange, ...]
    """The largest changes first."""
    projects: tuple[ProjectChange, ...]


def difference(before: Result, after: Result) -> Difference:
    """Compare two results of one workload."""
    old, new = by_name(before), by_name(after)
    pairs = [(old[name], new[name]) for name in old if name in new]
    changes = [_change(one, two) for one, two in pairs]
    moved = [
        each
        for each in changes
        if abs(each.sooner_s) > _SAME_S or each.preempted_before != each.preempted_after
    ]
    moved.sort(key=lambda each: (-abs(each.sooner_s), each.job))
    names = sorted({each.project for each in changes})
    return Difference(
        jobs=tuple(moved),
        projects=tuple(
            _sum(name, [each for each in changes if each.project == name]) for name in names
        ),
    )


def _change(old: JobResult, new: JobResult) -> JobChange:
    return JobChange(
        job=old.job.name,
        project=old.job.project,
        user=old.job.user,
        devices=old.job.devices,
        before_s=_completion(old),
        after_s=_completion(new),
        waited_before_s=_waited(old),
        waited_after_s=_waited(new),
        preempted_before=old.preemptions,
        preempted_after=new.preemptions,
    )


def _completion(each: JobResult) -> float | None:
    return jct_of(each) if each.ended_at is not None and each.outcome != "refused" else None


def _waited(each: JobResult) -> float:
    return wait_of(each) if _completion(each) is not None else 0.0


def _sum(project: str, changes: Iterable[JobChange]) -> ProjectChange:
    changes = list(changes)
    return ProjectChange(
        project=project,
        jobs=len(changes),
        sooner=sum(each.sooner_s > _SAME_S for each in changes),
        later=sum(each.sooner_s < -_SAME_S for each in changes),
        waited_before_s=sum(each.waited_before_s for each in changes),
        waited_after_s=sum(each.waited_after_s for each in changes),
        preempted_before=sum(each.preempted_before for each in changes),
        preempted_after=sum(each.preempted_after for each in changes),
    )
