"""`Standing`: devices of the machines on which jobs can start, counted when these change."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from bastion.machine import Machine
from bastion.simulator.engine.state import State


class Standing:
    """Devices of existing machines that are open."""

    def __init__(self) -> None:
        self._machines: Mapping[str, Machine] = {}
        self._devices: Counter[str] = Counter()

    def devices(self, state: State) -> Counter[str]:
        """Return all of them, free or held, by type; do not change them."""
        if self._machines != state.machines:
            self._machines = dict(state.machines)
            self._devices = Counter()
            for machine in state.machines.values():
                if machine.accepts:
                    kind = state.cluster.named[machine.pool].type
                    self._devices[kind] += machine.resources[kind]
        return self._devices

    def free(self, state: State) -> Counter[str]:
        """Return free ones, by type; negative if jobs are on other machines."""
        free = self.devices(state).copy()
        if len(state.cluster.types) == 1:
            free[state.cluster.types[0]] -= state.used
        else:
            for life in state.holding:
                free[life.job.type] -= life.job.devices
        return free
