"""
Order: which waiting gang is looked at next.

Gangs of equal user and shape stand in one `Line`: what is found out about the first of them holds
for all, so ten thousand equal jobs cost little more than one. Inside a project lines are merged by
the order policy, then fairness between users or the first to ask, then age; ties by name. Whoever
is admitted falls back at once, so one cycle from nothing divides fairly too.

It must not know capacity.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from heapq import heapify, heappop, heappush

from bastion.job import JobRecord
from bastion.scheduler.shape import Shape, Shapes

Gang = tuple[JobRecord, ...]
"""The waiting jobs that start together."""
Rank = Callable[[Gang], float]
"""What an order policy says of a gang: the lowest goes first."""
Entry = tuple[float, float, str, Gang]
"""(rank, submitted, name, gang)"""
Key = tuple[float, float, float, str]
"""(rank, usage of its user, submitted, name)"""


class Line:
    """Gangs of one user that ask for the same, in order."""

    __slots__ = ("at", "gangs", "project", "shape", "user")

    def __init__(self, project: str, user: str, shape: Shape) -> None:
        self.project = project
        self.user = user
        self.shape = shape
        self.gangs: list[Entry] = []
        self.at = 0

    @property
    def head(self) -> Gang:
        """The first that is still waiting."""
        return self.gangs[self.at][3]

    @property
    def length(self) -> int:
        """How many still wait."""
        return len(self.gangs) - self.at

    @property
    def is_over(self) -> bool:
        """Whether nobody in it waits any more."""
        return self.at >= len(self.gangs)

    def has(self, gang: Gang) -> bool:
        """Whether `gang` waits here."""
        return any(entry[3] is gang for entry in self.waiting)

    def remove(self, gang: Gang) -> None:
        """Take `gang` out: something was done for it out of order."""
        self.gangs = [entry for entry in self.gangs if entry[3] is not gang]

    @property
    def waiting(self) -> list[Entry]:
        """All that still wait."""
        return self.gangs[self.at :]


class Queue:
    """The lines of one project, merged."""

    def __init__(self, lines: list[Line], usage: dict[str, float], *, between_users: bool) -> None:
        self._usage = usage
        self._between_users = between_users
        self._heap = [(self._key(line), line) for line in lines if not line.is_over]
        heapify(self._heap)

    def _key(self, line: Line) -> Key:
        rank, submitted, name, _ = line.gangs[line.at]
        usage = self._usage.get(line.user, 0.0) if self._between_users else 0.0
        return rank, usage, submitted, name

    def put(self, line: Line) -> None:
        """Let `line` take part, unless it is over."""
        if not line.is_over:
            heappush(self._heap, (self._key(line), line))

    def pop(self) -> Line | None:
        """The line whose head is next, taken out; None when there is none."""
        while self._heap:
            known, line = heappop(self._heap)
            if self._key(line) == known:
                return line
            self.put(line)  # its user was admitted since: usage only grows, so try again
        return None

    def spend(self, user: str, amount: float) -> None:
        """`user` got something: he falls back."""
        if self._between_users:
            self._usage[user] = self._usage.get(user, 0.0) + amount


class Projects:
    """Projects with a queue, the one with the lowest score first."""

    def __init__(self, names: Iterable[str], score: Callable[[str], float]) -> None:
        self._score = score
        self._heap = [(score(name), name) for name in names]
        heapify(self._heap)

    def pop(self) -> str | None:
        """The next project, taken out; None when there is none."""
        return heappop(self._heap)[1] if self._heap else None

    def put(self, name: str) -> None:
        """Let it take part again, by its score of now."""
        heappush(self._heap, (self._score(name), name))


def line_up(gangs: Iterable[Gang], shapes: Shapes, rank: Rank) -> dict[str, list[Line]]:
    """The lines of every project with waiting gangs; each in order, and so are the lines."""
    lines: dict[tuple[str, str, int, bool], Line] = {}
    for gang in gangs:
        first = gang[0]
        shape = shapes.of(gang)
        key = first.project, first.user, id(shape), first.fail_when_busy
        line = lines.get(key)
        if line is None:
            line = lines[key] = Line(first.project, first.user, shape)
        line.gangs.append((rank(gang), first.submitted_at, first.sort_name, gang))
    by_project: dict[str, list[Line]] = {}
    for line in lines.values():
        if len(line.gangs) > 1:
            line.gangs.sort(key=_order)
        by_project.setdefault(line.project, []).append(line)
    for found in by_project.values():
        found.sort(key=lambda line: _order(line.gangs[0]))
    return dict(sorted(by_project.items()))


def _order(entry: Entry) -> tuple[float, float, str]:
    return entry[:3]


def usage_of(decayed: Mapping[tuple[str, str], float], project: str) -> dict[str, float]:
    """Decayed usage of the users of `project`."""
    return {user: seconds for (name, user), seconds in decayed.items() if name == project}
