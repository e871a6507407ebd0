"""
`Quota`, `Group` and `Project`: a quota file in whole units, ready to be asked.

Rules: shares are whole units of the sum of all tiers; a type is under quota exactly when the file
gives it a total, even a total of zero. Groups and projects form trees: no two have one name, each
is in at most one group. Values made here come from `quota.file.config`, which has checked them.

It must not know jobs: usage is an argument of `quota.ledger`.
"""

from __future__ import annotations

import re
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

A dot alone makes no pattern: `jo.doe` in a member list must not let `joxdoe` in.
"""


@value
class People:
    """
    Some users, by name or by regular expression.

    Raises:
        re.error: An expression is not valid.
    """

    written: tuple[str, ...] = ()
    """As the file has them. Letters, digits and `_ . @ -` alone are a name; the rest must match in
    full as an expression."""
    _words: frozenset[str] = field(init=False, repr=False, compare=False)
    _patterns: tuple[re.Pattern[str], ...] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_words", frozenset(self.written))
        patterns = tuple(re.compile(text) for text in self.written if not _NAME.fullmatch(text))
        object.__setattr__(self, "_patterns", patterns)

    @property
    def has_patterns(self) -> bool:
        """Whether any of them is a regular expression."""
        return bool(self._patterns)

    def has(self, user: str) -> bool:
        """Whether `user` is one of them."""
        return user in self._words or any(each.fullmatch(user) for each in self._patterns)


@value
class Tier:
    """Capacity bought on the same terms; the file lists the best first."""

    name: str
    """As the file names it, else its index: `0` is the best."""
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
    """Which member's jobs go first: those of the one with less usage, or the first to ask."""
    group: str = ""
    """The group that it is in, or empty."""
    weight: float = 1.0
    """Its part of idle capacity, as a multiple of what its share would give it."""
    borrow: bool = True
    """Whether it may hold more than `nominal`."""
    budget: Budget = UNBOUNDED
    """How much it may use in a period."""
    limits: Limits = UNLIMITED
    """Of every user who has none of their own."""
    user_limits: tuple[tuple[People, Limits], ...] = ()
    """Of some users, the first that matches; what they leave open is already filled in."""

    @property
    def lending_limit(self) -> Amounts:
        """The part of `nominal` that may be lent while unused."""
        return self.nominal - self.kept

    @property
    def has_user_limits(self) -> bool:
        """Whether any user is limited in what may be had at once."""
        every = (self.limits, *(limits for _, limits in self.user_limits))
        return any(each.max_units or each.max_running is not None for each in every)

    def limits_of(self, user: str) -> Limits:
        """What `user` may ask for and have at once in this project."""
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
    """The group that it is in, or empty."""
    fractions: Mapping[str, Decimal] = field(default_factory=dict)
    """Of the total, by type: what the file gives it, or else what its members have together."""
    nominal: Amounts = NOTHING
    """Its own share: never less than those of its members together."""
    ceiling: Amounts = NOTHING
    """The most that its members may hold together; never below `nominal`."""
    kept: Amounts = NOTHING
    """The part of `nominal` that is not lent outside the group even while unused."""
    weight: float = 1.0
    """Its part of idle capacity, as a multiple of what its share would give it."""
    budget: Budget = UNBOUNDED
    """How much its members together may use in a period."""

    @property
    def lending_limit(self) -> Amounts:
        """The part of `nominal` that may be lent outside the group while unused."""
        return self.nominal - self.kept


Node = Project | Group
"""What may hold something, and has a share."""


_SHOWN = 8
"""Projects in one line."""


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
    """By name, sorted; without any, all projects are beside each other."""
    maintenance: tuple[Window, ...] = ()
    """By their beginning."""
    lines: Mapping[Path, int] = field(default_factory=dict, compare=False, repr=False)
    """Where everything stands in the text that this was read from; empty without a text."""
    totals: Amounts = field(init=False, compare=False)
    """The sum of all tiers."""
    unassigned: Amounts = field(init=False, compare=False)
    """The part of `totals` that is no project's and no group's share: anyone may borrow it."""
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
        """The groups that a project or a group is in, the nearest first; most often none."""
        return self._paths.get(name, ())

    def kin(self, name: str) -> tuple[str, ...]:
        """All projects in the outermost group of a project or a group; without one, none."""
        groups = self.groups_of(name)
        return self._kin.get(groups[-1].name if groups else name, ())

    def node(self, name: str) -> Node:
        """The group of that name, or else the project; see `project` for one that is neither."""
        return self.groups.get(name) or self.project(name)

    def chain(self, name: str) -> tuple[Node, ...]:
        """The group or project of that name and the groups that it is in, the nearest first."""
        return self._chains.get(name) or (self.node(name), *self.groups_of(name))

    def top(self) -> list[Node]:
        """The groups and projects that are in no group."""
        nodes: list[Node] = [*self.projects.values(), *self.groups.values()]
        return [node for node in nodes if not node.group]

    def weight(self, name: str) -> float:
        """
        By how much a project or a group is to be preferred in dividing idle capacity, above 0.

        It is the largest fraction of a total that its share is, times the `weight` of the file.
        Without a share, or out of the file, it counts as less than one unit, so it never ties with
        an owner of the same written weight.
        """
        known = self._weights.get(name)
        return _weight(Project(name=name), self.totals) if known is None else known

    def place(self, *path: str | int) -> str:
        """What stands at `path` in the file, for messages: `project_options.p.lend.v4, line 7`."""
        line = f", line {line_of(self.lines, path)}" if self.lines else ""
        return f"{shown(path)}{line}"

    def place_of_limit(self, project: str, user: str, *key: str) -> str:
        """As `place`, of a limit that holds for `user`: its own where the file has one."""
        own: Path = ("project_options", project, "users")
        for people, _ in self.projects[project].user_limits if project in self.projects else ():
            if people.has(user):
                path = (*own, people.written[0], *key)
                if path[:5] in self.lines:
                    return self.place(*path)
                break
        of_all = {"max_units": "max_units_per_user", "max_running": "max_running_per_user"}
        return self.place(*own[:2], of_all.get(key[0], key[0]), *key[1:])

    def project(self, name: str) -> Project:
        """
        The project of that name.

        One that is not (or no longer) in the file has no members, no share and a ceiling of
        nothing: what its jobs still hold counts as borrowed, and it gets nothing new.
        """
        return self.projects.get(name) or Project(name=name)

    def projects_of(self, user: str) -> tuple[str, ...]:
        """The names of all projects that `user` is a member of, sorted."""
        return tuple(name for name, project in self.projects.items() if project.has_member(user))

    def resolve_project(self, user: str, project: str | None) -> str | ProjectRefusal:
        """
        The project that a request of `user` is charged to, or why there is none.

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
