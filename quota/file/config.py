"""
TOML text -> `Quota`, or all problems of the text together.

An unknown key is a problem, never ignored. Fractions are added exactly, as the decimals that are
written, and are refused rather than normalised. Each mistake is reported once.

This module must not read files, and it does not know which quota is in force: the caller keeps the
last good one when this raises.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Collection, Mapping, Sequence
from decimal import Decimal, InvalidOperation
from operator import attrgetter
from typing import TYPE_CHECKING

from quota.amounts import Amounts
from quota.file.checks import MOST_SECONDS, Checks, as_text
from quota.file.errors import Problem, QuotaError
from quota.file.projects import WrittenProject, read_projects
from quota.file.shares import check_sums, in_units
from quota.lines import Lines, Path
from quota.options import ADMISSIONS, DEFAULTS, ORDERS, PLACEMENTS, PREEMPTIONS, SchedulerOptions
from quota.tree import Quota, Tier
from quota.value import fields

if TYPE_CHECKING:
    from quota.file.groups import WrittenGroup
    from quota.maintenance import Window

VERSION = "1"
"""The only version of the file."""

_TABLES = (
    "toml-schema",
    "total_resources",
    "project_membership",
    "project_resources",
    "project_options",
    "project_groups",
    "maintenance",
    "scheduler",
)

MOST_UNITS = 10**9
"""Units of one type in one tier: far above any pool, and cheap to add and to print."""

_MOST_QUEUED = 10**6
_MOST_LOAD = 1000


def parse(text: str) -> Quota:
    """
    Return the quota that `text` describes.

    Raises:
        QuotaError: Anything is wrong with it; it has every problem with its line, but only the
            first one of text that is not TOML.
    """
    try:
        file: dict[str, object] = tomllib.loads(text, parse_float=_number)
        repr(file)  # a hexadecimal number may have more digits than Python prints
    except (ValueError, RecursionError) as error:
        raise QuotaError(_not_toml(text, error)) from None
    lines = Lines(text)
    checks = Checks(lines)
    checks.keys(file, (), _TABLES)
    _check_version(checks, file)
    tables = _tier_tables(checks, file)
    tiers = _tiers(checks, tables)
    types = frozenset(key for table in tables.values() for key in table if key != "name")
    known = types if tables else None
    projects = read_projects(checks, file, known)
    groups = _groups(checks, file, projects, known)
    check_sums(checks, file, projects, groups)
    maintenance = _maintenance(checks, file)
    scheduler = _scheduler(checks, file)
    checks.finish()
    totals = Amounts.sum(tier.units for tier in tiers)
    shares = in_units(projects, groups, totals)
    inside = {member: group.name for group in groups for member in group.members}
    return Quota(
        tiers=tiers,
        types=types,
        projects={
            each.name: each.project(totals, shares[each.name], inside.get(each.name, ""))
            for each in projects
        },
        groups={
            each.name: each.made(totals, shares[each.name])
            for each in sorted(groups, key=attrgetter("name"))
        },
        maintenance=maintenance,
        scheduler=scheduler,
        lines=lines,
    )


# Most files have neither groups nor windows: their readers are loaded on demand.


def _groups(
    checks: Checks,
    file: Mapping[str, object],
    projects: Sequence[WrittenProject],
    types: Collection[str] | None,
) -> tuple[WrittenGroup, ...]:
    if "project_groups" not in file:
        return ()
    from quota.file.groups import read_groups

    return read_groups(checks, file, projects, types)


def _maintenance(checks: Checks, file: Mapping[str, object]) -> tuple[Window, ...]:
    if "maintenance" not in file:
        return ()
    from quota.file.maintenance import read_maintenance

    return read_maintenance(checks, file)


def _number(text: str) -> Decimal:
    """Read a TOML float as the decimal that is written."""
    try:
        return Decimal(text)
    except InvalidOperation:
        return Decimal("nan")  # its exponent is beyond all decimals, so it is not allowed


def _not_toml(text: str, error: Exception) -> Problem:
    """Return the parser's own message, with its position in the format of our problems."""
    if isinstance(error, RecursionError):
        return Problem(line=1, path="", text="not TOML, lists or tables are nested too deep")
    said = str(error).removesuffix(" (at end of document)")
    found = re.fullmatch(r"(.*) \(at line (\d+), column (\d+)\)", said, re.DOTALL)
    if not found:
        return Problem(line=text.count("\n") + 1, path="", text=f"not TOML, {said}")
    what, line, column = found.groups()
    return Problem(line=int(line), path="", text=f"not TOML, {what} at column {column}")


