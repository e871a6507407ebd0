"""
`Reach`: the most that the quota file ever lets a project hold, and what prevents more.

This module must not know what anything holds now.
"""

from __future__ import annotations

from functools import cached_property

from bastion.scheduler.reasons.reason import NeverFits
from quota.amounts import NOTHING, Amounts
from quota.ledger import reach, unclaimed
from quota.reach import beyond_reach
from quota.tree import Quota


class Reach:
    """The reach of the projects of one quota file."""

    def __init__(self, quota: Quota) -> None:
        self._quota = quota
        self._most: dict[str, Amounts] = {}

    @cached_property
    def _unclaimed(self) -> Amounts:
        return unclaimed(self._quota, {})

    def most(self, project: str) -> Amounts:
        """Return the most that `project` could hold if all others held nothing."""
        if project not in self._most:
            self._most[project] = reach(self._quota, project, self._unclaimed)
        return self._most[project]

    def without_share(self, project: str, *, borrows: bool) -> NeverFits | None:
        """Return a reason if `project` never holds what is not under quota, for such a gang."""
        if borrows and self._quota.project(project).borrow:
            return None
        place = self._quota.place("project_options", project, "borrow") if borrows else ""
        return NeverFits(
            asked=NOTHING,
            most=NOTHING,
            of="share",
            project=project,
            walls=((f"{project} does not borrow", place),) if borrows else (),
        )

    def beyond(self, project: str, asked: Amounts, *, borrows: bool) -> NeverFits | None:
        """Return a reason if `project` may never hold `asked` for such a gang, whatever ends."""
        quota = self._quota
        most, share = self.most(project), quota.project(project).nominal
        if borrows:
            found = beyond_reach(quota, project, asked) if not asked <= most else ()
            walls = [(wall.why, wall.place) for each in found for wall in each.walls]
        else:  # what prevents borrowing does not matter
            most = most & share
            walls = [
                (
                    f"it does not borrow, and the share of {project} is {share[t]} {t}",
                    quota.place("project_resources", project, t),
                )
                for t, units in asked.items()
                if units > share[t]
            ]
        if not walls:
            return None
        return NeverFits(
            asked=asked,
            most=most.only(asked).positive(),
            of="quota",
            project=project,
            walls=tuple(walls),
        )
