"""
Excess: how far a project is above its share, and will be as its borrowers go one after the other.

It must not know why they go.
"""

from __future__ import annotations

from collections.abc import Sequence

from bastion.scheduler.state.holders.running import Running
from bastion.scheduler.state.holders.shares import Shares
from quota.amounts import Amounts


class Excess:
    """
    Of one project, as it is when this is made; worked out as far as it is asked for.

    Args:
        shares: Of the cycle.
        project: Its name.
        running: Its borrowers, in the order in which they go.
    """

    def __init__(self, shares: Shares, project: str, running: Sequence[Running]) -> None:
        self._dominant_share = shares.dominant_share
        self.running = running
        self.before = shares.excess(project)
        """With all of them; the same object as long as nothing of the project is counted anew."""
        self._after = [self.before]
        self._above: Amounts = shares.above_share(project)
        """What it holds above its share once those have gone that were asked for."""

    def after(self, count: int) -> float:
        """With the first `count` of them gone; as a part of the total."""
        known = self._after
        while len(known) <= count:
            self._above = self._above - self.running[len(known) - 1].held
            known.append(self._dominant_share(self._above))
        return known[count]
