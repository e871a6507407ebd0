"""
`KnownWalls`: what the quota said against waiting gangs in the last cycle.

It depends on what a project holds, and on what all claim of their own shares. It is used only while
both are unchanged.

This module must not know how anything is found.
"""

from __future__ import annotations

from bastion.scheduler.reasons.reason import WaitingReason
from quota.amounts import Amounts

Walls = dict[tuple[Amounts, bool], WaitingReason | None]
"""By a gang's charge, and whether it may borrow: what blocks it, or nothing."""


class KnownWalls:
    """The walls by project; those that a cycle does not ask for are forgotten after it."""

    def __init__(self) -> None:
        self._claims: object = None
        self._version = 0
        self._last: dict[str, tuple[object, Walls]] = {}
        self._found: dict[str, tuple[object, Walls]] = {}

    def begin(self, claims: object) -> None:
        """Begin a cycle in which the projects have these claims."""
        if claims != self._claims:
            self._claims = claims
            self._version += 1
        self._last, self._found = self._found, {}

    def of(self, project: str, holds: object) -> Walls:
        """Return what is known of `project`, to be added to; empty if the project has changed."""
        standing = self._version, holds
        known = self._last.get(project)
        if known is None or known[0] != standing:
            known = standing, {}
        self._found[project] = known
        return known[1]
