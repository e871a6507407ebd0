"""
Order: which waiting gang is looked at next.

Gangs of equal user and shape stand in one `Line`: what is found out about the first of them holds
for all, so ten thousand equal jobs cost little more than one. Inside a project lines are merged by
rank (priority, then the order policy), usage of the user where that counts, and submission; ties by
name. Among
projects of equal score the one whose next gang was submitted first comes first; ties by name. A
user or project falls back as soon as a gang of it is admitted, so one cycle from nothing divides
fairly too.

It must not know capacity.
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
"""(priority, what the order policy says of it): the lowest goes first."""
Key = tuple[Rank, float, float, str]
"""(rank, usage of its user, submitted, name)"""

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
"""Of an entry: all that decides which goes first in a line."""


def age_of(entry: Entry) -> tuple[float, str]:
    """By which what has waited longest goes first."""
    return entry.queued_at, entry.gang[0].id


def ids_of(gang: Sequence[JobRecord]) -> Ids:
    """Of its jobs."""
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
        """All that wait when a cycle begins."""
        self.gangs = self.entries
        """All but those that were served out of order; replaced, never changed."""
        self.at = 0

    def begin(self) -> None:
        """Be as at the beginning of a cycle."""
        self.gangs = self.entries
        self.at = 0

    def renew(self, entries: list[Entry]) -> None:
        """Let other gangs wait here."""
        self.entries = self.gangs = entries

    def with_only(self, entries: list[Entry]) -> Line:
        """Such a line in which these gangs wait."""
        line = Line(self.own_key, self.shape)
        line.renew(entries)
        return line

    @property
    def is_whole(self) -> bool:
        """Whether all that waited here when the cycle began still do."""
        return not self.at and self.gangs is self.entries

    @property
    def first(self) -> Entry:
        """The first that is still waiting, with its place."""
        return self.gangs[self.at]

    @property
    def head(self) -> Gang:
        """The first that is still waiting."""
        return self.gangs[self.at].gang

    @property
    def is_over(self) -> bool:
        """Whether no gang in it waits any more."""
        return self.at >= len(self.gangs)

    def has(self, gang: Gang) -> bool:
        """Whether `gang` waits here."""
        return any(entry.gang is gang for entry in self.waiting)

    def remove(self, gang: Gang) -> None:
        """Take `gang` out: something was done for it out of order."""
        self.gangs = [entry for entry in self.gangs if entry.gang is not gang]

    @property
    def waiting(self) -> list[Entry]:
        """All that still wait."""
        return self.gangs[self.at :]


class _Row:
    """The lines of one user whose heads are of one rank, by age: they fall back together."""

    def __init__(self, rank: Rank, user: str, number: int) -> None:
        self.rank = rank
        self.user = user
        self.number = number
        self.heap: list[tuple[float, str, Line]] = []
        self.known: Key | None = None
        """By which it stands in the queue: its key, or an earlier one."""


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
        """Every row by what it is `known` by, and by some of its keys of before it."""
        for row in self._rows.values():
            heapify(row.heap)
            row.known = self._key(row)
            self._heap.append((row.known, row.number, row))
        heapify(self._heap)

    def _file(self, line: Line) -> _Row:
        """Put `line` into its row, at the end."""
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
        """The row in which the next line stands, at the top of the heap."""
        heap = self._heap
        while heap:
            known, number, row = heap[0]
            if known is not row.known:
                heappop(heap)
                continue
            key = self._key(row)
            if key == known:
                return row
            row.known = key  # its user got something since: usage only grows
            heapreplace(heap, (key, number, row))
        return None

    @property
    def next_submitted_at(self) -> float:
        """When the gang that is next was submitted; infinite when there is none."""
        row = self._foremost()
        return inf if row is None else row.heap[0][0]

    @property
    def first(self) -> Line | None:
        """The line whose head is next; None when there is none."""
        row = self._foremost()
        return None if row is None else row.heap[0][2]

    def pass_over(self) -> None:
        """Take out the first line: nothing can be done for its head."""
        row = self._heap[0][2]
        heappop(row.heap)
        self._renew_first(row)

    def serve(self, usage: float) -> None:
        """The head of the first line is served, and its user has `usage` more."""
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
        """Let `row`, at the top of the heap, stand where it belongs now."""
        if row.heap:
            row.known = self._key(row)
            heapreplace(self._heap, (row.known, row.number, row))
        else:
            row.known = None
            heappop(self._heap)


Score = float | tuple[float, ...]
"""Of a project: the lowest goes first. Of those in groups first that of the outermost group."""


class Projects:
    """
    Projects with a queue, the one with the lowest score first; scores only grow.

    Of equal ones that whose next gang was submitted first comes first; then by name.
    """

    def __init__(self, submitted_at: Mapping[str, float], score: Callable[[str], Score]) -> None:
        self._score = score
        self._heap = [(score(name), at, name) for name, at in submitted_at.items()]
        heapify(self._heap)
        self._taken: Score = 0.0
        """The score of the one that was taken out last."""

    def turns(self, queue_of: Callable[[str], Queue]) -> Iterator[tuple[Queue, Line]]:
        """
        Every line that is next, with the queue of its project, which serves it or passes it over.

        A project that was served takes part again by its score of now. One that was not goes on
        with its next line, unless another of the same score has a gang that was submitted earlier.
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
        """The next project, taken out; None when there is none."""
        while self._heap:
            known, submitted_at, name = heappop(self._heap)
            score = self._score(name) if isinstance(known, tuple) else known
            if score == known:
                self._taken = score
                return name
            heappush(
                self._heap, (score, submitted_at, name)
            )  # another of its group got something since
        return None

    def _comes_after(self, name: str, submitted_at: float) -> bool:
        """Whether another is before `name`, taken out last and given nothing, by its next gang."""
        return bool(self._heap) and self._heap[0] < (self._taken, submitted_at, name)

    def _put(self, name: str, submitted_at: float) -> None:
        """Let it take part again, by its score of now and its next gang."""
        heappush(self._heap, (self._score(name), submitted_at, name))


def first_asked(lines: Iterable[Line]) -> float:
    """When the first of all that wait in `lines` was submitted; infinite when none does."""
    heads = [line.gangs[line.at] for line in lines if line.at < len(line.gangs)]
    return min([head.submitted_at for head in heads], default=inf)


def stand(gang: Gang, shapes: Shapes, rank: Callable[[Gang], Rank]) -> Standing:
    """In which line `gang` stands, and where."""
    first, shape = gang[0], shapes.of(gang)
    key = LineKey(first.project, first.user, id(shape), first.fail_when_busy)
    name = first.id if first.task is None else first.sort_name
    entry = Entry(rank(gang), first.submitted_at, name, gang, first.queued_at)
    return Standing(key, shape, entry)


def of_head(line: Line) -> tuple[Rank, float, str]:
    """By which a line that is not empty stands among the lines of its project."""
    place: tuple[Rank, float, str] = place_of(line.entries[0])
    return place


def usage_of(decayed: Mapping[tuple[str, str], float], project: str) -> dict[str, float]:
    """Decayed usage of the users of `project`."""
    return {user: seconds for (name, user), seconds in decayed.items() if name == project}
