"""
`Nesting`: what stands against the shares and ceilings of groups, kept up to date.

The working copy of what `quota.ledger` adds up for groups, for a program that asks many times
between two changes. It is told every change of what a project closes: what it holds, or what it
keeps of its share if that is more. Without groups every method is one look into an empty dict.

It must not know what projects hold, nor the total: both are arguments.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from quota.amounts import Amounts
from quota.tree import Group, Quota


class Nesting:
    """
    The sums of all groups of a quota; its projects close nothing as yet.

    Args:
        quota: With or without groups.
    """

    __slots__ = ("_quota", "_taken", "kept")

    def __init__(self, quota: Quota) -> None:
        self._quota = quota
        self._taken: dict[str, dict[str, int]] = {name: {} for name in quota.groups}
        kept = dict.fromkeys(quota.types, 0)
        # The outer ones first: what an inner one keeps is part of what the outer one keeps.
        for group in sorted(
            quota.groups.values(), key=lambda each: len(quota.groups_of(each.name))
        ):
            for resource, units in group.kept.items():
                kept[resource] += self.add(group.name, resource, units)
        self.kept = Amounts(kept)
        """What groups close of the pool while no project closes anything."""

    def taken(self, group: str, resource: str) -> int:
        """What the members of `group` close together: it stands against the group's limits."""
        return self._taken[group].get(resource, 0)

    def add(self, name: str, resource: str, more: int) -> int:
        """`name` closes `more` units (negative: less); return what the pool is closed more by."""
        for group in self._quota.groups_of(name):
            taken, keeps = self._taken[group.name], group.kept[resource]
            before = taken.get(resource, 0)
            after = taken[resource] = before + more
            more = max(after, keeps) - max(before, keeps)
        return more

    def room(self, name: str, resource: str, free: int) -> int:
        """What the groups of `name` let it have of `free`, which is open in the pool."""
        for group in reversed(self._quota.groups_of(name)):
            taken = self._taken[group.name].get(resource, 0)
            free = min(free + max(0, group.kept[resource] - taken), group.ceiling[resource] - taken)
        return free

    def covering(self, project: str, more: Mapping[str, int]) -> str:
        """The nearest group whose share holds `more`, or empty; `more` as in `holding`."""
        return next(iter(self.holding(project, more)), "")

    def holding(self, project: str, more: Mapping[str, int]) -> list[str]:
        """
        The groups of `project` whose share holds `more`, the nearest first.

        Args:
            project: That asks.
            more: By every type that it asks for, how much more it would close; 0 where it keeps
                enough of its own share.
        """
        return [
            group.name
            for group, after, _ in self._after(project, more)
            if all(units <= group.nominal[resource] for resource, units in after.items())
        ]

    def outgrown(self, project: str, more: Mapping[str, int]) -> list[str]:
        """The groups of `project` that `more` takes beyond their share, the nearest first."""
        return [
            group.name
            for group, after, adds in self._after(project, more)
            if any(
                units - adds[resource] <= group.nominal[resource] < units
                for resource, units in after.items()
            )
        ]

    def is_under_ceilings(self, project: str, more: Mapping[str, int]) -> bool:
        """Whether no group of `project` would go beyond its ceiling by `more`, as in `holding`."""
        return not self.over_ceilings(project, more)

    def over_ceilings(self, project: str, more: Mapping[str, int]) -> list[str]:
        """The groups of `project` that may not take what `more` adds there, the nearest first."""
        return [
            group.name
            for group, after, adds in self._after(project, more)
            if any(n > group.ceiling[resource] and adds[resource] for resource, n in after.items())
        ]

    def _after(
        self, project: str, more: Mapping[str, int]
    ) -> Iterator[tuple[Group, Mapping[str, int], Mapping[str, int]]]:
        """Every group, what its members would close of the types of `more`, and how much more."""
        rises = dict(more)
        for group in self._quota.groups_of(project):
            taken = self._taken[group.name]
            before = {resource: taken.get(resource, 0) for resource in rises}
            after = {resource: before[resource] + units for resource, units in rises.items()}
            yield group, after, rises.copy()
            for resource in rises:
                keeps = group.kept[resource]
                rises[resource] = max(after[resource], keeps) - max(before[resource], keeps)
