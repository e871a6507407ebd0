"""The budget keys in the tables of projects and groups."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from quota.budget import PERIODS, Budget
from quota.file.checks import Checks
from quota.lines import Path

_MOST = 10**12
"""Unit hours: a century of a pool of a million devices."""


def read_budget(
    checks: Checks, table: Mapping[str, object], path: Path, types: Collection[str] | None
) -> Budget:
    """Read the `budget` and `budget_period` of the project or group with this table."""
    at = (*path, "budget")
    hours = {}
    for resource, value in checks.table(table.get("budget"), at).items():
        if types is not None:
            checks.known(resource, (*at, resource), types, "a type without total_resources")
        hours[resource] = checks.whole(value, (*at, resource), least=1, most=_MOST)
    if "budget_period" in table and not hours:
        text = "a period without a budget, write budget = { TYPE = HOURS } too"
        checks.note((*path, "budget_period"), text)
    return Budget(hours=hours, period=checks.word(table, path, "budget_period", PERIODS, "month"))
