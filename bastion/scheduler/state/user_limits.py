"""
Limits of users: which waiting gangs may start beside what their user has already.

Rules: the gangs of a user are counted in their order, those with a promise or a planned start
first. A gang that fits is counted although it may not start in this cycle: smaller ones behind it
must not take its place for ever. Nothing that runs is stopped when a limit is cut.

It must not know capacity.

Source: Slurm, association limits GrpTRES and MaxJobs of a user.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import NamedTuple

from bastion.scheduler.queue.order import Standing, place_of
from bastion.scheduler.queue.shape import Shape
from bastion.scheduler.reasons.reason import OverUserLimit
from bastion.scheduler.state.running import Running
from quota.amounts import NOTHING, Amounts
from quota.limits import RUNNING
from quota.tree import Quota


def over_user_limits(
    quota: Quota,
    standing: Iterable[Standing],
    running: Iterable[Running],
    asks: Callable[[Shape], Amounts],
    first: Collection[str],
) -> Mapping[str, OverUserLimit]:
    """
    The waiting jobs that would break a limit of their user, and which one.

    Args:
        quota: In force.
        standing: Every waiting gang that could ever run.
        running: Everything that holds devices, what is being stopped too.
        asks: What a gang of a shape is charged.
        first: Gangs with a promise or a planned start, by the name of their first job.
    """
    limited = {name for name, project in quota.projects.items() if project.has_user_limits}
    if not limited:
        return {}
    usage = _usage(running)
    counted = dict(usage)
    mine = [each for each in standing if each[1][0] in limited]
    mine.sort(key=lambda each: (each[0].id not in first, place_of(each[3])))
    found: dict[str, OverUserLimit] = {}
    for _, (project, user, *_), shape, (_, _, _, gang, _) in mine:
        now = usage.get((project, user), _IDLE)
        has = counted.get((project, user), _IDLE)
        asked = asks(shape)
        limits = quota.projects[project].limits_of(user)
        over = limits.exceeded(has.held, asked, running=has.jobs, jobs=len(gang))
        if over is None:
            counted[project, user] = _Usage(has.held + asked, has.jobs + len(gang))
            continue
        held = now.jobs if over.limit == RUNNING else now.held[over.limit]
        reason = OverUserLimit(
            project=project,
            user=user,
            limit=over.limit,
            asked=over.asked,
            held=held,
            ahead=over.held - held,
            most=over.most,
        )
        found.update({job.id: reason for job in gang})
    return found


class _Usage(NamedTuple):
    held: Amounts
    jobs: int


_IDLE = _Usage(NOTHING, 0)


def _usage(running: Iterable[Running]) -> dict[tuple[str, str], _Usage]:
    """(project, user) -> what the user has in it."""
    found: dict[tuple[str, str], _Usage] = {}
    for each in running:
        held, jobs = found.get((each.project, each.user), _IDLE)
        found[each.project, each.user] = _Usage(held + each.held, jobs + len(each.jobs))
    return found
