"""
Shares: what every project holds in this cycle, and what it may still get.

The working copy of `quota.ledger`'s arithmetic: the sums over all projects are kept up to date
instead of being added up at every question. What is promised to a gang counts as held by its
project, less what those whom it waits for will give back: no unit is ever given back twice.

It must not know machines.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from bastion.scheduler.state.running import Running
from quota.amounts import NOTHING, Amounts
from quota.tree import Project, Quota


class Shares:
    """Usage of all projects, as it changes during one cycle."""

    def __init__(self, quota: Quota, running: Iterable[Running]) -> None:
        self.quota = quota
        self.totals = quota.totals
        self._projects = quota.projects
        held: dict[str, list[Amounts]] = {}
        for each in running:
            held.setdefault(each.project, []).append(each.held)
        self._held = {project: Amounts.sum(parts) for project, parts in held.items()}
        self._departing: dict[str, Amounts] = {}
        self._swapped: dict[str, Amounts] = {}
        self._gifts: dict[str, dict[str, Amounts]] = {}
        """Running gang -> project -> what it gives to promises of that project."""
        self._excess: dict[str, float] = {}
        self.version = 0
        """Another one after every change."""
        names = self._held.keys() | quota.projects.keys()
        reserved = Amounts.sum(self._reserve(name) for name in names)
        self._reserved = dict(reserved.items())
        """What projects hold, or keep of their shares, all together."""

    def _reserve(self, project: str) -> Amounts:
        return self._stays(project) | self.quota.project(project).kept

    def _stays(self, project: str) -> Amounts:
        held = self._held.get(project, NOTHING)
        departing = self._departing.get(project)
        return held if departing is None else held - departing

    def project(self, name: str) -> Project:
        """The project, also one that has left the quota file."""
        return self._projects.get(name) or self.quota.project(name)

    def names(self) -> set[str]:
        """Every project with a share or with jobs that hold something."""
        return self.quota.projects.keys() | self._held.keys()

    def held(self, project: str) -> Amounts:
        """What `project` holds of the types under quota, promises included."""
        return self._held.get(project, NOTHING)

    def add(self, project: str, amounts: Amounts) -> None:
        """`project` holds `amounts` more (a negative difference: less)."""
        self.version += 1
        stays, kept = self._stays(project), self.project(project).kept
        for resource, units in amounts.items():
            has, keeps = stays[resource], kept[resource]
            self._reserve_more(resource, max(has + units, keeps) - max(has, keeps))
        self._held[project] = self.held(project) + amounts
        self._excess.pop(project, None)

    def give(self, running: Running, amounts: Amounts, *, to: str) -> None:
        """
        `running` ends before a gang of `to`, which is counted already, gets `amounts` of its room.

        Inside one project both never hold them together, so they count once; another's count for
        both until they are given. A negative difference takes the word back.
        """
        self._depart(running.project, amounts, to=to)
        gifts = self._gifts.setdefault(running.name, {})
        gifts[to] = gifts.get(to, NOTHING) + amounts

    def _depart(self, project: str, amounts: Amounts, *, to: str) -> None:
        if project == to:
            self._swapped[project] = self._swapped.get(project, NOTHING) + amounts
        self.version += 1
        self._excess.pop(project, None)
        before = self._reserve(project)
        self._departing[project] = self._departing.get(project, NOTHING) + amounts
        for resource, units in (self._reserve(project) - before).items():
            self._reserve_more(resource, units)

    def _reserve_more(self, resource: str, units: int) -> None:
        self._reserved[resource] = self._reserved.get(resource, 0) + units

    def left_of(self, running: Running) -> Amounts:
        """What `running` holds and has not yet given to anybody."""
        return running.held - Amounts.sum(self._gifts.get(running.name, {}).values())

    def leave(self, running: Running) -> None:
        """Count without `running`, as if it had ended; `stay` puts it back."""
        self._move(running, sign=-1)

    def stay(self, running: Running) -> None:
        """End what `leave` began."""
        self._move(running, sign=1)

    def _move(self, running: Running, *, sign: int) -> None:
        self.add(running.project, sign * running.held)
        for to, amounts in self._gifts.get(running.name, {}).items():
            self._depart(running.project, sign * amounts, to=to)

    @contextmanager
    def without(self, gone: Iterable[Running]) -> Iterator[None]:
        """Count as if all of `gone` had ended, for a moment."""
        left = list(gone)
        self._move_all(left, sign=-1)
        try:
            yield
        finally:
            self._move_all(left, sign=1)

    def _move_all(self, gone: Iterable[Running], *, sign: int) -> None:
        """`_move` for all of them, project by project."""
        held: dict[str, list[Amounts]] = {}
        given: dict[tuple[str, bool], list[Amounts]] = {}
        for running in gone:
            project = running.project
            held.setdefault(project, []).append(running.held)
            for to, amounts in self._gifts.get(running.name, {}).items():
                given.setdefault((project, to == project), []).append(amounts)
        for project, parts in held.items():
            self.add(project, sign * Amounts.sum(parts))
        for (project, is_own), parts in given.items():
            self._depart(project, sign * Amounts.sum(parts), to=project if is_own else "")

    def is_within(self, project: str, asked: Amounts) -> bool:
        """
        Whether `asked` fits in the project's own share beside everything it holds.

        Never for a request that asks for no type under quota: it has no share to stand on, so it
        borrows. Otherwise a crowd of such jobs could fill every machine's processors for good and
        leave no guarantee that machines could hold.
        """
        return bool(asked) and self.project(project).nominal.holds(self._counted(project), asked)

    def is_under_ceiling(self, project: str, asked: Amounts) -> bool:
        """Whether `project` may hold `asked` more at all."""
        return self.project(project).ceiling.holds(self._counted(project), asked)

    def _counted(self, project: str) -> Amounts:
        held = self._held.get(project, NOTHING)
        swapped = self._swapped.get(project)
        return held if swapped is None else held - swapped

    def may_borrow(self, project: str, asked: Amounts) -> bool:
        """Whether `asked` fits under the ceiling and into what nobody uses or keeps for himself."""
        limits = self.project(project)
        if not limits.ceiling.holds(self._counted(project), asked):
            return False
        kept = limits.kept
        stays = self._stays(project)
        for resource, units in asked.items():
            has, keeps = stays[resource], kept[resource]
            more = max(has + units, keeps) - max(has, keeps)
            if self._reserved.get(resource, 0) + more > self.totals[resource]:
                return False
        return True

    def available(self, project: str, asked: Amounts) -> Amounts:
        """How much of the types in `asked` it could borrow now, never negative."""
        limits = self.project(project)
        stays, held = self._stays(project), self.held(project)
        swapped = self._swapped.get(project, NOTHING)
        kept = (limits.kept - stays).positive()
        room = (self.totals - Amounts(self._reserved) + kept) & (limits.ceiling - held + swapped)
        return room.only(asked).positive()

    def dominant(self, project: str) -> float:
        """The largest part of its own share that `project` holds; infinite without a share."""
        nominal, most = self.project(project).nominal, 0.0
        for resource, units in self.held(project).items():
            share = nominal[resource]
            most = max(most, units / share if share > 0 else math.inf)
        return most

    def weight(self, amounts: Amounts) -> float:
        """The largest part of a total that `amounts` is."""
        if len(amounts) == 1:  # nearly always
            ((resource, units),) = amounts.items()
            return units / max(1, self.totals[resource])
        return max((n / max(1, self.totals[t]) for t, n in amounts.items()), default=0.0)

    def excess(self, project: str, *, without: Amounts = NOTHING) -> float:
        """
        How far above its share `project` is, as a part of the total; negative below.

        What it gives back for promises that wait for it does not count any more.
        """
        nominal = self.project(project).nominal
        if without:
            return self.weight(self._stays(project) - without - nominal)
        known = self._excess.get(project)
        if known is None:
            known = self._excess[project] = self.weight(self._stays(project) - nominal)
        return known

    def borrowed(self, project: str) -> float:
        """The part of the total that `project` holds above its share."""
        return max(0.0, self.weight(self.held(project) - self.project(project).nominal))
