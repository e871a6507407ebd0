"""
The three tables about projects: who is in them, their fractions, their options.

Rules: fractions become whole units only here, after everything was found right. A project is a
project because it has members.

It must not know what the rest of the file says but the types and their totals.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from decimal import Context, Decimal
from fractions import Fraction

from quota.amounts import Amounts
from quota.apportion import nominal_units
from quota.checks import Checks
from quota.lines import Path
from quota.options import PROJECT_ORDERS, ProjectOrder
from quota.tree import People, Project

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}")
"""A project is a folder of the bucket, so its name is one plain part of a path."""

_OPTIONS = ("ceiling", "lend", "order", "admins")

_EXACT = Context(prec=100)
"""Fractions have at most 50 places and are at most 1: their sums fit without rounding."""

_SHARES_SHOWN = 12
"""Summands listed in a message, so that it stays one line."""

_Fractions = Mapping[str, Decimal]


@dataclass(frozen=True, slots=True, kw_only=True)
class Written:
    """One project as the file has it, before its fractions become units."""

    name: str
    members: People
    admins: People
    fractions: _Fractions
    ceiling: _Fractions
    lend: _Fractions
    order: ProjectOrder

    def project(self, totals: Amounts, nominal: Amounts) -> Project:
        """The project in whole units: ceilings and what is lent are rounded down."""
        lent = {r: int(Fraction(self.lend.get(r, 1)) * n) for r, n in nominal.items()}
        most = {r: int(Fraction(self.ceiling.get(r, 1)) * n) for r, n in totals.items()}
        return Project(
            name=self.name,
            members=self.members,
            admins=self.admins,
            fractions=self.fractions,
            nominal=nominal,
            ceiling=Amounts(most) | nominal,
            kept=nominal - Amounts(lent),
            order=self.order,
        )


def read_projects(
    checks: Checks, file: Mapping[str, object], types: Collection[str] | None
) -> tuple[Written, ...]:
    """
    Every project of the file, by name.

    Args:
        checks: Takes every problem.
        file: The whole file.
        types: The types under quota; None when the file does not say, so that this is told once.
    """
    members = _members(checks, file)
    shares = _by_project(checks, file, "project_resources", members)
    options = _by_project(checks, file, "project_options", members)
    written = tuple(
        _written(checks, name, members.get(name, People()), shares, options, types)
        for name in sorted({*members, *shares, *options})
    )
    _check_sums(checks, written, tuple(shares))
    return written


def in_units(written: Iterable[Written], totals: Amounts) -> dict[str, Project]:
    """The projects by name, their fractions of `totals` as whole units."""
    projects = tuple(written)
    units: dict[str, dict[str, int]] = {each.name: {} for each in projects}
    for resource, total in totals.items():
        fractions = {each.name: Fraction(each.fractions.get(resource, 0)) for each in projects}
        for name, share in nominal_units(total, fractions).items():
            units[name][resource] = share
    return {each.name: each.project(totals, Amounts(units[each.name])) for each in projects}


def _members(checks: Checks, file: Mapping[str, object]) -> dict[str, People]:
    path: Path = ("project_membership",)
    if "project_membership" not in file:
        checks.note(path, "missing, list the users of every project")
    members = {}
    for name, users in checks.table(file.get("project_membership"), path).items():
        if not _NAME.fullmatch(name):
            checks.note(
                (*path, name),
                "not a project name, write up to 63 letters, digits, dots, dashes and underscores, "
                "a letter or digit first",
            )
        if users == []:
            checks.note((*path, name), "a project without members, name at least one user")
        members[name] = checks.people(users, (*path, name))
    return members


def _by_project(
    checks: Checks, file: Mapping[str, object], key: str, members: Mapping[str, People]
) -> dict[str, Mapping[str, object]]:
    """The tables under `key`, which must all be named for a project with members."""
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
) -> Written:
    path: Path = ("project_options", name)
    table = options.get(name, {})
    checks.keys(table, path, _OPTIONS)
    admins = checks.people(table["admins"], (*path, "admins")) if "admins" in table else People()
    ceiling = checks.table(table.get("ceiling"), (*path, "ceiling"))
    lend = checks.table(table.get("lend"), (*path, "lend"))
    written = Written(
        name=name,
        members=members,
        admins=admins,
        fractions=_fractions(checks, shares.get(name, {}), ("project_resources", name), types),
        ceiling=_fractions(checks, ceiling, (*path, "ceiling"), types),
        lend=_fractions(checks, lend, (*path, "lend"), types),
        order=checks.word(table, path, "order", PROJECT_ORDERS, "fair"),
    )
    _check_ceiling(checks, written)
    return written


def _fractions(
    checks: Checks, table: Mapping[str, object], path: Path, types: Collection[str] | None
) -> dict[str, Decimal]:
    fractions = {}
    for resource, value in table.items():
        if types is not None:
            checks.known(resource, (*path, resource), types, "a type without total_resources")
        fraction = checks.fraction(value, (*path, resource))
        if fraction is not None:
            fractions[resource] = fraction
    return fractions


def _check_ceiling(checks: Checks, written: Written) -> None:
    """A ceiling below the project's own share would take back what the share promises."""
    for resource, most in written.ceiling.items():
        own = written.fractions.get(resource, Decimal(0))
        if most < own:
            path: Path = ("project_options", written.name, "ceiling", resource)
            checks.note(path, f"{most} is below the project's own fraction, write at least {own}")


def _check_sums(checks: Checks, written: Iterable[Written], in_file_order: Iterable[str]) -> None:
    """The fractions of one type, over all projects, may not exceed 1."""
    by_name = {each.name: each.fractions for each in written}
    shares: dict[str, dict[str, Decimal]] = {}
    for name in in_file_order:
        for resource, fraction in by_name[name].items():
            shares.setdefault(resource, {})[name] = fraction
    for resource, parts in shares.items():
        total = Decimal(0)
        for fraction in parts.values():
            total = _EXACT.add(total, fraction)
        if total > 1:
            last = next(reversed(parts))
            listed = ", ".join(f"{n} {f}" for n, f in list(parts.items())[:_SHARES_SHOWN])
            more = ", ..." if len(parts) > _SHARES_SHOWN else ""
            checks.note(
                ("project_resources", last, resource),
                f"the fractions of {resource} add up to {total.normalize(_EXACT):f} "
                f"({listed}{more}), allowed is at most 1",
            )
