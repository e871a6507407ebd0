"""
Limits of users: which waiting gangs may start beside what their user already has.

The gangs of a user are counted in order, gangs with a promise or a planned start first. A gang that
fits is counted even if it may not start in this cycle: smaller ones behind it must not take its
place forever. Running jobs are not stopped when a limit is cut.

This module must not know capacity.

Source: Slurm, association limits GrpTRES and MaxJobs of a user.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from typing import NamedTuple

from bastion.scheduler.queue.eligibility import LineAside
from bastion.scheduler.queue.order import Entry, Line, place_of
from bastion.scheduler.queue.shape import Shape
from bastion.scheduler.reasons.reason import OverUserLimit
from bastion.scheduler.state.holders.running import Running
from quota.amounts import NOTHING, Amounts
from quota.limits import RUNNING, Exceeded
from quota.tree import Quota

User = tuple[str, str]
"""(project, user)"""

Waiting = tuple[Entry, Line]
"""A waiting gang and its line."""


class UserLimits:
    """
    The limits of users, and the waiting gangs of users who have any.

    Args:
        quota: In force.
        waiting: Every waiting gang that could ever run, line by line.
        running: Everything that holds devices, including what is being stopped.
        asks: Returns the charge of a gang of a shape.
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
        self.over: set[str] = set()
        """Gangs that are `kept_out`, by the name of their first job."""

    def waiting(self, user: User) -> int:
        """Return how many gangs of `user` wait; 0 if the user has no limit."""
        return sum(len(entries) for _, entries in self._waiting.get(user, ()))

    def kept_out(self) -> Iterable[LineAside]:
        """Return the waiting gangs that would exceed a limit beside running ones, and which."""
        found: dict[tuple[int, int], LineAside] = {}
        for user in sorted(self._waiting):
            if self._has_room_for_all(user):
                continue
            for (entry, line), reason in self._judged(user, self._usage.get(user, _IDLE)):
                if reason is None:
                    continue
                if (id(line), id(reason)) not in found:
                    found[id(line), id(reason)] = LineAside(line, [], reason)
                found[id(line), id(reason)].entries.append(entry)
                self.over.add(entry.gang[0].id)
        return found.values()

    def let_in(self, user: User, spare: Amounts) -> Iterator[Waiting]:
        """Return the waiting gangs of `user` within limits once running ones have `spare` less."""
        held, jobs = self._usage.get(user, _IDLE)
        judged = self._judged(user, _Usage(held - spare, jobs))
        return (each for each, reason in judged if reason is None)

    def _has_room_for_all(self, user: User) -> bool:
        """Whether no limit is exceeded if all waiting gangs of `user` start together."""
        project, name = user
        waiting, has = self._waiting[user], self._usage.get(user, _IDLE)
        asked = Amounts.sum(self._asks(line.shape) * len(entries) for line, entries in waiting)
        jobs = sum([len(entry.gang) for _, entries in waiting for entry in entries])
        limits = self._quota.projects[project].limits_of(name)
        return limits.exceeded(has.held, asked, running=has.jobs, jobs=jobs) is None

    def _sorted(self, user: User) -> Sequence[Waiting]:
        if user not in self._in_order:
            lines = self._waiting.get(user, ())
            found = [(entry, line) for line, entries in lines for entry in entries]
            self._in_order[user] = sorted(found, key=self._place)
        return self._in_order[user]

    def _place(self, each: Waiting) -> tuple[bool, object]:
        entry, _ = each
        return entry.gang[0].id not in self._first, place_of(entry)

    def _judged(self, user: User, now: _Usage) -> Iterator[tuple[Waiting, OverUserLimit | None]]:
        """Yield the waiting gangs of `user` in order, with the limit that each would exceed."""
        project, name = user
        limits, has = self._quota.projects[project].limits_of(name), now
        known: dict[tuple[int, int], OverUserLimit | None] = {}
        """(form, jobs) -> the limit a gang would exceed beside what `has` now."""
        for each in self._sorted(user):
            entry, line = each
            key = line.shape.form, len(entry.gang)
            if key not in known:
                asked = self._asks(line.shape)
                over = limits.exceeded(has.held, asked, running=has.jobs, jobs=key[1])
                known[key] = None if over is None else _told(user, over, now)
            reason = known[key]
            yield each, reason
            if reason is None:
                has = _Usage(has.held + self._asks(line.shape), has.jobs + key[1])
                known.clear()


class _Usage(NamedTuple):
    held: Amounts
    jobs: int


_IDLE = _Usage(NOTHING, 0)


def _told(user: User, over: Exceeded, now: _Usage) -> OverUserLimit:
    held = now.jobs if over.limit == RUNNING else now.held[over.limit]
    return OverUserLimit(
        project=user[0],
        user=user[1],
        limit=over.limit,
        asked=over.asked,
        held=held,
        ahead=over.held - held,
        most=over.most,
    )


def _usage(running: Iterable[Running]) -> dict[User, _Usage]:
    """Return what each user has in each project."""
    found: dict[User, _Usage] = {}
    for each in running:
        held, jobs = found.get((each.project, each.user), _IDLE)
        found[each.project, each.user] = _Usage(held + each.held, jobs + len(each.jobs))
    return found
