"""
The next wall of jobs that take no part in the cycle, once what holds them back is gone.

This module must not change anything.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from bastion.job import JobRecord, Phase
from bastion.scheduler.explain.diagnosis import Diagnosis
from bastion.scheduler.explain.next_walls import reserved_of
from bastion.scheduler.explain.trial import Change
from bastion.scheduler.phases.reservations.starts import starting
from bastion.scheduler.queue.order import Ids
from bastion.scheduler.queue.shape import Shape
from bastion.scheduler.reasons.next_wall import NextWall
from bastion.scheduler.reasons.reason import (
    BudgetSpent,
    Dependency,
    Held,
    NeverFits,
    OverLoad,
    OverUserLimit,
    WaitingReason,
    WaitsFor,
)
from bastion.scheduler.state.draft import Draft
from bastion.scheduler.state.holders.user_limits import User

Passing = Dependency | BudgetSpent | OverUserLimit | OverLoad
"""Reasons for which a gang is set aside until something else has ended."""


class SetAside:
    """The jobs that one cycle sets aside."""

    def __init__(self, draft: Draft, diagnosis: Diagnosis) -> None:
        self.draft = draft
        self._diagnosis = diagnosis
        self._known: dict[tuple[str, str, str, int, Ids], NextWall | None] = {}
        self._without: dict[User, Change] = {}
        """What changes once a user has nothing in a project."""
        diagnosis.trials = 0  # as many again as for queued gangs

    def with_next(self, job: JobRecord, reason: WaitingReason) -> WaitingReason:
        """Return `reason` with the next wall of `job` and its gang; or that waiting never helps."""
        match reason:
            case Held() | WaitsFor():
                never = self.draft.beyond(self.draft.shapes.of(self._gang(job)))
                return replace(reason, then=never) if isinstance(never, NeverFits) else reason
            case Dependency() | BudgetSpent() | OverUserLimit() | OverLoad():
                gang = self._gang(job)
                return self.told(gang, self.draft.shapes.of(gang), reason)
            case _:
                return reason

    def told(self, gang: Sequence[JobRecord], shape: Shape, reason: Passing) -> WaitingReason:
        """Return `reason`, with the next wall of `gang`; or that waiting never helps."""
        job = gang[0]
        if isinstance(reason, (BudgetSpent, OverUserLimit)):
            never = self._diagnosis.never(job.project, shape)
            if isinstance(never, NeverFits):
                return never
        if isinstance(reason, BudgetSpent) and reason.then is not None:
            return reason
        user = job.user if self.draft.memory.limits_users else ""
        key = reason.kind, job.project, user, shape.form, job.gang
        if key not in self._known:
            self._known[key] = self._wall_after(gang, shape, reason)
        then = self._known[key]
        return reason if then is None else replace(reason, then=then)

    def _wall_after(
        self, gang: Sequence[JobRecord], shape: Shape, reason: Passing
    ) -> NextWall | None:
        is_limited = True
        match reason:
            case BudgetSpent():
                change = Change()
            case Dependency():
                change = Change(gone=self._ending(gang))
            case OverLoad():
                is_too_much = reason.alone > reason.limit
                change = Change(gone=() if is_too_much else tuple(self.draft.running))
            case OverUserLimit():
                is_limited = reason.asked <= reason.most  # otherwise that limit is higher by then
                change = self._without_user(gang[0]) if is_limited else Change()
        return self._diagnosis.wall_after(
            gang,
            shape,
            change,
            is_limited=is_limited,
            is_renewed=isinstance(reason, BudgetSpent) or self._joins(gang[0]),
        )

    def _gang(self, job: JobRecord) -> Sequence[JobRecord]:
        """Return the jobs that start together; those that already run are included."""
        jobs = self.draft.snapshot.jobs
        gang = [jobs[name] for name in job.gang if name in jobs]
        waiting = [each for each in gang if each.phase in (Phase.QUEUED, Phase.STOPPING)]
        return sorted(waiting, key=lambda each: (each.index, each.id)) or [job]

    def _joins(self, job: JobRecord) -> bool:
        """Whether others of its gang keep running, so that no budget blocks it."""
        held = (self.draft.of_job.get(name) for name in job.gang)
        return any(each is not None and not each.is_leaving for each in held)

    def _ending(self, gang: Sequence[JobRecord]) -> tuple[str, ...]:
        """Return the members that are being stopped."""
        held = [self.draft.of_job.get(job.id) for job in gang]
        return tuple(sorted(each.name for each in held if each is not None and each.is_leaving))

    def _without_user(self, job: JobRecord) -> Change:
        """Assume that all that its user runs or has reserved in its project has ended."""
        draft, user = self.draft, (job.project, job.user)
        if user not in self._without:
            there = (*draft.occupancy.by_project.get(job.project, ()), *starting(draft))
            self._without[user] = Change(
                gone=tuple(each.name for each in there if (each.project, each.user) == user),
                opened=tuple(each.name for each in reserved_of(draft, job)),
            )
        return self._without[user]
