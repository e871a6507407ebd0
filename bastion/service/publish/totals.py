"""
The sums over all jobs that the status shows, kept from one status to the next.

Changed jobs are subtracted and added; jobs that stay in the queue are not read again. Projects'
usage is summed over the jobs that hold anything.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping
from typing import Any

from bastion.changes import changes
from bastion.job import JobRecord, Phase, state_of
from bastion.records.root import Root
from bastion.scheduler.charge import held_by
from bastion.value import value
from quota import NOTHING, Amounts, Quota
from quota.ledger import borrowed, lent


@value
class Totals:
    """Sums over all jobs of one root."""

    counts: Mapping[str, int]
    """Jobs by state; every task counts as a job."""
    projects: Mapping[str, Any]
    """
    Usage, queued jobs and the time since which the first of them waits, by project; empty without a
    quota file.
    """


def totals(root: Root, quota: Quota | None) -> Totals:
    """Sum up the jobs of `root` from the beginning."""
    return RunningTotals().of(root, quota)


class RunningTotals:
    """The totals of consecutive roots."""

    def __init__(self) -> None:
        self._jobs: Mapping[str, JobRecord] = {}
        self._counts: Counter[str] = Counter()
        self._queued: Counter[str] = Counter()
        """By project."""
        self._waiting: defaultdict[str, dict[str, float]] = defaultdict(dict)
        """By project: when each job that waits in the queue for devices joined it."""
        self._working: dict[str, JobRecord] = {}
        """Those that are not just queued."""

    def of(self, root: Root, quota: Quota | None) -> Totals:
        """Return the totals of `root`, whose maps are never changed in place."""
        gone, come, _ = changes(self._jobs, root.jobs)
        for job in (self._jobs[name] for name in gone):
            self._count(job, -1)
            self._working.pop(job.id, None)
        for job in (root.jobs[name] for name in come):
            self._count(job, 1)
            if job.phase is not Phase.QUEUED:
                self._working[job.id] = job
        self._jobs = root.jobs
        counts = Counter(self._counts)
        for array in root.arrays.values():
            counts.update(queued=len(array.ready), held=len(array.held))
        return Totals(counts=dict(+counts), projects=self._projects(root, quota) if quota else {})

    def _count(self, job: JobRecord, number: int) -> None:
        self._counts[state_of(job)] += number
        if job.phase is Phase.QUEUED:
            self._queued[job.project] += number
        if number < 0:
            self._waiting[job.project].pop(job.id, None)
        elif _waits(job):
            self._waiting[job.project][job.id] = job.queued_at

    def _projects(self, root: Root, quota: Quota) -> dict[str, Any]:
        usage: dict[str, Amounts] = {}
        for job in self._working.values():
            if job.is_admitted:
                held = held_by(job, root.machines)
                usage[job.project] = usage.get(job.project, NOTHING) + held
        queued = Counter(self._queued)
        for array in root.arrays.values():
            queued[array.project] += len(array.waiting)
        waiting = {project: [*jobs.values()] for project, jobs in self._waiting.items()}
        for array in root.arrays.values():
            if array.ready and not array.each.after:
                waiting.setdefault(array.project, []).append(array.each.queued_at)
        lends = lent(quota, usage)
        return {
            name: {
                "nominal": dict(project.nominal.items()),
                "usage": dict(usage.get(name, NOTHING).items()),
                "borrowed": dict(borrowed(quota, usage, name).items()),
                "lent": dict(lends[name].items()),
                "queued": queued[name],
                "waiting_since": min(waiting.get(name, ()), default=None),
            }
            for name, project in quota.projects.items()
        }


def _waits(job: JobRecord) -> bool:
    """Whether it is in the queue, and neither a user nor another job keeps it from starting."""
    return job.phase is Phase.QUEUED and not job.held and not job.after
