"""
The three tables about projects: their members, their fractions, their options.

Fractions stay as written; `quota.file.shares` converts them to units once everything is valid. A
project exists if it has members.

Of the rest of the file, this module must know only the types and their totals.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from decimal import Context, Decimal

from quota.amounts import Amounts
from quota.budget import UNBOUNDED, Budget
from quota.file.checks import Checks
from quota.file.limits import read_limits, read_user_limits
from quota.limits import Limits
from quota.lines import Path
from quota.options import PROJECT_ORDERS, ProjectOrder
from quota.pattern import pattern
from quota.tree import People, Project
from quota.value import value

NAME = pattern(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}")
"""A project is a folder of the bucket, so its name is one plain part of a path."""

OPTIONS = (
    "ceiling",
    "lend",
    "order",
    "admins",
    "borrow",
    "weight",
    "budget",
    "budget_period",
    "default_max_runtime",
    "max_max_runtime",
    "max_units_per_user",
    "max_running_per_user",
    "users",
)
"""Keys of `[project_options.PROJECT]`."""

MOST_WEIGHT = 1000
"""The most by which the weights of two projects of equal share may differ, as a factor."""

Fractions = Mapping[str, Decimal]
"""By type, as the file has them."""

EXACT = Context(prec=100)
"""Fractions have at most 50 places and are at most 1: their sums fit without rounding."""
_ALL = Decimal(1)


@value
class WrittenProject:
    """One project as the file has it, before its fractions become units."""

    name: str
    members: People
    admins: People
    fractions: Fractions
    ceiling: Fractions
    lend: Fractions
    order: ProjectOrder
    borrow: bool
    weight: float
    budget: Budget
    limits: Limits
    user_limits: tuple[tuple[People, Limits], ...]

    def project(self, totals: Amounts, nominal: Amounts, group: str) -> Project:
        """Return the project in whole units; ceilings and lending limits are rounded down."""
        return Project(
            name=self.name,
            members=self.members,
            admins=self.admins,
            fractions=self.fractions,
            nominal=nominal,
            ceiling=most_of(totals, self.ceiling) | nominal,
            kept=nominal - most_of(nominal, self.lend),
            order=self.order,
            group=group,
            weight=self.weight,
            borrow=self.borrow,
            budget=self.budget,
            limits=self.limits,
            user_limits=self.user_limits,
        )


def most_of(units: Amounts, fractions: Fractions) -> Amounts:
    """Return `units`, limited to a written fraction of them; rounded down."""
    return Amounts({r: _cut(n, fractions.get(r, _ALL)) for r, n in units.items()})


def _cut(units: int, fraction: Decimal) -> int:
    """Return a fraction of `units`, exactly, rounded down."""
    parts, whole = fraction.as_integer_ratio()
    return units * parts // whole


def read_projects(
    checks: Checks, file: Mapping[str, object], types: Collection[str] | None
) -> tuple[WrittenProject, ...]:
    """
    Return every project of the file, by name.

    Args:
        checks: Takes every problem.
        file: The whole file.
        types: The types under quota; None if the file does not say, so that this is reported once.
    """
    members = _members(checks, file)
    shares = _by_project(checks, file, "project_resources", members)
    options = _by_project(checks, file, "project_options", members)
    return tuple(
        _written(checks, name, members.get(name, People()), shares, options, types)
        for name in sorted({*members, *shares, *options})
    )


def _members(checks: Checks, file: Mapping[str, object]) -> dict[str, People]:
    path: Path = ("project_membership",)
    if "project_membership" not in file:
        checks.note(path, "missing, list the users of every project")
    members = {}
    for name, users in checks.table(file.get("project_membership"), path).items():
        if not NAME.fullmatch(name):
            checks.note(
                (*path, name),
                "not a project name, write up to 63 letters, digits, dots, dashes and underscores, "
                "a letter or digit first",
            )
        elif name.endswith("-bastion"):
            checks.note((*path, name), "names that end in -bastion are those of bastions")
        if users == []:
            checks.note((*path, name), "a project without members, name at least one user")
        members[name] = checks.people(users, (*path, name))
    return members


def _by_project(
    checks: Checks, file: Mapping[str, object], key: str, members: Mapping[str, People]
) -> dict[str, Mapping[str, object]]:
    """Return the tables under `key`; each must be named for a project with members."""
    tables = {}
    for name, table in checks.table(file.get(key), (key,)).items():
        if "project_membership" in file:
            checks.known(name, (key, name), members, "not a project of project_membership")
        tables[name] = checks.table(table, (key, name))
    return tables


def _written(
    checks: Checks,
    name: str,
    members: People,
    shares: Mapping[str, Mapping[str, object]],
    options: Mapping[str, Mapping[str, object]],
    types: Collection[str] | None,
) -> WrittenProject:
    path: Path = ("project_options", name)
    table = options.get(name, {})
    checks.keys(table, path, OPTIONS)
    admins = checks.people(table["admins"], (*path, "admins")) if "admins" in table else People()
    ceiling = checks.table(table.get("ceiling"), (*path, "ceiling"))
    lend = checks.table(table.get("lend"), (*path, "lend"))
    limits = read_limits(checks, table, path, types)
    written = WrittenProject(
        name=name,
        members=members,
        admins=admins,
        fractions=fractions(checks, shares.get(name, {}), ("project_resources", name), types),
        ceiling=fractions(checks, ceiling, (*path, "ceiling"), types),
        lend=fractions(checks, lend, (*path, "lend"), types),
        order=checks.word(table, path, "order", PROJECT_ORDERS, "fair"),
        borrow=checks.flag(table, path, "borrow", default=True),
        weight=checks.number(table, path, "weight", 1.0, most=MOST_WEIGHT, above=True),
        budget=_budget(checks, table, path, types),
        limits=limits,
        user_limits=read_user_limits(checks, table, path, types, limits),
    )
    check_ceiling(checks, written.ceiling, written.fractions, path, "the project's own fraction")
    return written


def _budget(
    checks: Checks, table: Mapping[str, object], path: Path, types: Collection[str] | None
) -> Budget:
    """Read the budget. Most projects have none: its reader is loaded for those that do."""
    if "budget" not in table and "budget_period" not in table:
        return UNBOUNDED
    from quota.file.budget import read_budget

    return read_budget(checks, table, path, types)


def fractions(
    checks: Checks, table: Mapping[str, object], path: Path, types: Collection[str] | None
) -> dict[str, Decimal]:
    """Return the valid fractions by type; see `read_projects` for `types`."""
    found = {}
    for resource, written in table.items():
        if types is not None:
            checks.known(resource, (*path, resource), types, "a type without total_resources")
        fraction = checks.fraction(written, (*path, resource))
        if fraction is not None:
            found[resource] = fraction
    return found


def check_ceiling(
    checks: Checks, ceiling: Fractions, own: Fractions, path: Path, whose: str
) -> None:
    """Check that the ceiling is not below the project's own share."""
    for resource, most in ceiling.items():
        share = own.get(resource, Decimal(0))
        if most < share:
            text = f"{most} is below {whose}, write at least {share}"
            checks.note((*path, "ceiling", resource), text)
