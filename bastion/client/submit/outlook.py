"""The result of a dry run, in lines for people."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from bastion.scheduler.plan import Verdict
    from bastion.scheduler.whatif import Outlook


_NEVER = "-0000000000"
"""The end of the id of a job that is only tried; its name is shown without it."""


def outlook_lines(outlook: Outlook, now: float) -> list[str]:
    """
    Return a line for everything that would happen or start immediately; empty if nothing would.

    Args:
        outlook: What the scheduler would do.
        now: The time to which reasons are relative.
    """
    from bastion.client.change.busy_error import table
    from bastion.scheduler.plan import Refuse
    from bastion.scheduler.reasons.reason import text
    from bastion.scheduler.reasons.words import when

    why = {job: text(verdict.reason, now) + _start(verdict) for job, verdict in outlook.verdicts}
    lines = [f"it would be refused: {problem}" for problem in outlook.problems]
    lines += _told("would start now", outlook.starts, why)
    lines += _told("would be queued", outlook.waits, why)
    lines += _told("would be refused", outlook.refused, why)
    for _, verdict in outlook.verdicts:
        lines += table(verdict.machines) if isinstance(verdict, Refuse) and verdict.machines else []
    lines += [f"{job} would be {_end(by, why.get(job))}" for job, by in outlook.stops]
    for job, stop in outlook.vacated:
        lines.append(
            f"{job} may still run when maintenance begins, because it cannot resume: {stop.window}"
            if stop.is_left
            else f"{job} would be stopped {when(stop.at, now)} for maintenance: {stop.window}"
        )
    lines += [
        f"{job} would borrow, and would no longer be within its project's share"
        for job in outlook.demoted
    ]
    lines += [f"{job} would be within its project's share" for job in outlook.promoted]
    return [line.replace(_NEVER, "") for line in lines]


def _end(by: str, reason: str | None) -> str:
    """Return how a running job would be stopped: for another job, or else for its `reason`."""
    return f"preempted for {by}" if by else reason or "stopped"


def _start(verdict: Verdict) -> str:
    from bastion.records.settings.notification import iso
    from bastion.scheduler.forecast.confidence import start_of
    from bastion.scheduler.plan import Wait

    if not isinstance(verdict, Wait) or verdict.estimated_at is None:
        return ""
    return f"; expected {iso(verdict.estimated_at)} ({start_of(verdict).sure_text})"


def _told(what: str, jobs: Iterable[str], why: Mapping[str, str]) -> list[str]:
    """Return a line for each job; tasks of one array share a line, with the reason of the first."""
    from bastion.scheduler.reasons.words import counted
    from bastion.spec import tasks_of_id

    groups: dict[str, list[str]] = {}
    for job in jobs:
        tasks = tasks_of_id(job)
        groups.setdefault(job if tasks is None else tasks[0], []).append(job)
    lines = []
    for name, members in groups.items():
        first = min(members, key=lambda job: (len(job), job))
        meant = name if members == [name] else f"{counted(len(members), 'task')} of {name}"
        lines.append(f"{meant} {what}{_because(why.get(first))}")
    return lines


def _because(reason: str | None) -> str:
    return f": {reason}" if reason else ""