def _check_version(checks: Checks, file: Mapping[str, object]) -> None:
    path: Path = ("toml-schema",)
    table = checks.table(file.get("toml-schema"), path)
    checks.keys(table, path, ("version",))
    if "version" not in table:
        checks.note((*path, "version"), f'missing, allowed is "{VERSION}"')
    elif table["version"] != VERSION:
        said = as_text(table["version"])
        checks.note((*path, "version"), f'{said} is not supported, allowed is "{VERSION}"')


def _tier_tables(checks: Checks, file: Mapping[str, object]) -> dict[Path, Mapping[str, object]]:
    """Return every tier by its path, best first; the file has one table or a list of them."""
    path: Path = ("total_resources",)
    match file.get("total_resources"):
        case None | []:
            checks.note(path, "missing, give the whole units of every resource type")
            return {}
        case list() as tables:
            return {(*path, i): checks.table(each, (*path, i)) for i, each in enumerate(tables)}
        case dict() as table:
            return {path: table}
        case other:
            checks.table(other, path)
            return {}


def _tiers(checks: Checks, tables: Mapping[Path, Mapping[str, object]]) -> tuple[Tier, ...]:
    tiers: dict[str, Tier] = {}
    for index, (path, table) in enumerate(tables.items()):
        name = table.get("name", str(index))
        if not isinstance(name, str) or not name or name in tiers:
            text = f"{as_text(name)} is not allowed, write a name that no other tier has"
            checks.note((*path, "name"), text)
        units = {
            resource: checks.whole(value, (*path, resource), least=0, most=MOST_UNITS)
            for resource, value in table.items()
            if resource != "name"
        }
        tiers[str(name)] = Tier(name=str(name), units=Amounts(units))
    return tuple(tiers.values())


def _scheduler(checks: Checks, file: Mapping[str, object]) -> SchedulerOptions:
    path: Path = ("scheduler",)
    table = checks.table(file.get("scheduler"), path)
    checks.keys(table, path, tuple(field.name for field in fields(SchedulerOptions)))

    def seconds(key: str, default: float, *, above: bool = False) -> float:
        return checks.number(table, path, key, default, most=MOST_SECONDS, above=above)

    options = SchedulerOptions(
        min_runtime_s=seconds("min_runtime_s", DEFAULTS.min_runtime_s),
        grace_s=seconds("grace_s", DEFAULTS.grace_s),
        max_grace_s=seconds("max_grace_s", DEFAULTS.max_grace_s),
        plan_after_s=seconds("plan_after_s", DEFAULTS.plan_after_s),
        borrow_slice_s=seconds("borrow_slice_s", DEFAULTS.borrow_slice_s),
        usage_half_life_s=seconds("usage_half_life_s", DEFAULTS.usage_half_life_s, above=True),
        order=checks.word(table, path, "order", ORDERS, DEFAULTS.order),
        admission=checks.word(table, path, "admission", ADMISSIONS, DEFAULTS.admission),
        placement=checks.word(table, path, "placement", PLACEMENTS, DEFAULTS.placement),
        preemption=checks.word(table, path, "preemption", PREEMPTIONS, DEFAULTS.preemption),
        max_queued_per_user=checks.whole(
            table.get("max_queued_per_user", DEFAULTS.max_queued_per_user),
            (*path, "max_queued_per_user"),
            least=1,
            most=_MOST_QUEUED,
        ),
        load_limit=checks.number(
            table, path, "load_limit", DEFAULTS.load_limit, most=_MOST_LOAD, above=True
        ),
    )
    if options.grace_s > options.max_grace_s:
        most = f"{options.max_grace_s:.15g}"
        key, default = ("grace_s", "") if "grace_s" in table else ("max_grace_s", ", its default,")
        checks.note(
            (*path, key),
            f"grace_s {options.grace_s:.15g}{default} is above max_grace_s {most}, "
            f"write a grace_s of at most {most}",
        )
    return options
