"""
New jobs that only join a line: they wait behind an equal one for which nothing could be done.

What a cycle finds out about the first of a line holds for all of it, so it looks at no job behind.
That one more waits there still counts in three ways: a project claims more of its own share for
it, an estimate may come to it, and one day it will have waited for long.

It must not know what the cycle did.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from dataclasses import replace

from bastion.job import JobRecord, Phase
from bastion.scheduler.forecast.estimate import MAX_STARTS
from bastion.scheduler.plan import Plan, Verdicts, Wait
from bastion.scheduler.queue.order import Entry, Line, LineKey, place_of, stand
from bastion.scheduler.queue.positions import Crowd, Row
from bastion.scheduler.reasons.reason import WaitsFor
from bastion.scheduler.snapshot import Snapshot
from bastion.scheduler.state.draft import Draft
from quota.amounts import Amounts


class Joining:
    """
    The lines as a cycle left them; good until the next begins.

    Args:
        draft: At its end.
        tells: Whether waiting jobs have verdicts.
    """

    def __init__(self, draft: Draft, *, tells: bool) -> None:
        self._shapes, self._order, self._tells = draft.shapes, draft.parts.order, tells
        self._blocked = draft.blocked
        self._is_open = not (draft.memory.failing or draft.memory.limits_users)
        """Whether each job is in the queue by its own record alone."""
        self._lines: dict[LineKey, Line | None] | None = None

    def __call__(self, plan: Plan, job: JobRecord, snapshot: Snapshot, now: float) -> Plan | None:
        """`plan` with `job`, which has come since; None where it takes a cycle to find out."""
        if not (self._is_open and _is_ready(job, now)):
            return None
        rank = self._order.rank(snapshot, now)
        _, key, _, entry = stand((job,), self._shapes, rank)
        line = self._line(key)
        if line is None or not place_of(line.waiting[0]) < place_of(entry):
            return None
        if not self._claims_stand(line, snapshot, plan, now):
            return None
        if self._tells:
            verdicts = self._told(plan.verdicts, line, entry)
            if verdicts is None or not _is_beyond_estimates(line, entry, plan, snapshot):
                return None
            plan = replace(plan, verdicts=verdicts)
        aged_at = job.queued_at + snapshot.quota.scheduler.plan_after_s
        if aged_at > now and (plan.wake_at is None or aged_at < plan.wake_at):
            plan = replace(plan, wake_at=aged_at)
        return plan

    def _line(self, key: LineKey) -> Line | None:
        """The line where a job with that key stands, if others of it wait and it is blocked."""
        if self._lines is None:
            self._lines = {}
            for line in self._blocked:
                its = line.project, line.user, id(line.shape), line.fail_when_busy
                is_whole = bool(line.entries) and not line.is_over and its not in self._lines
                self._lines[its] = line if is_whole else None  # some stand in a line of their own
        return self._lines.get(key)

    def _claims_stand(self, line: Line, snapshot: Snapshot, plan: Plan, now: float) -> bool:
        """
        Whether no project has less room for planned starts because one more waits in `line`.

        What a project waits for within its share is kept for it, as far as the share goes.
        """
        quota, project = snapshot.quota, line.project
        nominal = quota.projects[project].nominal
        if not (line.shape.takes_whole or line.shape.asked <= nominal):
            return True
        owners = {each.project for each in self._blocked}
        owners |= {snapshot.jobs[each.gang[0]].project for each in plan.planned}
        if owners == {project}:
            return True
        if line.shape.takes_whole or quota.groups:
            return False
        asked = line.shape.asked
        if nominal.only(asked) <= self._waited_for(project, nominal):
            return True  # it has claimed all of it already
        return not (self._tells or plan.planned or self._has_aged(snapshot, now))

    def _waited_for(self, project: str, nominal: Amounts) -> Amounts:
        """What gangs in line wait for that could each start within the project's share."""
        return Amounts.sum(
            (len(line.gangs) - line.at) * line.shape.asked
            for line in self._blocked
            if line.project == project
            and line.entries
            and not (line.fail_when_busy or line.shape.takes_whole)
            and line.shape.asked <= nominal
        )

    def _has_aged(self, snapshot: Snapshot, now: float) -> bool:
        """Whether any gang in line has waited for long enough to have a start planned."""
        since = now - snapshot.quota.scheduler.plan_after_s
        return any(line.gangs[line.at][4] <= since for line in self._blocked if not line.is_over)

    def _told(self, verdicts: Verdicts, line: Line, entry: Entry) -> Verdicts | None:
        """With one more that waits as those before it do; None where each is told on its own."""
        if _is_waited_for(verdicts, entry):
            return None
        first = line.waiting[0]
        for at, told in enumerate(verdicts.in_line):
            more = _longer(told, first, entry) if self._is_of(told, line) else None
            if more is not None:
                in_line = [*verdicts.in_line]
                in_line[at] = more
                return verdicts.with_lines(in_line)
        return None

    def _is_of(self, told: Crowd | Row, line: Line) -> bool:
        """Whether gangs like those of `line` may be among those told."""
        if isinstance(told, Row):
            return told.stretches[0].entries[0][3][0].project == line.project
        gang = next(told.entries())[3]
        return gang[0].project == line.project and self._shapes.of(gang).form == line.shape.form


def _is_ready(job: JobRecord, now: float) -> bool:
    """Whether its own record lets it stand in the queue, alone, and wait there."""
    return job.phase is Phase.QUEUED and not (
        job.gang
        or job.cancelled_by
        or job.held
        or job.after
        or job.not_before > now
        or job.fail_when_busy
        or (job.launch_scope and job.is_failing)
    )


def _is_waited_for(verdicts: Verdicts, entry: Entry) -> bool:
    """Whether what another job waits for now waits itself: then it is told so."""
    job = entry[3][0]
    names = {job.id, job.launch}
    return any(
        isinstance(verdict, Wait)
        and isinstance(verdict.reason, WaitsFor)
        and any(on in names for on, *_ in verdict.reason.on)
        for verdict in verdicts.decided.values()
    )


def _longer(told: Crowd | Row, first: Entry, entry: Entry) -> Crowd | Row | None:
    """With `entry` beside the line that begins with `first`; None where that is not among them."""
    if isinstance(told, Crowd):
        if not any(each is first for each in told.entries()):
            return None
        return Crowd(tails=[*told.tails, ((entry,), 0)], reason=told.reason)
    stretches = [*told.stretches]
    for at, stretch in enumerate(stretches):
        if stretch.entries[0] is first:
            entries = [*stretch.entries]
            insort(entries, entry, key=place_of)
            stretches[at] = stretch._replace(entries=entries)
            return Row(stretches=stretches)
    return None


def _is_beyond_estimates(line: Line, entry: Entry, plan: Plan, snapshot: Snapshot) -> bool:
    """Whether no future that was played through comes to the place of `entry` in `line`."""
    ahead = bisect_left(line.waiting, place_of(entry), key=place_of)
    is_reached = bool(snapshot.runs) or line.waiting[ahead - 1][3][0].id in plan.verdicts.starts
    return ahead >= MAX_STARTS or not is_reached
