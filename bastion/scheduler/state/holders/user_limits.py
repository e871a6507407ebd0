"""
Limits of users: which waiting gangs may start beside what their user has already.

Rules: the gangs of a user are counted in their order, those with a promise or a planned start
first. A gang that fits is counted although it may not start in this cycle: smaller ones behind it
must not take its place for ever. Nothing that runs is stopped when a limit is cut.

It must not know capacity.

Source: Slurm, association limits GrpTRES and MaxJobs of a user.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from bastion.scheduler.queue.order import Entry, Line, place_of
from bastion.scheduler.queue.shape import Shape
from bastion.scheduler.reasons.reason import OverUserLimit
from bastion.scheduler.state.holders.running import Running
from quota.amounts import NOTHING, Amounts
from quota.limits import RUNNING
from quota.tree import Quota

User = tuple[str, str]
"""(project, user)"""


class Waiting(NamedTuple):
    """A waiting gang, and what it asks for."""

    entry: Entry
    shape: Shape


class UserLimits:
    """
    The limits of users, and the waiting gangs of those who have any.

    Args:
        quota: In force.
        waiting: Every waiting gang that could ever run, line by line.
        running: Everything that holds devices, what is being stopped too.
        asks: What a gang of a shape is charged.
        first: Gangs with a promise or a planned start, by the name of their first job.
    """

    def __init__(
        self,
        quota: Quota,
        waiting: Iterable[tuple[Line, Sequence[Entry]]],
        running: Iterable[Running],
        asks: Callable[[Shape], Amounts],
        first: Collection[str],
    ) -> None:
        limited = {name for name, project in quota.projects.items() if project.has_user_limits}
        self._quota, self._asks = quota, asks
        self._usage = _usage(running) if limited else {}
        self._waiting: dict[User, list[tuple[Line, Sequence[Entry]]]] = {}
        for line, entries in waiting if limited else ():
            if line.project in limited:
                self._waiting.setdefault((line.project, line.user), []).append((line, entries))
        self._first = first
        self._in_order: dict[User, Sequence[Waiting]] = {}

    def waiting(self, user: User) -> int:
        """How many gangs of `user` wait; 0 where the user has no limit."""
        return sum(len(entries) for _, entries in self._waiting.get(user, ()))

    def kept_out(self) -> Mapping[str, OverUserLimit]:
        """The waiting jobs that would break a limit beside what runs, and which one."""
        return {
            job.id: reason
            for user in sorted(self._waiting)
            if not self._has_room_for_all(user)
            for each, reason in self._judged(user, self._usage.get(user, _IDLE))
            if reason is not None
            for job in each.entry.gang
        }

    def let_in(self, user: User, spare: Amounts) -> Iterator[Waiting]:
        """The waiting gangs of `user` that break no limit once what runs has `spare` less."""
        held, jobs = self._usage.get(user, _IDLE)
        judged = self._judged(user, _Usage(held - spare, jobs))
        return (each for each, reason in judged if reason is None)

    def _has_room_for_all(self, user: User) -> bool:
        """Whether no limit is broken if all that waits of `user` starts at once."""
        project, name = user
        waiting, has = self._waiting[user], self._usage.get(user, _IDLE)
        asked = Amounts.sum(self._asks(line.shape) * len(entries) for line, entries in waiting)
        jobs = sum(len(entry.gang) for _, entries in waiting for entry in entries)
        limits = self._quota.projects[project].limits_of(name)
        return limits.exceeded(has.held, asked, running=has.jobs, jobs=jobs) is None

    def _sorted(self, user: User) -> Sequence[Waiting]:
        if user not in self._in_order:
            first, lines = self._first, self._waiting.get(user, ())
            found = [Waiting(entry, line.shape) for line, entries in lines for entry in entries]
            found.sort(key=lambda each: (each.entry.gang[0].id not in first, place_of(each.entry)))
            self._in_order[user] = found
        return self._in_order[user]

    def _judged(self, user: User, now: _Usage) -> Iterator[tuple[Waiting, OverUserLimit | None]]:
        """The waiting gangs of `user` in order, with the limit that each would break."""
        project, name = user
        limits, has = self._quota.projects[project].limits_of(name), now
        for each in self._sorted(user):
            asked, jobs = self._asks(each.shape), len(each.entry.gang)
            over = limits.exceeded(has.held, asked, running=has.jobs, jobs=jobs)
            if over is None:
                has = _Usage(has.held + asked, has.jobs + jobs)
                yield each, None
                continue
            held = now.jobs if over.limit == RUNNING else now.held[over.limit]
            yield (
                each,
                OverUserLimit(
                    project=project,
                    user=name,
                    limit=over.limit,
                    asked=over.asked,
                    held=held,
                    ahead=over.held - held,
                    most=over.most,
                ),
            )


class _Usage(NamedTuple):
    held: Amounts
    jobs: int


_IDLE = _Usage(NOTHING, 0)


def _usage(running: Iterable[Running]) -> dict[User, _Usage]:
    """What each user has in each project."""
    found: dict[User, _Usage] = {}
    for each in running:
        held, jobs = found.get((each.project, each.user), _IDLE)
        found[each.project, each.user] = _Usage(held + each.held, jobs + len(each.jobs))
    return found
