"""
The tables of groups: which projects and groups lend to each other first, and what they share.

A group is what has a table of its own. A project or a group is a member of at most one group, and
no group is inside itself.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from decimal import Decimal

from quota.amounts import Amounts
from quota.budget import Budget
from quota.file.budget import read_budget
from quota.file.checks import Checks
from quota.file.projects import (
    EXACT,
    MOST_WEIGHT,
    NAME,
    Fractions,
    WrittenProject,
    check_ceiling,
    fractions,
    most_of,
)
from quota.lines import Path
from quota.tree import Group
from quota.value import value

KEYS = ("members", "share", "ceiling", "lend", "weight", "budget", "budget_period")
"""Of `[project_groups.GROUP]`."""

MOST_LEVELS = 8
"""Groups around a project: deeper than any company, and cheap to walk up."""


@value
class WrittenGroup:
    """One group as the file has it, before its fractions become units."""

    name: str
    members: tuple[str, ...]
    share: Fractions
    ceiling: Fractions
    lend: Fractions
    weight: float
    budget: Budget
    group: str
    fractions: Fractions
    """`share`, and for other types the sum of its members."""

    def made(self, totals: Amounts, nominal: Amounts) -> Group:
        """Return the group in whole units; ceilings and lending limits are rounded down."""
        return Group(
            name=self.name,
            members=self.members,
            group=self.group,
            fractions=self.fractions,
            nominal=nominal,
            ceiling=most_of(totals, self.ceiling) | nominal,
            kept=nominal - most_of(nominal, self.lend),
            weight=self.weight,
            budget=self.budget,
        )


def read_groups(
    checks: Checks,
    file: Mapping[str, object],
    projects: Sequence[WrittenProject],
    types: Collection[str] | None,
) -> tuple[WrittenGroup, ...]:
    """
    Return every group of the file, inner groups before outer ones.

    The result is empty if the membership is uncertain: with missing members, sums of groups would
    be reported as too large.

    Args:
        checks: Takes every problem.
        file: The whole file.
        projects: All of them.
        types: The types under quota; None if the file does not say.
    """
    own = {each.name: each.fractions for each in projects}
    top: Path = ("project_groups",)
    written_tables = checks.table(file.get("project_groups"), top)
    tables = {name: checks.table(each, (*top, name)) for name, each in written_tables.items()}
    for name in tables:
        if not NAME.fullmatch(name):
            text = "not a name of a group, write letters, digits, dots, dashes and underscores"
            checks.note((*top, name), text)
        if name in own:
            checks.note((*top, name), "a project has this name, give the group another")
        checks.keys(tables[name], (*top, name), KEYS)
    faults = checks.count
    sound = {name: tables[name] for name, each in written_tables.items() if isinstance(each, dict)}
    inside = _parents(checks, sound, own.keys() | tables.keys())
    written: dict[str, WrittenGroup] = {}
    order = _inner_first(checks, tables, inside)
    is_certain = checks.count == faults
    for name in order:
        members = tuple(sorted(each for each, group in inside.items() if group == name))
        has = [own[each] for each in members if each in own]
        has += [written[each].fractions for each in members if each in written]
        written[name] = _written(checks, name, tables[name], members, inside, has, types)
    return tuple(written.values()) if is_certain else ()


def _parents(
    checks: Checks, tables: Mapping[str, Mapping[str, object]], names: Collection[str]
) -> dict[str, str]:
    """Return member -> its group, for every valid member; `names` of all projects and groups."""
    inside: dict[str, str] = {}
    for name, table in tables.items():
        path: Path = ("project_groups", name, "members")
        if not table.get("members"):
            checks.note(path, "a group without members, name at least one project or group")
            continue
        for index, member in enumerate(checks.words(table["members"], path, "projects and groups")):
            at = (*path, index)
            if member not in names:
                others = [each for each in names if each != name]
                checks.known(member, at, others, "no project and no group")
            elif member in inside:
                checks.note(at, f"{member} is in {inside[member]} already, list it once")
            else:
                inside[member] = name
    return inside


def _inner_first(checks: Checks, tables: Collection[str], inside: dict[str, str]) -> list[str]:
    """Return the groups by depth, deepest first; one inside itself is removed from its group."""
    depths: dict[str, int] = {}
    for name in tables:
        path = [name]
        while (group := inside.get(path[-1])) is not None and group not in path:
            path.append(group)
            if len(path) > MOST_LEVELS:
                break
        if group is not None and len(path) <= MOST_LEVELS:
            del inside[path[-1]]
            checks.note(
                ("project_groups", group, "members"),
                f"{group} is inside itself ({' in '.join((*path, group))}), take one of them out",
            )
        elif len(path) > MOST_LEVELS:
            text = f"more than {MOST_LEVELS} groups inside each other, take it out of one"
            checks.note(("project_groups", name), text)
        depths[name] = len(path)
    return sorted(tables, key=lambda name: (-depths[name], name))


def _written(
    checks: Checks,
    name: str,
    table: Mapping[str, object],
    members: tuple[str, ...],
    inside: Mapping[str, str],
    has: Sequence[Fractions],
    types: Collection[str] | None,
) -> WrittenGroup:
    path: Path = ("project_groups", name)
    read = {
        key: fractions(checks, checks.table(table.get(key), (*path, key)), (*path, key), types)
        for key in ("share", "ceiling", "lend")
    }
    together: dict[str, Decimal] = {}
    for each in has:
        for resource, fraction in each.items():
            together[resource] = EXACT.add(together.get(resource, Decimal(0)), fraction)
    for resource, share in read["share"].items():
        theirs = together.get(resource, Decimal(0)).normalize(EXACT)
        if share < theirs:
            text = f"{share} is below what its members have together, write at least {theirs:f}"
            checks.note((*path, "share", resource), text)
    own = {**together, **read["share"]}
    check_ceiling(checks, read["ceiling"], own, path, "the group's share")
    return WrittenGroup(
        name=name,
        members=members,
        share=read["share"],
        ceiling=read["ceiling"],
        lend=read["lend"],
        weight=checks.number(table, path, "weight", 1.0, most=MOST_WEIGHT, above=True),
        budget=read_budget(checks, table, path, types),
        group=inside.get(name, ""),
        fractions=own,
    )
