"""
`Memory`: what one cycle leaves for the next: what is held, and which jobs wait in which line.

Most records are the same values as in the previous cycle, so what was computed from them is still
valid. A cycle starts with what has changed, and updates only that. A caller that decides repeatedly
passes the same memory each time; forgetting it costs time and changes nothing else.

Everything here follows from records, machines and the quota file, and is used only while these are
the same. What a cycle decides leaves no trace: it is undone at the end, and if a cycle did not
complete, the next starts from nothing.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Sequence
from itertools import chain

from bastion.changes import changes
from bastion.job import JobRecord, Phase
from bastion.scheduler.queue.forms import Forms
from bastion.scheduler.queue.lines import Lines
from bastion.scheduler.queue.order import (
    Entry,
    Gang,
    Ids,
    Line,
    Rank,
    Standing,
    ids_of,
    place_of,
    stand,
)
from bastion.scheduler.queue.shape import Shapes
from bastion.scheduler.snapshot import Snapshot
from bastion.scheduler.state.memory.known_walls import KnownWalls
from bastion.scheduler.state.memory.occupancy import Occupancy
from bastion.scheduler.state.memory.policy_choice import Parts
from bastion.scheduler.state.memory.standstill import Standstill
from quota.tree import Quota

PART_THAT_MAY_MOVE = 8
"""If one gang in this many is added or removed, lines are made from nothing: that is faster."""


class Memory:
    """
    What earlier cycles found out. Not thread-safe.

    One in `check_every` cycles is compared with one that starts from nothing; 0: none.
    """

    def __init__(self, *, check_every: int = 0) -> None:
        self.problems: list[str] = []
        """Where a comparison found a difference: the kept state was wrong."""
        self._check_every, self._cycles = check_every, 0
        self._quota: Quota | None = None
        self._parts: Parts | None = None
        self._now = 0.0
        self.occupancy: Occupancy
        """What is held, during a cycle and after it."""
        self._is_open = False
        """Whether a cycle has begun and has not completed."""
        self.standstill: Standstill | None = None
        """The plan of the last cycle, if it changed nothing: it may be valid once more."""

    def skip(self) -> None:
        """Count a cycle that needed no work: the last plan is still valid."""
        self._cycles += 1

    def _forget(self, snapshot: Snapshot) -> None:
        self.shapes = Shapes(snapshot.quota)
        self.lines = Lines()
        """What waits, in order."""
        self.forms: dict[str, Forms] = {}
        """For projects for which the last cycle did nothing: how their lines were collected."""
        self.quota_walls = KnownWalls()
        """What the quota said against waiting gangs."""
        self.ready: dict[str, Standing] = {}
        """Jobs that wait on their own, blocked by nothing except what the cycle may find."""
        self.unsure: dict[str, JobRecord] = {}
        """The other waiting jobs: gangs, and jobs that may be set aside."""
        self.failing: dict[str, JobRecord] = {}
        """Jobs whose whole launch is stopped."""
        self._jobs: dict[str, JobRecord] = {}
        """Of the last cycle."""
        self._gone: list[Standing] = []
        self._come: list[Standing] = []
        self._passing: Sequence[Standing] = []
        """Those in line that were not `ready`; `_are_in_line`: beside these, all that were."""
        self._are_in_line = False
        self.limits_users = any(each.has_user_limits for each in snapshot.quota.projects.values())
        """Whether the quota file limits any user."""

    def begin(self, snapshot: Snapshot, parts: Parts, now: float) -> Occupancy:
        """Begin a cycle with what may be reused; an earlier time than before forgets all."""
        is_same = (
            snapshot.quota is self._quota
            and parts == self._parts
            and now >= self._now
            and not self._is_open
            and len(self.shapes) <= 2 * len(snapshot.jobs) + 1_000
        )
        if not is_same or not self.occupancy.stands(snapshot):
            self._forget(snapshot)
            self.occupancy = Occupancy(snapshot, now)
        self._quota, self._parts, self._now = snapshot.quota, parts, now
        self._is_open = True
        self._cycles += 1
        return self.occupancy

    def end(self) -> None:
        """End a cycle: its decisions are undone."""
        self.occupancy.capacity.end_cycle()
        self._is_open = False

    def take_in(self, snapshot: Snapshot) -> set[str]:
        """Update everything with the jobs of `snapshot`; return projects where jobs changed."""
        jobs = snapshot.jobs
        before, self._jobs = self._jobs, dict(jobs)  # a caller may change its own
        moved = changes(before, self._jobs)
        gone = [before[name] for name in moved.gone]
        come = [jobs[name] for name in (sorted(moved.come) if before else moved.come)]
        self._come = []
        self._gone = [self.ready.pop(job.id) for job in gone if job.id in self.ready]
        for job in gone:
            self.unsure.pop(job.id, None)
            self.failing.pop(job.id, None)
        begun = []
        for job in come:
            if job.phase is Phase.QUEUED:
                self.unsure[job.id] = job
            else:
                begun.append(job)
            if job.launch_scope and job.is_failing:
                self.failing[job.id] = job
        return self.occupancy.update(jobs, gone, begun, self.shapes)

    def keep_ready(self, new: list[Standing]) -> list[Standing]:
        """Keep those of `new` that wait on their own; return the others."""
        self._come = [each for each in new if not each.entry.gang[0].gang]
        for each in self._come:
            name = each.entry.gang[0].id
            self.ready[name] = each
            del self.unsure[name]
        return [each for each in new if each.entry.gang[0].gang]

    def line_up(self, others: Sequence[Standing]) -> Lines:
        """Put all that are ready, and the `others`, in line for this cycle."""
        gone, come = [*self._gone, *self._passing], [*self._come, *others]
        if self._are_in_line and (len(gone) + len(come)) * PART_THAT_MAY_MOVE <= len(self.ready):
            self.lines.change(gone, come)
        else:
            self.lines.make(chain(self.ready.values(), others))
        self._passing, self._are_in_line = others, True
        return self.lines

    def waiting(self, ids: Ids, rank: Callable[[Gang], Rank]) -> tuple[Line, Entry] | None:
        """Return the waiting gang of exactly the jobs `ids` with its line; its `rank` as there."""
        known = self.ready.get(ids[0]) if len(ids) == 1 else None
        if known is None:
            gang = tuple([self._jobs[name] for name in ids if name in self._jobs])
            if len(gang) < len(ids):
                return None
            known = stand(gang, self.shapes, rank)
        line = self.lines.get(known.key)
        if line is None:
            return None
        at = bisect_left(line.gangs, place_of(known.entry), key=place_of)
        if at == len(line.gangs) or ids_of(line.gangs[at].gang) != ids:
            return None
        return line, line.gangs[at]

    def line_up_only(self, standing: Iterable[Standing]) -> Lines:
        """Put only these in line, for this cycle."""
        self.lines.make(standing)
        self._are_in_line = False
        return self.lines

    def told_problems(self) -> list[str]:
        """Differences that were found since this was asked last."""
        found, self.problems = self.problems, []
        return found

    @property
    def is_next_checked(self) -> bool:
        """Whether the cycle that begins next is to be compared with one from nothing."""
        return self._check_every > 0 and (self._cycles + 1) % self._check_every == 0

    @property
    def is_check_due(self) -> bool:
        """Whether this cycle is to be compared with one that begins from nothing."""
        return self._check_every > 0 and self._cycles % self._check_every == 0
