"""
Order: which waiting gang is considered next.

Gangs of equal user and shape form one `Line`. What is found for the first gang of a line holds for
all of them, so ten thousand equal jobs cost little more than one. Inside a project, lines are
merged by rank (priority, then the order policy), by the user's usage where that counts, and by
submission time; ties go by name. Among projects of equal score, the one whose next gang was
submitted first goes first; ties go by name. A user or project moves back as soon as one of its
gangs is admitted, so that one cycle from nothing divides fairly, too.

This module must not know capacity.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from heapq import heapify, heappop, heappush, heapreplace
from math import inf
from operator import itemgetter
from typing import NamedTuple

from bastion.job import JobRecord
from bastion.scheduler.queue.shape import Shape, Shapes

Gang = tuple[JobRecord, ...]
"""The waiting jobs that start together."""
Rank = tuple[float, float]
"""(priority, value of the order policy): the lowest goes first."""
Key = tuple[Rank, float, float, str]
"""(rank, usage of its user, submission time, name)"""

Ids = tuple[str, ...]
"""Of the jobs of a gang."""


class Entry(NamedTuple):
    """A waiting gang in its line."""

    rank: Rank
    submitted_at: float
    name: str
    gang: Gang
    queued_at: float


class LineKey(NamedTuple):
    """What the gangs of one line have in common."""

    project: str
    user: str
    shape_id: int
    """Identity of what each asks for."""
    fail_when_busy: bool


class Standing(NamedTuple):
    """A waiting gang: its line, and its place there."""

    key: LineKey
    shape: Shape
    entry: Entry


place_of = itemgetter(0, 1, 2)
"""Of an entry: everything that decides its place in a line."""


def age_of(entry: Entry) -> tuple[float, str]:
    """The sort key that puts the longest waiting first."""
    return entry.queued_at, entry.gang[0].id


def ids_of(gang: Sequence[JobRecord]) -> Ids:
    """Ids of its jobs."""
    return tuple(job.id for job in gang)


class Line:
    """Gangs of one user that ask for the same, in order."""

    def __init__(self, key: LineKey, shape: Shape) -> None:
        self.own_key = key
        self.project, self.user, _, self.fail_when_busy = key
        self.shape = shape
        self.key = self.project, id(shape)
        """Equal for lines that the same victims would serve."""
        self.entries: list[Entry] = []
        """All gangs that wait at the beginning of a cycle."""
        self.gangs = self.entries
        """All except those served out of order; replaced, never modified."""
        self.at = 0

    def begin(self) -> None:
        """Reset to the state at the beginning of a cycle."""
        self.gangs = self.entries
        self.at = 0

    def renew(self, entries: list[Entry]) -> None:
        """Replace the waiting gangs."""
        self.entries = self.gangs = entries

    def with_only(self, entries: list[Entry]) -> Line:
        """Return such a line with only these gangs."""
        line = Line(self.own_key, self.shape)
        line.renew(entries)
        return line

    @property
    def is_whole(self) -> bool:
        """Whether every gang that waited here at the beginning of the cycle still waits."""
        return not self.at and self.gangs is self.entries

    @property
    def first(self) -> Entry:
        """Return the first gang that still waits, with its place."""
        return self.gangs[self.at]

    @property
    def head(self) -> Gang:
        """Return the first gang that still waits."""
        return self.gangs[self.at].gang

    @property
    def is_over(self) -> bool:
        """Whether no gang in it waits any longer."""
        return self.at >= len(self.gangs)

    def has(self, gang: Gang) -> bool:
        """Whether `gang` waits here."""
        return any(entry.gang is gang for entry in self.waiting)

    def remove(self, gang: Gang) -> None:
        """Remove `gang`, which was served out of order."""
        self.gangs = [entry for entry in self.gangs if entry.gang is not gang]

    @property
    def waiting(self) -> list[Entry]:
        """Return all gangs that still wait."""
        return self.gangs[self.at :]


class _Row:
    """The lines of one user whose heads have one rank, by age: they move back together."""

    def __init__(self, rank: Rank, user: str, number: int) -> None:
        self.rank = rank
        self.user = user
        self.number = number
        self.heap: list[tuple[float, str, Line]] = []
        self.known: Key | None = None
        """Its sort key in the queue: the current one, or an earlier one."""


class Queue:
    """The lines of one project, merged."""

    def __init__(self, lines: list[Line], usage: dict[str, float], *, between_users: bool) -> None:
        self._usage = usage if between_users else {}
        self._between_users = between_users
        self._rows: dict[tuple[Rank, str], _Row] = {}
        for line in lines:
            if line.at < len(line.gangs):
                self._file(line)
        self.served = 0
        """How many heads of its lines were served."""
        self._heap: list[tuple[Key, int, _Row]] = []
        """Every row, by the key it is `known` by and by some of its earlier keys."""
        for row in self._rows.values():
            heapify(row.heap)
            row.known = self._key(row)
            self._heap.append((row.known, row.number, row))
        heapify(self._heap)

    def _file(self, line: Line) -> _Row:
        """Put `line` at the end of its row."""
        rank, submitted_at, name, _, _ = line.gangs[line.at]
        user = line.user if self._between_users else ""
        row = self._rows.get((rank, user))
        if row is None:
            row = self._rows[rank, user] = _Row(rank, user, len(self._rows))
        row.heap.append((submitted_at, name, line))
        return row

    def _key(self, row: _Row) -> Key:
        submitted, name, _ = row.heap[0]
        return row.rank, self._usage.get(row.user, 0.0), submitted, name

    def _foremost(self) -> _Row | None:
        """Return the row of the next line, at the top of the heap."""
        heap = self._heap
        while heap:
            known, number, row = heap[0]
            if known is not row.known:
                heappop(heap)
                continue
            key = self._key(row)
            if key == known:
                return row
            row.known = key  # its user's usage grew since; usage only grows
            heapreplace(heap, (key, number, row))
        return None

    @property
    def next_submitted_at(self) -> float:
        """Return when the next gang was submitted; infinity if there is none."""
        row = self._foremost()
        return inf if row is None else row.heap[0][0]

    @property
    def first(self) -> Line | None:
        """Return the line whose head is next; None if there is none."""
        row = self._foremost()
        return None if row is None else row.heap[0][2]

    def pass_over(self) -> None:
        """Remove the first line: nothing can be done for its head."""
        row = self._heap[0][2]
        heappop(row.heap)
        self._renew_first(row)

    def serve(self, usage: float) -> None:
        """Serve the head of the first line, and add `usage` to its user."""
        self.served += 1
        row = self._heap[0][2]
        line = heappop(row.heap)[2]
        line.at += 1
        if self._between_users:
            self._usage[line.user] = self._usage.get(line.user, 0.0) + usage
        into = row
        if line.at < len(line.gangs):
            into = self._file(line)
            heappush(into.heap, into.heap.pop())
        self._renew_first(row)
        if into is not row and into.heap[0][2] is line:
            into.known = self._key(into)
            heappush(self._heap, (into.known, into.number, into))

    def _renew_first(self, row: _Row) -> None:
        """Move `row`, at the top of the heap, to its current place."""
        if row.heap:
            row.known = self._key(row)
            heapreplace(self._heap, (row.known, row.number, row))
        else:
            row.known = None
            heappop(self._heap)


Score = float | tuple[float, ...]
"""Of a project: the lowest goes first. In groups, the outermost group's score counts first."""


