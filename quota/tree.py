"""
`Quota`, `Group` and `Project`: a quota file in whole units.

Shares are whole units of the sum of all tiers. A type is under quota exactly if the file gives it a
total, even a total of zero. Groups and projects form trees: names are unique, and each is in at
most one group. `quota.file.config` makes and checks these values.

This module must not know jobs: usage is an argument of `quota.ledger`.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Mapping
from typing import TYPE_CHECKING

from quota.amounts import NOTHING, Amounts
from quota.budget import UNBOUNDED, Budget
from quota.limits import UNLIMITED, Limits
from quota.lines import Path, line_of, shown
from quota.options import DEFAULTS, ProjectOrder, SchedulerOptions
from quota.pattern import pattern
from quota.value import field, value

if TYPE_CHECKING:
    from decimal import Decimal

    from quota.maintenance import Window
    from quota.refusal import ProjectRefusal

_NAME = pattern(r"[\w.@-]+")
"""
What is a user's name and not a pattern.

A dot alone makes no pattern: `jo.doe` in a member list must not match `joxdoe`.
"""


@value
class People:
    """
    Some users, by name or by regular expression.

    Raises:
        re.error: An expression is not valid.
    """

    written: tuple[str, ...] = ()
    """
    As the file has them. Letters, digits and `_ . @ -` alone are a name; the rest is an expression
    that must match in full.
    """
    _words: frozenset[str] = field(init=False, repr=False, compare=False)
    _patterns: tuple[re.Pattern[str], ...] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_words", frozenset(self.written))
        patterns = tuple(map(_compiled, (t for t in self.written if not _NAME.fullmatch(t))))
        object.__setattr__(self, "_patterns", patterns)

    @property
    def has_patterns(self) -> bool:
        """Whether any of them is a regular expression."""
        return bool(self._patterns)

    def has(self, user: str) -> bool:
        """Whether `user` is one of them."""
        return user in self._words or any(each.fullmatch(user) for each in self._patterns)


def _compiled(text: str) -> re.Pattern[str]:
    """Return the expression `text`; what it may mean to a later Python is no concern of a user."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)
        return re.compile(text)


@value
class Tier:
    """Capacity bought on the same terms; the file lists the best first."""

    name: str
    """Its name in the file, else its index: `0` is the best."""
    units: Amounts


@value
class Project:
    """One project: its users, and what it may hold."""

    name: str
    members: People = People()
    admins: People = People()
    """Users who may change, stop and hold other members' jobs."""
    fractions: Mapping[str, Decimal] = field(default_factory=dict)
    """Of the total, by type, as the file has them."""
    nominal: Amounts = NOTHING
    """Its own share."""
    ceiling: Amounts = NOTHING
    """The most it may ever hold, own and borrowed; never below `nominal`."""
    kept: Amounts = NOTHING
    """The part of `nominal` that is not lent even while unused."""
    order: ProjectOrder = "fair"
    """Which member's jobs go first: those of the one with less usage, or those submitted first."""
    group: str = ""
    """The group that contains it, or empty."""
    weight: float = 1.0
    """Its part of idle capacity, as a multiple of what its share would give it."""
    borrow: bool = True
    """Whether it may hold more than `nominal`."""
    budget: Budget = UNBOUNDED
    """How much it may use per period."""
    limits: Limits = UNLIMITED
    """The limits of every user who has none of their own."""
    user_limits: tuple[tuple[People, Limits], ...] = ()
    """The limits of some users, the first match counts; open values are already filled in."""

    @property
    def lending_limit(self) -> Amounts:
        """The part of `nominal` that may be lent while unused."""
        return self.nominal - self.kept

    @property
    def has_user_limits(self) -> bool:
        """Whether any user is limited in what may be had at the same time."""
        every = (self.limits, *(limits for _, limits in self.user_limits))
        return any(each.max_units or each.max_running is not None for each in every)

    def limits_of(self, user: str) -> Limits:
        """Return what `user` may ask for and have at the same time in this project."""
        for people, limits in self.user_limits:
            if people.has(user):
                return limits
        return self.limits

    def has_member(self, user: str) -> bool:
        """Whether `user` may charge jobs to it."""
        return self.members.has(user)

    def has_admin(self, user: str) -> bool:
        """Whether `user` may change, stop and hold other members' jobs."""
        return self.admins.has(user)


