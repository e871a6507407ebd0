"""
What would happen now, for `launch --dry_run` and `quota diff NEW.toml`, by the same `decide`.

This module must not know how a cycle works: it only compares plans.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from bastion.job import JobClass, JobRecord
from bastion.scheduler.cycle import decide
from bastion.scheduler.effort import STEPS
from bastion.scheduler.plan import Admit, Keep, Plan, Preempt, Refuse, Verdict, Wait
from bastion.scheduler.reasons.holding import Borrowing, MaintenanceStop, WithinShare
from bastion.scheduler.reasons.quota_file import NotMember, UnknownProject
from bastion.scheduler.snapshot import Snapshot
from bastion.scheduler.state.holders.budgets import carried
from bastion.value import value
from quota.change import QuotaChange, compare
from quota.tree import Quota


@value
class Outlook:
    """What one cycle would do, and what it would set in motion."""

    starts: tuple[str, ...] = ()
    """Jobs that would start immediately."""
    waits: tuple[str, ...] = ()
    """Of the jobs asked about, those that would wait."""
    refused: tuple[str, ...] = ()
    stops: tuple[tuple[str, str], ...] = ()
    """(victim, preemptor or empty), now or at a time that would be set now."""
    demoted: tuple[str, ...] = ()
    """Running jobs that would no longer be within their project's share."""
    promoted: tuple[str, ...] = ()
    vacated: tuple[tuple[str, MaintenanceStop], ...] = ()
    """Running jobs that maintenance would stop later, or leave running, and when."""
    verdicts: tuple[tuple[str, Verdict], ...] = ()
    """Of the jobs asked about, with their reasons."""
    problems: tuple[str, ...] = ()
    """Why the jobs asked about would be rejected; the other fields are then empty."""

    def __repr__(self) -> str:
        told = {
            "would be refused": self.refused,
            "would start now": self.starts,
            "would wait": self.waits,
            "would be preempted": tuple(victim for victim, _ in self.stops),
            "would borrow": self.demoted,
            "would be within its share": self.promoted,
            "would be stopped for maintenance": tuple(
                job for job, stop in self.vacated if not stop.is_left
            ),
            "may still run when maintenance begins": tuple(
                job for job, stop in self.vacated if stop.is_left
            ),
        }
        parts = [f"{', '.join(names)} {what}" for what, names in told.items() if names]
        return f"<{'; '.join([*self.problems, *parts]) or 'nothing would change'}>"


PATIENT = 100 * STEPS
"""Steps of a cycle whose answer a user waits for: a user has more time than a bastion's turn."""


@value
class QuotaOutlook:
    """What another quota file would do, compared with the one in force."""

    change: QuotaChange
    outlook: Outlook


def if_launched(snapshot: Snapshot, jobs: Iterable[JobRecord], now: float) -> Outlook:
    """
    Return what would happen if `jobs` were submitted now, beside all waiting jobs.

    Other jobs appear only where they would fare differently.
    """
    new = {job.id: job for job in jobs}
    snapshot = replace(snapshot, steps=PATIENT)
    before = decide(snapshot, now)
    after = decide(replace(snapshot, jobs={**snapshot.jobs, **new}), now)
    verdicts = {name: after.verdicts[name] for name in sorted(new)}
    return _outlook(before, after, verdicts)


def if_quota_were(snapshot: Snapshot, quota: Quota, now: float) -> QuotaOutlook:
    """Return what would happen if `quota` were in force: changed shares and preempted jobs."""
    snapshot = replace(snapshot, steps=PATIENT)
    before = decide(snapshot, now)
    spent = carried(snapshot.quota, quota, snapshot.spent, now)
    after = decide(replace(snapshot, quota=quota, quota_problem="", spent=spent), now)
    changed = {
        name: verdict
        for name, verdict in after.verdicts.items()
        if type(verdict) is not type(old := before.verdicts.get(name))
        or (_is_shut_out(verdict) and not _is_shut_out(old))
    }
    change = compare(snapshot.quota, quota)
    return QuotaOutlook(change=change, outlook=_outlook(before, after, changed))


def _outlook(before: Plan, after: Plan, asked: dict[str, Verdict]) -> Outlook:
    stops = _stops(after)
    known = _stops(before)
    own, borrowed = JobClass.GUARANTEED, JobClass.BORROWED
    return Outlook(
        starts=tuple(sorted(_of(after, Admit) - _of(before, Admit))),
        waits=tuple(name for name, verdict in asked.items() if isinstance(verdict, Wait)),
        refused=tuple(name for name, verdict in asked.items() if isinstance(verdict, Refuse)),
        stops=tuple(sorted(stops - known)),
        demoted=tuple(sorted(_class(before, own) & _class(after, borrowed))),
        promoted=tuple(sorted(_class(before, borrowed) & _class(after, own))),
        vacated=tuple(_vacated(before, after)),
        verdicts=tuple(asked.items()),
    )


def _is_shut_out(verdict: Verdict | None) -> bool:
    """Whether it waits only for an admin: the quota file has no place for it."""
    return isinstance(verdict, Wait) and isinstance(verdict.reason, NotMember | UnknownProject)


def _of(plan: Plan, kind: type[Verdict]) -> set[str]:
    return {name for name, verdict in plan.verdicts.items() if isinstance(verdict, kind)}


def _stops(plan: Plan) -> set[tuple[str, str]]:
    """Return (victim, preemptor) of every stop, now or later by a promise."""
    now = {(n, v.by) for n, v in plan.verdicts.items() if isinstance(v, Preempt)}
    later = {(name, each.gang[0]) for each in plan.promises for name, _ in each.victims}
    return now | later


def _vacated(before: Plan, after: Plan) -> Iterator[tuple[str, MaintenanceStop]]:
    """Yield what maintenance stops or leaves in `after`, unless it does the same in `before`."""
    for name, verdict in after.verdicts.items():
        stop = _maintenance_stop(verdict)
        if stop is not None and _maintenance_stop(before.verdicts.get(name)) != stop:
            yield name, stop


def _maintenance_stop(verdict: Verdict | None) -> MaintenanceStop | None:
    match verdict:
        case Keep(reason=WithinShare(maintenance=stop) | Borrowing(maintenance=stop)):
            return stop
        case _:
            return None


def _class(plan: Plan, job_class: JobClass) -> set[str]:
    return {
        name
        for name, verdict in plan.verdicts.items()
        if isinstance(verdict, Keep) and verdict.job_class is job_class
    }
