"""The sums of fractions, and their conversion to whole units."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal
from typing import TYPE_CHECKING

from quota.amounts import Amounts
from quota.apportion import nominal_units
from quota.file.checks import Checks
from quota.file.projects import EXACT, Fractions, WrittenProject

if TYPE_CHECKING:
    from quota.file.groups import WrittenGroup

_WHOLE = 10**50
"""The parts in a fraction of 1: each fraction, of at most 50 places, is a number of them."""
_NONE = Decimal(0)
_SHOWN = 12
"""The most summands listed in a message, so that it stays one line."""


def check_sums(
    checks: Checks,
    file: Mapping[str, object],
    projects: Sequence[WrittenProject],
    groups: Sequence[WrittenGroup],
) -> None:
    """
    Check that the fractions of a type sum to at most 1: of all projects, and of ungrouped ones.

    If the projects alone exceed it, groups are not reported as well.
    """
    by_name = {each.name: each.fractions for each in projects}
    shares = file.get("project_resources")
    told = set()
    named = [name for name in (shares if isinstance(shares, dict) else ()) if name in by_name]
    for resource, parts in _by_type({name: by_name[name] for name in named}).items():
        if text := _excess(resource, parts):
            told.add(resource)
            checks.note(("project_resources", next(reversed(parts)), resource), text)
    inside = {member for group in groups for member in group.members}
    every = {**by_name, **{each.name: each.fractions for each in groups}}
    top = {name: fractions for name, fractions in every.items() if name not in inside}
    outer = [each.name for each in groups if each.name in top and each.share]
    for resource, parts in _by_type(top).items():
        last = next((name for name in reversed(outer) if name in parts), None)
        text = _excess(resource, parts)
        if text and last is not None and resource not in told:
            checks.note(("project_groups", last, "share", resource), text)


def _by_type(shares: Mapping[str, Fractions]) -> dict[str, dict[str, Decimal]]:
    found: dict[str, dict[str, Decimal]] = {}
    for name, fractions in shares.items():
        for resource, fraction in fractions.items():
            found.setdefault(resource, {})[name] = fraction
    return found


def _excess(resource: str, parts: Mapping[str, Decimal]) -> str:
    """Return what is wrong with the sum of `parts`, or nothing."""
    total = Decimal(0)
    for fraction in parts.values():
        total = EXACT.add(total, fraction)
    if total <= 1:
        return ""
    listed = ", ".join(f"{name} {part}" for name, part in list(parts.items())[:_SHOWN])
    more = ", ..." if len(parts) > _SHOWN else ""
    return (
        f"the fractions of {resource} add up to {total.normalize(EXACT):f} "
        f"({listed}{more}), allowed is at most 1"
    )


def in_units(
    projects: Iterable[WrittenProject], groups: Sequence[WrittenGroup], totals: Amounts
) -> dict[str, Amounts]:
    """
    Return the share of every project and group in whole units, by name.

    The total is divided among whatever is in no group, and each group's part among its members,
    each time by largest remainder with the unclaimed part as one more claimant. A share differs
    from its exact part by less than one unit, and by less than one more for each group around it.
    """
    fractions = {each.name: each.fractions for each in projects}
    fractions |= {each.name: each.fractions for each in groups}
    inside = {member for group in groups for member in group.members}
    units: dict[str, dict[str, int]] = {name: {} for name in fractions}
    top = [name for name in fractions if name not in inside]
    for resource, total in totals.items():
        shares = {name: _parts(each.get(resource, _NONE)) for name, each in fractions.items()}
        has = nominal_units(total, {name: shares[name] for name in top}, whole=_WHOLE)
        for group in reversed(groups):
            if whole := shares[group.name]:
                parts = {member: shares[member] for member in group.members}
                has |= nominal_units(has[group.name], parts, whole=whole)
        for name, share in has.items():
            units[name][resource] = share
    return {name: Amounts(share) for name, share in units.items()}


def _parts(fraction: Decimal) -> int:
    """Return how many parts of `_WHOLE` a fraction is."""
    parts, whole = fraction.as_integer_ratio()
    return parts * (_WHOLE // whole)
