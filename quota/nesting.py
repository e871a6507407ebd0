"""
`Nesting`: what counts against the shares and ceilings of groups, kept up to date.

It is the working copy of the sums of `quota.ledger` for groups, for a program that asks many times
between two changes. It gets every change of what a project closes: what it holds, or what it keeps
of its share if that is more. Without groups every method is one lookup in an empty dict.

This module must not know what projects hold, nor the total: both are arguments.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from quota.amounts import Amounts
from quota.tree import Group, Quota


class Nesting:
    """
    The sums of all groups of a quota; initially its projects close nothing.

    Args:
        quota: With or without groups.
    """

    __slots__ = ("_quota", "_taken", "kept")

    def __init__(self, quota: Quota) -> None:
        self._quota = quota
        self._taken: dict[str, dict[str, int]] = {name: {} for name in quota.groups}
        kept = dict.fromkeys(quota.types, 0)
        # Outer groups first: what an inner one keeps is part of what the outer one keeps.
        for group in sorted(
            quota.groups.values(), key=lambda each: len(quota.groups_of(each.name))
        ):
            for resource, units in group.kept.items():
                kept[resource] += self.add(group.name, resource, units)
        self.kept = Amounts(kept)
        """What groups close of the pool while no project closes anything."""

    def taken(self, group: str, resource: str) -> int:
        """Return what the members of `group` close together, which counts against its limits."""
        return self._taken[group].get(resource, 0)

    def add(self, name: str, resource: str, more: int) -> int:
        """Add `more` units closed by `name` (negative: fewer); return the change for the pool."""
        for group in self._quota.groups_of(name):
            taken, keeps = self._taken[group.name], group.kept[resource]
            before = taken.get(resource, 0)
            after = taken[resource] = before + more
            more = max(after, keeps) - max(before, keeps)
        return more

    def room(self, name: str, resource: str, free: int) -> int:
        """Return what the groups of `name` let it have of `free`, which is open in the pool."""
        for group in reversed(self._quota.groups_of(name)):
            taken = self._taken[group.name].get(resource, 0)
            free = min(free + max(0, group.kept[resource] - taken), group.ceiling[resource] - taken)
        return free

    def covering(self, project: str, more: Mapping[str, int]) -> str:
        """Return the nearest group whose share holds `more`, or empty; `more` as in `holding`."""
        return next(iter(self.holding(project, more)), "")

    def holding(self, project: str, more: Mapping[str, int]) -> list[str]:
        """
        Return the groups of `project` whose share holds `more`, the nearest first.

        Args:
            project: The project that asks.
            more: How much more it would close of every type that it asks for; 0 if it keeps enough
                of its own share.
        """
        return [
            group.name
            for group, after, _ in self._after(project, more)
            if all(units <= group.nominal[resource] for resource, units in after.items())
        ]

    def outgrown(self, project: str, more: Mapping[str, int]) -> list[str]:
        """Return the groups of `project` that `more` takes beyond their share, nearest first."""
        return [
            group.name
            for group, after, adds in self._after(project, more)
            if any(
                units - adds[resource] <= group.nominal[resource] < units
                for resource, units in after.items()
            )
        ]

    def over_ceilings(self, project: str, more: Mapping[str, int]) -> list[str]:
        """Return the groups of `project` whose ceiling `more`, as in `holding`, would exceed."""
        return [
            group.name
            for group, after, adds in self._after(project, more)
            if any(n > group.ceiling[resource] and adds[resource] for resource, n in after.items())
        ]

    def _after(
        self, project: str, more: Mapping[str, int]
    ) -> Iterator[tuple[Group, Mapping[str, int], Mapping[str, int]]]:
        """Yield every group, what its members would close of these types, and how much more."""
        rises = dict(more)
        for group in self._quota.groups_of(project):
            taken = self._taken[group.name]
            before = {resource: taken.get(resource, 0) for resource in rises}
            after = {resource: before[resource] + units for resource, units in rises.items()}
            yield group, after, rises.copy()
            for resource in rises:
                keeps = group.kept[resource]
                rises[resource] = max(after[resource], keeps) - max(before[resource], keeps)
