"""
`Lines`: which gang waits in which line, kept in order from one cycle to the next.

The order of gangs follows from their records alone, and few gangs arrive or leave between two
cycles. What a cycle does with its lines is not kept: each cycle starts with all waiting gangs, and
may leave some out.

This module must not know what happened to any gang.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property

from bastion.scheduler.queue.order import Entry, Line, LineKey, Standing, age_of, of_head, place_of


class Backlog:
    """All gangs that wait in the lines of one project at the beginning of a cycle."""

    def __init__(self, lines: Sequence[Line]) -> None:
        self.lines = lines
        """In order."""
        self.oldest = min([entry.queued_at for line in lines for entry in line.entries])
        """Since when the first of them waits."""
        self.first_asked = min([line.entries[0].submitted_at for line in lines])
        """When the first head of a line was submitted."""
        self.shapes = {id(line.shape): line.shape for line in lines}.values()
        """What they ask for, each shape once."""

    @cached_property
    def by_age(self) -> Sequence[Line]:
        """The lines, the one whose head has waited longest first."""
        return sorted(self.lines, key=lambda line: age_of(line.entries[0]))


class Lines:
    """The lines of all projects. Use one in one cycle at a time: a cycle modifies it."""

    def __init__(self) -> None:
        self._lines: dict[LineKey, Line] = {}
        self._by_project: dict[str, list[Line]] = {}
        self._backlogs: dict[str, Backlog] = {}
        self._left: dict[Line, Line | None] = {}
        """Lines of which gangs are left out in this cycle, with what is left of each."""
        self._in_line: Mapping[str, list[Line]] = self._by_project
        self.backlogs: Mapping[str, Backlog] = self._backlogs
        """By project; without the gangs that are left out."""

    def by_project(self) -> Mapping[str, list[Line]]:
        """Return the lines of each project that has waiting gangs; lines and gangs are in order."""
        return dict(sorted(self._in_line.items()))

    def get(self, key: LineKey) -> Line | None:
        """Return the line of that key, without the gangs left out; None if no gang waits in it."""
        line = self._lines.get(key)
        return None if line is None else self._left.get(line, line)

    def make(self, standing: Iterable[Standing]) -> None:
        """Make exactly `standing` the waiting gangs."""
        lines: dict[LineKey, Line] = {}
        by_project: dict[str, list[Line]] = {}
        for key, shape, entry in standing:
            line = lines.get(key)
            if line is None:
                line = lines[key] = Line(key, shape)
                by_project.setdefault(key.project, []).append(line)
            line.entries.append(entry)
        for line in lines.values():
            if len(line.entries) > 1:
                line.entries.sort(key=place_of)
        for found in by_project.values():
            found.sort(key=of_head)
        self._lines, self._by_project = lines, by_project
        self._backlogs = {project: Backlog(found) for project, found in by_project.items()}
        self._leave_none()

    def change(self, gone: Iterable[Standing], come: Iterable[Standing]) -> None:
        """Remove `gone` from the waiting gangs, and add `come`."""
        lines = self._lines
        changed: dict[LineKey, list[Entry]] = {}
        for key, _, entry in gone:
            entries = self._changed(changed, key)
            del entries[bisect_left(entries, place_of(entry), key=place_of)]
        for key, shape, entry in come:
            if key not in lines:
                line = lines[key] = Line(key, shape)
                self._by_project.setdefault(key.project, []).append(line)
            insort(self._changed(changed, key), entry, key=place_of)
        for line in lines.values():
            line.begin()
        for key, entries in changed.items():
            lines[key].renew(entries)
            if not entries:
                del lines[key]
        for project in {key.project for key in changed}:
            self._sort(project)
        self._leave_none()

    def _leave_none(self) -> None:
        self._left, self._in_line, self.backlogs = {}, self._by_project, self._backlogs

    def leave(self, left: Mapping[Line, list[Entry]]) -> None:
        """Leave out all gangs of these lines except the named ones, for this cycle."""
        in_line, backlogs = dict(self._by_project), dict(self._backlogs)
        self._left = {
            line: line.with_only(entries) if entries else None for line, entries in left.items()
        }
        for project in sorted({line.project for line in left}):
            found = [self._left.get(line, line) for line in in_line.pop(project)]
            some = sorted([line for line in found if line is not None], key=of_head)
            del backlogs[project]
            if some:
                in_line[project], backlogs[project] = some, Backlog(some)
        self._in_line, self.backlogs = in_line, backlogs

    def _changed(self, changed: dict[LineKey, list[Entry]], key: LineKey) -> list[Entry]:
        """Return the gangs of line `key` as a list to modify: plans keep the old one."""
        entries = changed.get(key)
        if entries is None:
            entries = changed[key] = self._lines[key].entries.copy()
        return entries

    def _sort(self, project: str) -> None:
        left = [line for line in self._by_project[project] if line.entries]
        if left:
            self._by_project[project] = sorted(left, key=of_head)
            self._backlogs[project] = Backlog(self._by_project[project])
        else:
            del self._by_project[project], self._backlogs[project]
