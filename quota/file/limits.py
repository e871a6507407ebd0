"""The options of a project about single users: run times, units and jobs at the same time."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping

from quota.file.checks import Checks, no_pattern
from quota.limits import UNLIMITED, Limits
from quota.lines import Path
from quota.tree import People

OF_ONE = ("default_max_runtime", "max_max_runtime", "max_units", "max_running")
"""Keys of `[project_options.PROJECT.users.USER]`."""

_MOST = 10**9
"""Units or jobs: far above any pool."""


def read_limits(
    checks: Checks, table: Mapping[str, object], path: Path, types: Collection[str] | None
) -> Limits:
    """Return the limits for every user of the project whose options are `table`."""
    names = {"units": "max_units_per_user", "running": "max_running_per_user"}
    return _limits(checks, table, path, types, names, UNLIMITED)


def read_user_limits(
    checks: Checks,
    table: Mapping[str, object],
    path: Path,
    types: Collection[str] | None,
    project: Limits,
) -> tuple[tuple[People, Limits], ...]:
    """Return limits for some users instead, in the order of the file, names before patterns."""
    found = []
    path = (*path, "users")
    for user, value in checks.table(table.get("users"), path).items():
        own = checks.table(value, (*path, user))
        checks.keys(own, (*path, user), OF_ONE)
        names = {"units": "max_units", "running": "max_running"}
        limits = _limits(checks, own, (*path, user), types, names, project)
        try:
            people = People(written=(user,))
        except (re.error, OverflowError, RecursionError) as error:
            checks.note((*path, user), no_pattern(user, error))
        else:
            found.append((people, limits))
    return tuple(sorted(found, key=lambda each: each[0].has_patterns))


def _limits(
    checks: Checks,
    table: Mapping[str, object],
    path: Path,
    types: Collection[str] | None,
    names: Mapping[str, str],
    otherwise: Limits,
) -> Limits:
    default = checks.duration(table, path, "default_max_runtime")
    longest = checks.duration(table, path, "max_max_runtime")
    running = otherwise.max_running
    if names["running"] in table:
        at = (*path, names["running"])
        running = checks.whole(table[names["running"]], at, least=0, most=_MOST)
    default = otherwise.default_max_runtime_s if default is None else default
    longest = otherwise.max_max_runtime_s if longest is None else longest
    if default is not None and longest is not None and default > longest:
        key = "default_max_runtime" if "default_max_runtime" in table else "max_max_runtime"
        checks.note(
            (*path, key),
            f"default_max_runtime {default:.15g} s is above max_max_runtime {longest:.15g} s,"
            " write a default of at most that",
        )
    return Limits(
        default_max_runtime_s=default,
        max_max_runtime_s=longest,
        max_units={**otherwise.max_units, **_units(checks, table, path, names["units"], types)},
        max_running=running,
    )


def _units(
    checks: Checks,
    table: Mapping[str, object],
    path: Path,
    key: str,
    types: Collection[str] | None,
) -> dict[str, int]:
    found = {}
    for resource, value in checks.table(table.get(key), (*path, key)).items():
        at = (*path, key, resource)
        if types is not None:
            checks.known(resource, at, types, "a type without total_resources")
        found[resource] = checks.whole(value, at, least=0, most=_MOST)
    return found