@value
class Group:
    """Projects, and groups of them, that lend to each other first."""

    name: str
    members: tuple[str, ...]
    """Names of projects and groups, sorted; never empty."""
    group: str = ""
    """The group that contains it, or empty."""
    fractions: Mapping[str, Decimal] = field(default_factory=dict)
    """Of the total, by type: what the file gives it, or else the sum of its members."""
    nominal: Amounts = NOTHING
    """Its own share: never less than those of its members together."""
    ceiling: Amounts = NOTHING
    """The most that its members may hold together; never below `nominal`."""
    kept: Amounts = NOTHING
    """The part of `nominal` that is not lent outside the group even while unused."""
    weight: float = 1.0
    """Its part of idle capacity, as a multiple of what its share would give it."""
    budget: Budget = UNBOUNDED
    """How much its members together may use per period."""

    @property
    def lending_limit(self) -> Amounts:
        """The part of `nominal` that may be lent outside the group while unused."""
        return self.nominal - self.kept


Node = Project | Group
"""What may hold something, and has a share."""


_SHOWN = 8
"""The most projects shown in one line."""


@value
class Quota:
    """A whole quota file."""

    tiers: tuple[Tier, ...]
    """Best first."""
    types: frozenset[str]
    """The types under quota; every other type only limits placement."""
    projects: Mapping[str, Project]
    """By name, sorted."""
    scheduler: SchedulerOptions = DEFAULTS
    groups: Mapping[str, Group] = field(default_factory=dict)
    """By name, sorted; without any, all projects are siblings."""
    maintenance: tuple[Window, ...] = ()
    """By their start."""
    lines: Mapping[Path, int] = field(default_factory=dict, compare=False, repr=False)
    """The position of everything in the text that this was read from; empty without a text."""
    totals: Amounts = field(init=False, compare=False)
    """The sum of all tiers."""
    unassigned: Amounts = field(init=False, compare=False)
    """The part of `totals` that is in no share: anyone may borrow it."""
    _paths: Mapping[str, tuple[Group, ...]] = field(init=False, compare=False, repr=False)
    _chains: Mapping[str, tuple[Node, ...]] = field(init=False, compare=False, repr=False)
    budgets: Mapping[str, Budget] = field(init=False, compare=False, repr=False)
    """By project or group, of those that have one."""
    _kin: Mapping[str, tuple[str, ...]] = field(init=False, compare=False, repr=False)
    """Outermost group -> the projects in it."""
    _weights: Mapping[str, float] = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        totals = Amounts.sum(tier.units for tier in self.tiers)
        nodes: list[Node] = [*self.projects.values(), *self.groups.values()]
        assigned = Amounts.sum(node.nominal for node in self.top())
        object.__setattr__(self, "totals", totals)
        object.__setattr__(self, "unassigned", totals - assigned)
        paths = {node.name: self._path(node.group) for node in nodes if node.group}
        object.__setattr__(self, "_paths", paths)
        chains = {node.name: (node, *paths.get(node.name, ())) for node in nodes}
        object.__setattr__(self, "_chains", chains)
        budgets = {node.name: node.budget for node in nodes if node.budget}
        object.__setattr__(self, "budgets", budgets)
        kin: dict[str, tuple[str, ...]] = {}
        for name in self.projects:
            for group in paths.get(name, ())[-1:]:
                kin[group.name] = (*kin.get(group.name, ()), name)
        object.__setattr__(self, "_kin", kin)
        weights = {node.name: _weight(node, totals) for node in nodes}
        object.__setattr__(self, "_weights", weights)

    def __repr__(self) -> str:
        """The totals and the share of each project, in one line at a prompt."""
        shares = [f"{each.name} {each.nominal}" for each in self.projects.values()]
        more = len(shares) - _SHOWN
        shown = ", ".join(shares[:_SHOWN]) + (f" and {more} more" if more > 0 else "")
        return f"<{self.totals}: {shown or 'no projects'}>"

    def _path(self, group: str) -> tuple[Group, ...]:
        path = []
        while group:
            path.append(self.groups[group])
            group = path[-1].group
        return tuple(path)

    def groups_of(self, name: str) -> tuple[Group, ...]:
        """Return the groups around a project or group, the nearest first; usually none."""
        return self._paths.get(name, ())

    def kin(self, name: str) -> tuple[str, ...]:
        """Return all projects in the outermost group of a project or a group; without one, none."""
        groups = self.groups_of(name)
        return self._kin.get(groups[-1].name if groups else name, ())

    def meeting(self, project: str, other: str) -> str:
        """Return the nearest group of both projects, or empty; of one project, that project."""
        if project == other:
            return project
        theirs = [group.name for group in self.groups_of(other)]
        return next((each.name for each in self.groups_of(project) if each.name in theirs), "")

    def node(self, name: str) -> Node:
        """Return the group of that name, or else the project; see `project` for an unknown name."""
        return self.groups.get(name) or self.project(name)

    def chain(self, name: str) -> tuple[Node, ...]:
        """Return the group or project of that name and the groups around it, the nearest first."""
        return self._chains.get(name) or (self.node(name), *self.groups_of(name))

    def top(self) -> list[Node]:
        """Return the groups and projects that are in no group."""
        nodes: list[Node] = [*self.projects.values(), *self.groups.values()]
        return [node for node in nodes if not node.group]

    def weight(self, name: str) -> float:
        """
        Return the preference of a project or group in dividing idle capacity, above 0.

        It is the largest fraction of a total in its share, times the `weight` of the file. Without
        a share, or outside the file, it counts as less than one unit, so it never ties with an
        owner of the same written weight.
        """
        known = self._weights.get(name)
        return _weight(Project(name=name), self.totals) if known is None else known

    def place(self, *path: str | int) -> str:
        """Return the place of `path` in the file, such as `project_options.p.lend.v4, line 7`."""
        line = f", line {line_of(self.lines, path)}" if self.lines else ""
        return f"{shown(path)}{line}"

    def place_of_limit(self, project: str, user: str, *key: str) -> str:
        """Return the `place` of a limit of `user`: the user's own if the file has one."""
        own: Path = ("project_options", project, "users")
        for people, _ in self.projects[project].user_limits if project in self.projects else ():
            if people.has(user):
                path = (*own, people.written[0], *key)
                if path in self.lines:
                    return self.place(*path)
                break
        of_all = {"max_units": "max_units_per_user", "max_running": "max_running_per_user"}
        return self.place(*own[:2], of_all.get(key[0], key[0]), *key[1:])

    def project(self, name: str) -> Project:
        """
        Return the project of that name.

        One that is not (or no longer) in the file has no members, no share and a ceiling of
        nothing: what its jobs still hold counts as borrowed, and it gets nothing new.
        """
        return self.projects.get(name) or Project(name=name)

    def projects_of(self, user: str) -> tuple[str, ...]:
        """Return the names of all projects of which `user` is a member, sorted."""
        return tuple(name for name, project in self.projects.items() if project.has_member(user))

    def resolve_project(self, user: str, project: str | None) -> str | ProjectRefusal:
        """
        Return the project that a request of `user` is charged to, or why there is none.

        Args:
            user: The user of the request.
            project: What the request names; with None the user's only project is meant.
        """
        own = self.projects_of(user)
        if project is None and len(own) == 1:
            return own[0]
        if project is not None and project in own:
            return project
        return self._refusal(user, project, own)

    def _refusal(self, user: str, project: str | None, own: tuple[str, ...]) -> ProjectRefusal:
        from quota.refusal import AmbiguousProject, NoProject, NotMember, UnknownProject

        if project is None:
            return AmbiguousProject(user=user, projects=own) if own else NoProject(user=user)
        if project not in self.projects:
            return UnknownProject(project=project, nearest=self._nearest(project), projects=own)
        return NotMember(user=user, project=project, projects=own)

    def _nearest(self, project: str) -> str:
        import difflib

        return next(iter(difflib.get_close_matches(project, self.projects, n=1)), "")


def _weight(node: Node, totals: Amounts) -> float:
    shares = [units / max(1, totals[resource]) for resource, units in node.nominal.items()]
    half_a_unit = 0.5 / max((units for _, units in totals.items()), default=1)
    return node.weight * max(shares, default=half_a_unit)
