"""
Ledger: what every project holds in this cycle.

It is the working copy of `quota.ledger`'s arithmetic: the sums over all projects are kept up to
date instead of being added up at every question. What is promised to a gang counts as held by its
project, less what the gangs that it waits for will give back: no unit is ever given back twice.

This module must not know machines, nor what a project may still get.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from bastion.scheduler.state.holders.leavers import Leavers, Questions
from bastion.scheduler.state.holders.running import Running
from quota.amounts import NOTHING, Amounts
from quota.nesting import Nesting
from quota.tree import Quota

Gift = tuple[Running, Amounts]
"""A running gang, and what of its room it gives to a start that waits for its end."""


class _Question:
    """What is temporarily assumed gone, and the previous values of the projects that it changed."""

    def __init__(self, sums: Sequence[tuple[Leavers, int]]) -> None:
        self.sums = sums
        self.open: set[str] = set()
        """Projects in which something leaves, and that were not asked about yet."""
        for leavers, _ in sums:
            self.open.update(leavers.projects())
        self.stood: dict[str, list[object]] = {}
        """Project -> its entry in every book before, or None."""


class Ledger:
    """Usage of all projects, as it changes during one cycle."""

    def __init__(self, quota: Quota, held: Mapping[str, Amounts]) -> None:
        self.quota = quota
        self.project = quota.project
        self.totals = quota.totals
        self._held = dict(held)
        self._departing: dict[str, Amounts] = {}
        """Project -> what its running gangs give to promises and planned starts."""
        self._given: dict[str, Mapping[str, Amounts]] = {}
        """Project -> where it meets the receivers (`Quota.meeting`) -> what it gives there."""
        self._books: tuple[dict[str, Any], ...] = self._held, self._departing, self._given
        self._gifts: dict[str, dict[str, Amounts]] = {}
        """Running gang -> where its project meets the receivers -> what it gives there."""
        self._left: dict[str, Amounts] = {}
        """Running gang that gives -> what it holds and gives to none yet."""
        self._questions = Questions(self._gifts)
        self._asked: list[_Question] = []
        """The open questions, the outermost first."""
        self._excess: dict[str, float] = {}
        self.version = 0
        """Different after every change."""
        self._changes = 0
        names = self._held.keys() | quota.projects.keys()
        self._nesting = Nesting(quota) if quota.groups else None
        self._reserved: dict[str, int] = {}
        """What all projects together hold, or keep of their shares; groups, too."""
        if self._nesting is None:
            reserved = Amounts.sum(self._reserve(name) for name in names)
            self._reserved = dict(reserved.items())
        else:
            self._reserved = dict(self._nesting.kept.items())
            for name in names:
                for resource, units in self._reserve(name).items():
                    self._reserve_more(name, resource, units)

    def _reserve(self, project: str) -> Amounts:
        return self._stays(project) | self.project(project).kept

    def _stays(self, project: str) -> Amounts:
        if self._asked:
            self._settle(project)
        held = self._held.get(project, NOTHING)
        departing = self._departing.get(project)
        return held if departing is None else held - departing

    @property
    def is_nested(self) -> bool:
        """Whether any projects are in groups."""
        return self._nesting is not None

    def names(self) -> set[str]:
        """The names of every project with a share or with jobs that hold something."""
        return self.quota.projects.keys() | self._held.keys()

    def held(self, project: str) -> Amounts:
        """Return what `project` holds of the types under quota, including promises."""
        if self._asked:
            self._settle(project)
        return self._held.get(project, NOTHING)

    def add(self, project: str, amounts: Amounts) -> None:
        """Add `amounts` to what `project` holds (negative: remove)."""
        self._change()
        for resource, units in self._rises(project, amounts).items():
            self._reserve_more(project, resource, units)
        self._held[project] = self._held.get(project, NOTHING) + amounts
        self._excess.pop(project, None)

    def _change(self) -> None:
        self._changes += 1
        self.version = self._changes

    def reserve(
        self,
        project: str,
        asked: Amounts,
        waits: Sequence[Running],
        *,
        is_planned: bool,
        gave: Sequence[Gift] | None = None,
    ) -> list[Gift]:
        """
        Reserve `asked` for `project`, less what `waits` give once they have ended.

        For a promise they give what they `gave` before, if they still have it. Other projects give
        a planned start no more than it uses beyond what its own project gives and keeps: until then
        the project may ask for all that it does not lend.
        """
        if is_planned:
            own = [running for running in waits if running.project == project]
            gifts, left = self._collect(asked, own)
            others = [running for running in waits if running.project != project]
            gifts += self._collect(Amounts(self._rises(project, left)), others)[0]
        elif gave is not None and all(
            running in waits and units <= self.left_of(running) for running, units in gave
        ):
            gifts = [*gave]
        else:
            gifts, _ = self._collect(asked, waits)
        self.add(project, asked)
        self.give(gifts, to=project)
        return gifts

    def cancel(self, project: str, asked: Amounts, gifts: Sequence[Gift]) -> None:
        """Undo `reserve`."""
        self.add(project, -asked)
        self.give([(running, -amounts) for running, amounts in gifts], to=project)

    def _collect(self, wanted: Amounts, givers: Iterable[Running]) -> tuple[list[Gift], Amounts]:
        """Return what each of `givers` gives of `wanted`, and the rest."""
        gifts: list[Gift] = []
        for running in givers:
            if not wanted:
                break
            has = self.left_of(running)
            gift = (wanted & has).positive() if has else has
            if gift:
                wanted = wanted - gift
                gifts.append((running, gift))
        return gifts, wanted

    def give(self, gifts: Sequence[Gift], *, to: str) -> None:
        """
        Give the room of `gifts`, which end before it, to a gang of `to` that is already counted.

        Inside one project they never hold it at the same time, so the room counts once. The room of
        another project counts for both until it is given. A negative difference takes it back.
        """
        given: dict[str, Amounts] = {}
        for running, amounts in gifts:
            given[running.project] = given.get(running.project, NOTHING) + amounts
        for project, amounts in given.items():
            self._depart(project, amounts, inside=self.quota.meeting(project, to))
        for running, amounts in gifts:
            inside = self.quota.meeting(running.project, to)
            mine = self._gifts.setdefault(running.name, {})
            mine[inside] = mine.get(inside, NOTHING) + amounts
            self._left[running.name] = self.left_of(running) - amounts
            self._questions.gave(running, amounts, inside=inside)

    def _depart(self, project: str, amounts: Amounts, *, inside: str) -> None:
        if self._asked:
            self._settle(project)
        before = self._given.get(project, {})
        given = {**before, inside: before.get(inside, NOTHING) + amounts}
        self._given[project] = {where: units for where, units in given.items() if units}
        self._change()
        self._excess.pop(project, None)
        for resource, units in self._rises(project, -amounts).items():
            self._reserve_more(project, resource, units)
        self._departing[project] = self._departing.get(project, NOTHING) + amounts

    def _reserve_more(self, project: str, resource: str, units: int) -> None:
        if self._nesting is not None:
            units = self._nesting.add(project, resource, units)
        self._reserved[resource] = self._reserved.get(resource, 0) + units

    def left_of(self, running: Running) -> Amounts:
        """Return what `running` holds and has not yet given to another."""
        return self._left.get(running.name, running.held)

    def let_end(self, gone: Collection[Running], *, sign: int = 1) -> None:
        """Count as if `gone` had ended, or with `sign=-1` as if they had not."""
        if not gone:
            return
        leavers = self._questions.once(gone)
        for project in leavers.projects():
            self._leave(project, leavers, sign)

    def standing(self, gone: Iterable[Running]) -> Leavers:
        """Return what `gone` leave, kept up to date for many questions; see `without`."""
        return self._questions.standing(gone)

    @contextmanager
    def without(
        self,
        gone: Iterable[Running] = (),
        *,
        standing: Leavers | None = None,
        staying: Iterable[Running] = (),
    ) -> Iterator[None]:
        """
        Temporarily count as if some had ended; changes made inside are undone.

        Only the projects that are asked about are recounted.

        Args:
            gone: They have ended.
            standing: So have those, none of them in `gone`.
            staying: Those among `standing` that have not.
        """
        leavers = set(gone)
        sums = [(self._questions.begin(leavers), 1)] if leavers else []
        if standing is not None:
            sums.append((standing, 1))
            sums.append((self._questions.once(staying), -1))
        question = _Question(sums)
        self._asked.append(question)
        before = self.version
        try:
            yield
        finally:
            if leavers:
                self._questions.end()
            self._asked.pop()
            for project in question.stood:
                self._go_back(project, question)
            self.version = before

    def _settle(self, project: str) -> None:
        """Count what the gangs that are gone leave in `project`, which is asked about."""
        asked, self._asked = self._asked, []  # each is counted on what its group leaves
        for question in asked:
            if project in question.open:
                question.open.discard(project)
                question.stood[project] = [each.get(project) for each in self._books]
                for leavers, sign in question.sums:
                    self._leave(project, leavers, sign)
        self._asked = asked

    def _groups(self, name: str) -> Nesting | None:
        """Return the sums of groups, right for the group `name` or those of that project."""
        if self._asked and self._nesting is not None:
            for project in self.quota.kin(name):
                self._settle(project)
        return self._nesting

    def _settle_all(self) -> None:
        for question in self._asked:
            for project in sorted(question.open):
                self._settle(project)

    def _leave(self, project: str, leavers: Leavers, sign: int) -> None:
        held = leavers.held.get(project)
        if held is not None:
            self.add(project, -sign * held)
        for inside in (*(node.name for node in self.quota.chain(project)), ""):
            given = leavers.given.get((project, inside))
            if given is not None:
                self._depart(project, -sign * given, inside=inside)

    def _go_back(self, project: str, question: _Question) -> None:
        """Restore the counts before `_settle`."""
        now = self._reserve(project)
        self._excess.pop(project, None)
        for book, was in zip(self._books, question.stood[project]):
            if was is None:
                book.pop(project, None)
            else:
                book[project] = was
        for resource, units in (self._reserve(project) - now).items():
            self._reserve_more(project, resource, units)

    def counted(self) -> object:
        """Return all counts of every project: equal if every answer would be the same."""
        self._settle_all()
        kept = [(name, [each.get(name) for each in self._books]) for name in sorted(self.names())]
        return kept, {resource: units for resource, units in self._reserved.items() if units}

    def frees(self, running: Running) -> Amounts:
        """Return what its project has more of its own share once `running` has ended."""
        given = self._gifts.get(running.name, {}).get(running.project)
        return running.held if given is None else running.held - given

    def _rises(self, project: str, asked: Amounts) -> dict[str, int]:
        """Return how much more `project` would close with `asked`, for every type of it."""
        stays, kept = self._stays(project), self.project(project).kept
        rises = {}
        for resource, units in asked.items():
            has, keeps = stays[resource], kept[resource]
            rises[resource] = max(has + units, keeps) - max(has, keeps)
        return rises

    def _counted(self, project: str) -> Amounts:
        if self._asked:
            self._settle(project)
        held = self._held.get(project, NOTHING)
        given = self._given.get(project)
        swapped = given.get(project) if given else None
        return held if swapped is None else held - swapped

    def _given_outside(self, group: str) -> dict[str, Amounts]:
        """Return what members of `group` give to starts outside it and hold until then."""
        found = {}
        for project, given in self._given.items():
            chain = [node.name for node in self.quota.chain(project)]
            if group in chain:
                inside = chain[: chain.index(group) + 1]
                outside = [units for where, units in given.items() if where not in inside]
                if outside:
                    found[project] = Amounts.sum(outside)
        return found
