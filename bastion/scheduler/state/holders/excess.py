"""
Excess: how far a project is above its share, now and as its borrowers leave one by one.

This module must not know why they leave.
"""

from __future__ import annotations

from collections.abc import Sequence

from bastion.scheduler.state.holders.running import Running
from bastion.scheduler.state.holders.shares import Shares
from quota.amounts import Amounts


class Excess:
    """
    The excess of one project when this is made; computed as far as it is requested.

    Args:
        shares: Those of the cycle.
        project: Its name.
        running: Its borrowers, in the order in which they leave.
    """

    def __init__(self, shares: Shares, project: str, running: Sequence[Running]) -> None:
        self._dominant_share = shares.dominant_share
        self.running = running
        self.before = shares.excess(project)
        """With all of them; the same object as long as nothing of the project is recounted."""
        self._after = [self.before]
        self._above: Amounts = shares.above_share(project)
        """What it holds above its share after the requested ones have left."""

    def after(self, count: int) -> float:
        """Return it with the first `count` of them gone, as a fraction of the total."""
        known = self._after
        while len(known) <= count:
            self._above = self._above - self.running[len(known) - 1].held
            known.append(self._dominant_share(self._above))
        return known[count]
