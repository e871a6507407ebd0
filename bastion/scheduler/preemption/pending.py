"""
Pending: gangs that a search has removed, and that leave no replica a place yet.

A gang on a machine where too much else stays makes no difference there. So only its devices are
counted, and it is actually removed once a replica may lie on its machine, together with all others
there.

This module must not know why any may be stopped.
"""

from __future__ import annotations

from collections.abc import Sequence

from bastion.scheduler.preemption.lack import Lack
from bastion.scheduler.state.holders.running import Running


class Pending:
    """
    The pending gangs of one search for one part with devices.

    Args:
        lack: How many replicas find no devices; counts what is removed.
    """

    def __init__(self, lack: Lack) -> None:
        self._lack = lack
        self._numbers: dict[Running, int] = {}
        self._on: dict[str, list[Running]] = {}
        """Machine -> the pending gangs there, where no replica may lie."""

    def number(self, running: Running) -> int:
        """Return how many were removed before `running`."""
        return self._numbers[running]

    def let_go(self, running: Running) -> Sequence[Running]:
        """Remove `running` as well; return those that make a difference now, in order."""
        self._numbers[running] = len(self._numbers)
        self._lack.let_go(running.footprint)
        machines = running.footprint.masks
        open_now = [machine for machine in machines if self._lack.may_hold(machine)]
        if not open_now:
            for machine in machines:
                self._on.setdefault(machine, []).append(running)
            return ()
        found = {running}
        for machine in open_now:
            found.update(self._on.pop(machine, ()))
        for each in found:
            for machine in each.footprint.masks:
                waiting = self._on.get(machine)
                if waiting is not None and each in waiting:
                    waiting.remove(each)
        return sorted(found, key=self.number)
