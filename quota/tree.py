"""
`Quota` and `Project`: a quota file in whole units, ready to be asked.

Rules: shares are whole units of the sum of all tiers; a type is under quota exactly when the file
gives it a total, even a total of zero. Values made here come from `quota.config.parse`, which has
checked them.

It must not know who runs what: usage is an argument of `quota.ledger`.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import Decimal

from quota.amounts import NOTHING, Amounts
from quota.options import DEFAULTS, ProjectOrder, SchedulerOptions
from quota.refusal import AmbiguousProject, NoProject, NotMember, ProjectRefusal, UnknownProject

_NAME = re.compile(r"[\w.@-]+")
"""
What is a user's name and not a pattern.

A dot alone makes no pattern: `jo.doe` in a member list must not let `joxdoe` in.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
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

    def has(self, user: str) -> bool:
        """Whether `user` is one of them."""
        return user in self._words or any(each.fullmatch(user) for each in self._patterns)


@dataclass(frozen=True, slots=True, kw_only=True)
class Tier:
    """Capacity bought on the same terms; the file lists the best first."""

    name: str
    """As the file names it, else its index: `0` is the best."""
    units: Amounts


@dataclass(frozen=True, slots=True, kw_only=True)
class Project:
    """What one project may hold, and who it is."""

    name: str
    members: People = People()
    admins: People = People()
    """Those who may change, stop and hold other members' jobs."""
    fractions: Mapping[str, Decimal] = field(default_factory=dict)
    """Of the total, by type, as the file has them."""
    nominal: Amounts = NOTHING
    """Its own share."""
    ceiling: Amounts = NOTHING
    """The most it may ever hold, own and borrowed; never below `nominal`."""
    kept: Amounts = NOTHING
    """The part of `nominal` that is not lent even while unused."""
    order: ProjectOrder = "fair"
    """Who of its members goes first: the one with less usage, or the first to ask."""

    @property
    def lending_limit(self) -> Amounts:
        """The part of `nominal` that may be lent while unused."""
        return self.nominal - self.kept

    def has_member(self, user: str) -> bool:
        """Whether `user` may charge jobs to it."""
        return self.members.has(user)

    def has_admin(self, user: str) -> bool:
        """Whether `user` may change, stop and hold other members' jobs."""
        return self.admins.has(user)


@dataclass(frozen=True, slots=True, kw_only=True)
class Quota:
    """A whole quota file."""

    tiers: tuple[Tier, ...]
    """Best first."""
    types: frozenset[str]
    """The types under quota; every other type only limits placement."""
    projects: Mapping[str, Project]
    """By name, sorted."""
    scheduler: SchedulerOptions = DEFAULTS
    totals: Amounts = field(init=False, compare=False)
    """The sum of all tiers."""
    unassigned: Amounts = field(init=False, compare=False)
    """The part of `totals` that is no project's share: anyone may borrow it."""

    def __post_init__(self) -> None:
        totals = Amounts.sum(tier.units for tier in self.tiers)
        assigned = Amounts.sum(project.nominal for project in self.projects.values())
        object.__setattr__(self, "totals", totals)
        object.__setattr__(self, "unassigned", totals - assigned)

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
            user: Who asks.
            project: What the request names; with None the user's only project is meant.
        """
        own = self.projects_of(user)
        if project is None:
            match own:
                case ():
                    return NoProject(user=user)
                case (only,):
                    return only
                case _:
                    return AmbiguousProject(user=user, projects=own)
        if project not in self.projects:
            return UnknownProject(project=project, nearest=self._nearest(project), projects=own)
        return project if project in own else NotMember(user=user, project=project, projects=own)

    def _nearest(self, project: str) -> str:
        return next(iter(difflib.get_close_matches(project, self.projects, n=1)), "")
