"""What would happen, in lines for people."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from bastion.scheduler.whatif import Outlook


def outlook_lines(outlook: Outlook, now: float) -> list[str]:
    """
    A line for everything that would happen at once or be set in motion; none when nothing would.

    Args:
        outlook: What the scheduler would do.
        now: The time that reasons are relative to.
    """
    from bastion.client.busy import table
    from bastion.scheduler.plan import Refuse
    from bastion.scheduler.reason import text

    why = {job: text(verdict.reason, now) for job, verdict in outlook.verdicts}
    lines = [f"{job} would start now{_because(why.get(job))}" for job in outlook.starts]
    lines += [f"{job} would wait{_because(why.get(job))}" for job in outlook.waits]
    lines += [f"{job} would be refused{_because(why.get(job))}" for job in outlook.refused]
    for _, verdict in outlook.verdicts:
        lines += table(verdict.machines) if isinstance(verdict, Refuse) and verdict.machines else []
    lines += [f"{job} would be stopped for {by}" for job, by in outlook.stops]
    lines += [f"{job} would no longer stand on its project's share" for job in outlook.demoted]
    lines += [f"{job} would stand on its project's share" for job in outlook.promoted]
    return lines


def _because(reason: str | None) -> str:
    return f": {reason}" if reason else ""