class Projects:
    """
    Projects with a queue, the one with the lowest score first; scores only grow.

    Of equal ones, the project whose next gang was submitted first goes first; then by name.
    """

    def __init__(self, submitted_at: Mapping[str, float], score: Callable[[str], Score]) -> None:
        self._score = score
        self._heap = [(score(name), at, name) for name, at in submitted_at.items()]
        heapify(self._heap)
        self._taken: Score = 0.0
        """The score of the project that was removed last."""

    def turns(self, queue_of: Callable[[str], Queue]) -> Iterator[tuple[Queue, Line]]:
        """
        Yield every next line with the queue of its project; the caller serves it or passes it over.

        A project that was served takes part again with its current score. One that was not
        continues with its next line, unless another project of the same score has an earlier gang.
        """
        while (name := self._pop()) is not None:
            queue = queue_of(name)
            while (line := queue.first) is not None:
                if self._comes_after(name, line.first.submitted_at):
                    self._put(name, line.first.submitted_at)
                    break
                served = queue.served
                yield queue, line
                if queue.served > served:
                    self._put(name, queue.next_submitted_at)
                    break

    def _pop(self) -> str | None:
        """Remove and return the next project; None if there is none."""
        while self._heap:
            known, submitted_at, name = heappop(self._heap)
            score = self._score(name) if isinstance(known, tuple) else known
            if score == known:
                self._taken = score
                return name
            heappush(
                self._heap, (score, submitted_at, name)
            )  # another project of its group was served since
        return None

    def _comes_after(self, name: str, submitted_at: float) -> bool:
        """Whether another project precedes `name`, just removed and not served."""
        return bool(self._heap) and self._heap[0] < (self._taken, submitted_at, name)

    def _put(self, name: str, submitted_at: float) -> None:
        """Let the project take part again, by its current score and its next gang."""
        heappush(self._heap, (self._score(name), submitted_at, name))


def first_asked(lines: Iterable[Line]) -> float:
    """Return when the first gang of `lines` was submitted; infinity if no gang waits."""
    heads = [line.gangs[line.at] for line in lines if line.at < len(line.gangs)]
    return min([head.submitted_at for head in heads], default=inf)


def stand(gang: Gang, shapes: Shapes, rank: Callable[[Gang], Rank]) -> Standing:
    """Return the line of `gang`, and its place in it."""
    first, shape = gang[0], shapes.of(gang)
    key = LineKey(first.project, first.user, id(shape), first.fail_when_busy)
    name = first.id if first.task is None else first.sort_name
    entry = Entry(rank(gang), first.submitted_at, name, gang, first.queued_at)
    return Standing(key, shape, entry)


def of_head(line: Line) -> tuple[Rank, float, str]:
    """Return the key by which a nonempty line is sorted among the lines of its project."""
    place: tuple[Rank, float, str] = place_of(line.entries[0])
    return place


def usage_of(decayed: Mapping[tuple[str, str], float], project: str) -> dict[str, float]:
    """Return the decayed usage of the users of `project`."""
    return {user: seconds for (name, user), seconds in decayed.items() if name == project}
