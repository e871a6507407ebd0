"""
Eligibility: waiting jobs as gangs in the queue, and jobs set aside with the reason why.

This module must not know capacity or shares.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from bastion.job import JobRecord, Phase, state_of
from bastion.scheduler.queue.order import Entry, Gang, Line
from bastion.scheduler.reasons.reason import (
    Backoff,
    BudgetSpent,
    Cancelled,
    Dependency,
    Held,
    NotMember,
    OverUserLimit,
    QuotaFileInvalid,
    UnknownProject,
    WaitingReason,
    WaitsFor,
)
from bastion.scheduler.snapshot import Snapshot
from bastion.value import value


@value
class WaitingJobs:
    """All waiting jobs: in the queue, or set aside."""

    gangs: list[Gang]
    """Those in the queue."""
    aside: Mapping[str, WaitingReason]


class LineAside(NamedTuple):
    """Gangs of one line that are set aside for the same reason; at least one."""

    line: Line
    entries: list[Entry]
    reason: BudgetSpent | OverUserLimit


def wait_or_queue(
    snapshot: Snapshot, now: float, jobs: Mapping[str, JobRecord], *, is_failing: bool
) -> WaitingJobs:
    """
    Split the waiting jobs of `jobs`; a gang is queued as a whole or not at all.

    A job that was queued on its own stays queued under the same quota while its record is
    unchanged: only a failure in its launch can set it aside. So `jobs` need not include it, unless
    any job of the snapshot `is_failing` together with its whole launch.
    """
    judge = _Judge(snapshot, now, is_failing=is_failing)
    aside: dict[str, WaitingReason] = {}
    gangs: dict[tuple[str, ...], list[JobRecord]] = {}
    alone: list[Gang] = []
    for job in jobs.values():
        if job.phase is not Phase.QUEUED:
            continue
        reason = judge.reason(job)
        if reason is not None:
            aside[job.id] = reason
        if job.gang:
            gangs.setdefault(job.gang, []).append(job)
        elif reason is None:
            alone.append((job,))
    for ids, members in gangs.items():
        members.sort(key=lambda job: (job.index, job.id))
        if _is_ready(ids, members, aside, snapshot.jobs):
            alone.append(tuple(members))
    return WaitingJobs(gangs=alone, aside=aside)


class _Judge:
    """Finds jobs that may not be queued, whatever the state of the rest of their gang."""

    def __init__(self, snapshot: Snapshot, now: float, *, is_failing: bool) -> None:
        self.failing = _failing(snapshot.jobs.values()) if is_failing else {}
        self._snapshot = snapshot
        self._now = now
        self._states = _States(snapshot.jobs, snapshot.arrays)
        self._membership: dict[tuple[str, str], WaitingReason | None] = {}

    def reason(self, job: JobRecord) -> WaitingReason | None:
        """Return why `job` is set aside, or None."""
        reason = None
        if job.cancelled_by or job.held or job.after or job.not_before > self._now:
            reason = _own_reason(job, self._now, self._states)
        if reason is None and self.failing and job.launch in self.failing:
            reason = Dependency(on=(self.failing[job.launch],), state="still ending")
        if reason is not None:
            return reason
        key = job.project, job.user
        if key not in self._membership:
            self._membership[key] = _membership(self._snapshot, *key)
        return self._membership[key]


class _States:
    """The states of jobs and launches. Launches are counted at most once per cycle."""

    def __init__(self, jobs: Mapping[str, JobRecord], arrays: Mapping[str, str]) -> None:
        self._jobs = jobs
        self._arrays = arrays
        self._launches: dict[str, Counter[str]] | None = None

    def of(self, name: str) -> str:
        """Return the state of a job, or those of the jobs of a launch with their counts."""
        if name in self._jobs:
            return state_of(self._jobs[name])
        if name in self._arrays:
            return self._arrays[name]
        if self._launches is None:
            self._launches = {}
            for job in self._jobs.values():
                self._launches.setdefault(job.launch, Counter())[state_of(job)] += 1
        counts = self._launches.get(name, Counter())
        return ", ".join(f"{n} {state}" for state, n in sorted(counts.items())) or "ended"


def _failing(jobs: Iterable[JobRecord]) -> Mapping[str, str]:
    """Return launch -> its job that fails; jobs stopped because of that failure need not start."""
    return {job.launch: job.id for job in jobs if job.launch_scope and job.is_failing}


def _own_reason(job: JobRecord, now: float, states: _States) -> WaitingReason | None:
    if job.cancelled_by:
        return Cancelled(by=job.cancelled_by)
    if job.held:
        return Held(by=job.held)
    if job.after:
        return WaitsFor(on=tuple((each.on, each.when, states.of(each.on)) for each in job.after))
    if job.not_before > now:
        after = job.last.kind.value.replace("_", " ") if job.last is not None else "a failure"
        return Backoff(until=job.not_before, after=after)
    return None


def _membership(snapshot: Snapshot, project: str, user: str) -> WaitingReason | None:
    quota = snapshot.quota
    if project not in quota.projects:
        reason: NotMember | UnknownProject = UnknownProject(project=project)
    elif not quota.projects[project].has_member(user):
        reason = NotMember(user=user, project=project)
    else:
        return None
    if snapshot.quota_problem:
        return QuotaFileInvalid(problem=snapshot.quota_problem, otherwise=reason)
    return reason


def _is_ready(
    ids: Iterable[str],
    members: list[JobRecord],
    aside: dict[str, WaitingReason],
    jobs: Mapping[str, JobRecord],
) -> bool:
    """Whether the whole gang is eligible; if not, each member gets the reason why it waits."""
    blockers = tuple(job.id for job in members if job.id in aside and not job.cancelled_by)
    state = "not ready"
    if not blockers:
        blockers = tuple(each for each in ids if each in jobs and _returns(jobs[each]))
        state = "still ending"
    for job in members:
        if blockers and job.id not in aside:
            aside[job.id] = Dependency(on=blockers, state=state)
    members[:] = [job for job in members if job.id not in aside]
    return bool(members) and not blockers


def _returns(job: JobRecord) -> bool:
    """Whether `job` is, or may be, returning to the queue."""
    return job.phase is Phase.STOPPING or (job.phase is Phase.DRAINING and job.outcome is None)
