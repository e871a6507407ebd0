"""
Shares: what every project holds in this cycle, and what it may still get.

The working copy of `quota.ledger`'s arithmetic: the sums over all projects are kept up to date
instead of being added up at every question. What is promised to a gang counts as held by its
project, less what those that it waits for will give back: no unit is ever given back twice.

It must not know machines.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager

from bastion.scheduler.queue.shape import Shape
from bastion.scheduler.state.leavers import Leavers, Questions
from bastion.scheduler.state.running import Running
from quota.amounts import NOTHING, Amounts
from quota.ledger import apart
from quota.nesting import Nesting
from quota.tree import Project, Quota

Gift = tuple[Running, Amounts]
"""A running gang, and what of its room it gives to a start that waits for its end."""


class _Question:
    """What is taken to be gone for a moment, and what stood in the projects that it changed."""

    __slots__ = ("open", "stood", "sums")

    def __init__(self, sums: Sequence[tuple[Leavers, int]]) -> None:
        self.sums = sums
        self.open: set[str] = set()
        """Projects in which something leaves, and that were not asked about yet."""
        for leavers, _ in sums:
            self.open.update(leavers.held, (project for project, _ in leavers.given))
        self.stood: dict[str, list[Amounts | None]] = {}
        """Project -> what it held, what departed from it, what it swapped."""


class Shares:
    """Usage of all projects, as it changes during one cycle."""

    def __init__(self, quota: Quota, held: Mapping[str, Amounts]) -> None:
        self.quota = quota
        self.totals = quota.totals
        self._projects = quota.projects
        self._held = dict(held)
        self._departing: dict[str, Amounts] = {}
        self._swapped: dict[str, Amounts] = {}
        self._gifts: dict[str, dict[str, Amounts]] = {}
        """Running gang -> project -> what it gives to promises of that project."""
        self._left: dict[str, Amounts] = {}
        """Running gang that gives -> what it holds and gives to none yet."""
        self._questions = Questions(self._gifts)
        self._asked: list[_Question] = []
        """The questions that are open, the outermost first."""
        self._excess: dict[str, float] = {}
        self.version = 0
        """Another one after every change."""
        self._changes = 0
        names = self._held.keys() | quota.projects.keys()
        self._nesting = Nesting(quota) if quota.groups else None
        self._reserved: dict[str, int] = {}
        """What projects hold, or keep of their shares, all together; groups, too."""
        if self._nesting is None:
            reserved = Amounts.sum(self._reserve(name) for name in names)
            self._reserved = dict(reserved.items())
        else:
            self._reserved = dict(self._nesting.kept.items())
            for name in names:
                for resource, units in self._reserve(name).items():
                    self._reserve_more(name, resource, units)

    def _reserve(self, project: str) -> Amounts:
        return self._stays(project) | self.quota.project(project).kept

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

    def project(self, name: str) -> Project:
        """The project, also one that has left the quota file."""
        return self._projects.get(name) or self.quota.project(name)

    def names(self) -> set[str]:
        """Every project with a share or with jobs that hold something."""
        return self.quota.projects.keys() | self._held.keys()

    def held(self, project: str) -> Amounts:
        """What `project` holds of the types under quota, promises included."""
        if self._asked:
            self._settle(project)
        return self._held.get(project, NOTHING)

    def add(self, project: str, amounts: Amounts) -> None:
        """`project` holds `amounts` more (a negative difference: less)."""
        self._change()
        stays, kept = self._stays(project), self.project(project).kept
        for resource, units in amounts.items():
            has, keeps = stays[resource], kept[resource]
            self._reserve_more(project, resource, max(has + units, keeps) - max(has, keeps))
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
        `project` holds `asked` from now on, out of what those of `waits` give once they have ended.

        For a promise they give what they `gave` before, if that is still theirs.

        Other projects give a planned start no more than it takes up beyond what its own project
        gives and keeps: until then the project may ask for all that it does not lend.
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
        """Take back what `reserve` did."""
        self.add(project, -asked)
        self.give([(running, -amounts) for running, amounts in gifts], to=project)

    def _collect(self, wanted: Amounts, givers: Iterable[Running]) -> tuple[list[Gift], Amounts]:
        """What each of `givers` gives of `wanted`, and what is left of that."""
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
        Those of `gifts` end before a gang of `to`, which is counted already, gets their room.

        Inside one project both never hold them together, so they count once; another's count for
        both until they are given. A negative difference takes the word back.
        """
        given: dict[str, Amounts] = {}
        for running, amounts in gifts:
            given[running.project] = given.get(running.project, NOTHING) + amounts
        for project, amounts in given.items():
            self._depart(project, amounts, to=to)
        for running, amounts in gifts:
            mine = self._gifts.setdefault(running.name, {})
            mine[to] = mine.get(to, NOTHING) + amounts
            self._left[running.name] = self.left_of(running) - amounts
            self._questions.gave(running, amounts, to=to)

    def _depart(self, project: str, amounts: Amounts, *, to: str) -> None:
        if self._asked:
            self._settle(project)
        if project == to:
            self._swapped[project] = self._swapped.get(project, NOTHING) + amounts
        self._change()
        self._excess.pop(project, None)
        stays, kept = self._stays(project), self.project(project).kept
        for resource, units in amounts.items():
            has, keeps = stays[resource], kept[resource]
            self._reserve_more(project, resource, max(has - units, keeps) - max(has, keeps))
        self._departing[project] = self._departing.get(project, NOTHING) + amounts

    def _reserve_more(self, project: str, resource: str, units: int) -> None:
        if self._nesting is not None:
            units = self._nesting.add(project, resource, units)
        self._reserved[resource] = self._reserved.get(resource, 0) + units

    def left_of(self, running: Running) -> Amounts:
        """What `running` holds and has not yet given to another."""
        return self._left.get(running.name, running.held)

    def leave(self, *gone: Running) -> None:
        """Count without those that are `gone`, as if they had ended; `stay` puts them back."""
        self.move(gone, sign=-1)

    def stay(self, *gone: Running) -> None:
        """End what `leave` began."""
        self.move(gone, sign=1)

    def move(self, gone: Sequence[Running], *, sign: int) -> None:
        """`leave` with `sign=-1`, `stay` with 1."""
        if gone:
            self._count_all(self._questions.once(gone), sign=sign)

    def _count_all(self, sums: Leavers, *, sign: int) -> None:
        for project, held in sums.held.items():
            self.add(project, sign * held)
        for (project, is_own), given in sums.given.items():
            self._depart(project, sign * given, to=project if is_own else "")

    def standing(self, gone: Iterable[Running]) -> Leavers:
        """What `gone` leave, kept up to date for many questions; see `without`."""
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
        Count as if some had ended, for a moment; whatever moves inside moves back.

        Only the projects that are asked about are counted anew.

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
        if self._nesting is not None:
            self._settle_all()
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
        """Count what those that are gone leave in `project`, which is asked about."""
        asked, self._asked = self._asked, []  # each is counted on what the ones around it leave
        for question in asked:
            if project in question.open:
                question.open.discard(project)
                books = self._held, self._departing, self._swapped
                question.stood[project] = [each.get(project) for each in books]
                self._leave_all(project, question)
        self._asked = asked

    def _settle_all(self) -> None:
        for question in self._asked:
            for project in sorted(question.open):
                self._settle(project)

    def _leave_all(self, project: str, question: _Question) -> None:
        for leavers, sign in question.sums:
            held = leavers.held.get(project)
            if held is not None:
                self.add(project, -sign * held)
            for is_own in (True, False):
                given = leavers.given.get((project, is_own))
                if given is not None:
                    self._depart(project, -sign * given, to=project if is_own else "")

    def _go_back(self, project: str, question: _Question) -> None:
        """Count what stood there before `_settle`."""
        now = self._reserve(project)
        self._excess.pop(project, None)
        books = self._held, self._departing, self._swapped
        for book, was in zip(books, question.stood[project]):
            if was is None:
                book.pop(project, None)
            else:
                book[project] = was
        for resource, units in (self._reserve(project) - now).items():
            self._reserve_more(project, resource, units)

    def counted(self) -> object:
        """All that is counted of every project: equal where every answer would be the same."""
        self._settle_all()
        books = self._held, self._departing, self._swapped
        kept = [(name, [each.get(name) for each in books]) for name in sorted(self.names())]
        return kept, {resource: units for resource, units in self._reserved.items() if units}

    def is_own(self, project: str, asked: Amounts) -> bool:
        """
        Whether `asked` fits in the project's own share beside everything it holds.

        Never for a request that asks for no type under quota: it has no share to stand on, so it
        borrows. Otherwise a crowd of such jobs could fill every machine's processors for good and
        leave no guarantee that machines could hold.
        """
        return bool(asked) and self.project(project).nominal.holds(self._counted(project), asked)

    def stands(self, project: str, asked: Amounts, swapped: Amounts) -> bool:
        """`is_own` for what is counted already, `swapped` of it in place of what will end."""
        rest = self._counted(project) - asked + swapped
        return bool(asked) and self.project(project).nominal.holds(rest, asked)

    def is_within(self, project: str, asked: Amounts, *, own: bool = False) -> bool:
        """Whether `asked` fits in a share: the project's, or if not `own` that of a group of it."""
        if self.is_own(project, asked):
            return True
        if own or self._nesting is None or not asked or not self.project(project).borrow:
            return False
        if not self.project(project).ceiling.holds(self._counted(project), asked):
            return False
        return bool(self._nesting.covering(project, self._rises(project, asked)))

    def may_start(self, project: str, asked: Amounts, *, own: bool = False) -> bool:
        """Whether `asked` is within a share, and nothing of its groups has to end before."""
        is_within = self.is_within(project, asked, own=own)
        return is_within and self.is_under_group_ceilings(project, asked)

    def is_under_group_ceilings(self, project: str, asked: Amounts) -> bool:
        """Whether the groups of `project` may hold `asked` more."""
        nesting = self._nesting
        if nesting is None or not self.quota.groups_of(project):
            return True
        return nesting.is_under_ceilings(project, self._rises(project, asked))

    def holding(self, project: str, asked: Amounts) -> frozenset[str]:
        """The project and its groups, as far as their share holds `asked`."""
        found = [project] if self.is_own(project, asked) else []
        if self._nesting is not None and asked:
            found += self._nesting.holding(project, self._rises(project, asked))
        return frozenset(found)

    def cover(self, project: str, asked: Amounts) -> str:
        """The nearest share that holds `asked`: the project's, that of a group, or none."""
        holding = self.holding(project, asked)
        return next((n.name for n in self.quota.chain(project) if n.name in holding), "")

    def may_reclaim(self, project: str, asked: Amounts, victims: Iterable[Running]) -> bool:
        """
        Whether `asked` may start once `victims` have gone, which are not counted any more.

        Where it meets the project of a victim, it must be within the share: that of the outermost
        group that only `project` is in.
        """
        if self._nesting is None:
            return True
        if not self.is_under_group_ceilings(project, asked):
            return False
        others = {running.project for running in victims} - {project}
        meets = {apart(self.quota, project, other)[-1].name for other in others}
        return meets <= self.holding(project, asked)

    def _rises(self, project: str, asked: Amounts) -> dict[str, int]:
        """How much more `project` would close with `asked`, of every type of it."""
        stays, kept = self._stays(project), self.project(project).kept
        rises = {}
        for resource, units in asked.items():
            has, keeps = stays[resource], kept[resource]
            rises[resource] = max(has + units, keeps) - max(has, keeps)
        return rises

    def over_ceiling(self, project: str, asked: Amounts) -> str:
        """The project, or the nearest of its groups, that may not hold `asked` more at all."""
        if not self.project(project).ceiling.holds(self._counted(project), asked):
            return project
        if self._nesting is None:
            return ""
        return next(iter(self._nesting.over_ceilings(project, self._rises(project, asked))), "")

    def _counted(self, project: str) -> Amounts:
        if self._asked:
            self._settle(project)
        held = self._held.get(project, NOTHING)
        swapped = self._swapped.get(project)
        return held if swapped is None else held - swapped

    def may_borrow(self, project: str, asked: Amounts) -> bool:
        """Whether it borrows, and `asked` fits under its ceiling and into what is idle and lent."""
        self._settle_all()
        limits = self.project(project)
        if not limits.borrow or not limits.ceiling.holds(self._counted(project), asked):
            return False
        nesting = self._nesting
        kept = limits.kept
        stays = self._stays(project)
        for resource, units in asked.items():
            has, keeps = stays[resource], kept[resource]
            more = max(has + units, keeps) - max(has, keeps)
            free = self.totals[resource] - self._reserved.get(resource, 0)
            if nesting is not None:
                free = nesting.room(project, resource, free)
            if more > free:
                return False
        return True

    def ever_borrows(self, project: str, shape: Shape) -> bool:
        """Whether a gang of `shape` may start beyond the share of `project`."""
        return shape.borrows and self.project(project).borrow

    def lets_borrow(self, project: str, shape: Shape, units: Amounts) -> bool:
        """Whether a gang of `shape`, charged `units`, may start on what is idle and lent."""
        return shape.borrows and self.may_borrow(project, units)

    def has_room(self, project: str, shape: Shape, units: Amounts, *, borrows: bool = True) -> bool:
        """Whether a charge of `units` fits in a share, or beyond it where the gang `borrows`."""
        is_within = self.may_start(project, units, own=not shape.borrows)
        return is_within or (borrows and self.lets_borrow(project, shape, units))

    def available(self, project: str, asked: Amounts) -> Amounts:
        """How much of the types in `asked` it could borrow now, never negative."""
        self._settle_all()
        limits = self.project(project)
        stays, held = self._stays(project), self.held(project)
        swapped = self._swapped.get(project, NOTHING)
        kept = (limits.kept - stays).positive()
        free = self.totals - Amounts(self._reserved)
        if self._nesting is not None:
            room = self._nesting.room
            free = Amounts({t: room(project, t, free[t]) for t in asked})
        free = (free + kept) & (limits.ceiling - held + swapped)
        return free.only(asked).positive()

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

    def excess(self, name: str) -> float:
        """How far above its share a project or a group is, as a part of the total."""
        if name in self.quota.groups:
            return self.weight(self.above_share(name))
        if self._asked:
            self._settle(name)
        known = self._excess.get(name)
        if known is None:
            known = self._excess[name] = self.weight(self.above_share(name))
        return known

    def above_share(self, name: str) -> Amounts:
        """
        What a project or a group holds above its share; negative below.

        What it gives back for promises that wait for it does not count any more.
        """
        held = self.closes(name) if name in self.quota.groups else self._stays(name)
        return held - self.quota.node(name).nominal

    def closes(self, name: str) -> Amounts:
        """What stands against the limits of a project or a group."""
        if name not in self.quota.groups or self._nesting is None:
            return self._counted(name)
        return Amounts({t: self._nesting.taken(name, t) for t in self.quota.types})

    def borrowed(self, name: str) -> float:
        """The part of the total that a project or a group holds above its share."""
        if name in self.quota.groups:
            return max(0.0, self.excess(name))
        return max(0.0, self.weight(self.held(name) - self.project(name).nominal))
