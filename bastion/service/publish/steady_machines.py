"""Whether machines have changed in more than the time at which each was last heard."""

from __future__ import annotations

from collections.abc import Mapping

from bastion.machine import Machine
from bastion.value import replace


class SteadyMachines:
    """
    Machines as they were when one of them last changed in more than a heartbeat.

    Every machine is heard twice a minute. What does not show that time need not be rebuilt for it.
    """

    def __init__(self) -> None:
        self._machines: Mapping[str, Machine] = {}
        self._last: Mapping[str, Machine] = {}

    def of(self, machines: Mapping[str, Machine]) -> Mapping[str, Machine]:
        """Return `machines`, or the same object as before if they were only heard again."""
        if machines is not self._last:
            self._last = machines
            if not _is_steady(self._machines, machines):
                self._machines = machines
        return self._machines


def _is_steady(old: Mapping[str, Machine], new: Mapping[str, Machine]) -> bool:
    if old.keys() != new.keys():
        return False
    pairs = ((old[name], machine) for name, machine in new.items())
    return all(a is b or _heard(a, b) == b for a, b in pairs)


def _heard(old: Machine, new: Machine) -> Machine:
    """Return `old`, with the time at which `new` was heard."""
    return replace(old, heard_at=new.heard_at, last_bell=new.last_bell)
