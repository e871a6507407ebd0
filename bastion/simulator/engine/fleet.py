"""
`Fleet`: machines that are created, deleted, added, removed, fail and are repaired.

Failures and stock-outs are drawn from the seed, so the same simulation produces the same ones.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import replace
from heapq import heappop, heappush
from random import Random

from bastion.machine import Machine, MachinePhase
from bastion.scheduler.promise import PlannedStart, Promise
from bastion.scheduler.reasons.reason import ProviderStockout
from bastion.simulator.cluster.cluster import Change, machine_of
from bastion.simulator.engine.jobs.costs import Costs
from bastion.simulator.engine.jobs.life import Life
from bastion.simulator.engine.state import State


class Fleet:
    """
    The machines of a state over time.

    Args:
        state: Its machines are changed.
        costs: How often machines fail, and how long a repair takes.
        seed: Of failures and stock-outs.
    """

    def __init__(self, state: State, costs: Costs, seed: int) -> None:
        self._state, self._costs = state, costs
        self._random = Random(seed)  # noqa: S311 - a simulation, not a secret
        self._changes: deque[Change] = deque(state.cluster.changes)
        self._heap: list[tuple[float, int, str, str]] = []
        """(time, number, what, machine or pool)"""
        self._ready: dict[str, float] = {}
        """Machines that are being created, and when each is ready."""
        self._count = 0
        self.has_changed = False
        """Whether the last call of `happen` added or removed machines."""
        self._began: float | None = None
        self._fail: set[str] = set()
        """Names of machines whose next failure is drawn; a deleted one may get its name back."""

    def _push(self, time: float, what: str, name: str) -> None:
        self._count += 1
        heappush(self._heap, (time, self._count, what, name))

    def next_at(self) -> float:
        """Return when machines next come or go; infinite if nothing is foreseen."""
        at = self._heap[0][0] if self._heap else math.inf
        if self._changes and self._began is not None:
            at = min(at, self._began + self._changes[0].at_s)
        return at

    @property
    def only_fails(self) -> bool:
        """Whether the only foreseen events are failures of running machines."""
        foreseen = all(what == "fails" for _, _, what, _ in self._heap)
        return foreseen and (not self._changes or self._began is None)

    def ready_at(self, machines: Iterable[str], now: float) -> float:
        """Return when all of `machines` are ready."""
        if not self._ready:
            return now
        return max([now, *(self._ready.get(name, now) for name in machines)])

    def happen(self, now: float) -> list[Life]:
        """Let machines that are due by now come and go; return the jobs that lost theirs."""
        self.has_changed = False
        if self._began is None:
            self._began = now
            for name in self._state.machines:
                self._draw_failure(name, now)
        lost: list[Life] = []
        while self._changes and self._began + self._changes[0].at_s <= now:
            lost += self._change(self._changes.popleft())
            self.has_changed = True
        while self._heap and self._heap[0][0] <= now:
            _, _, what, name = heappop(self._heap)
            lost += self._do(what, name, now)
        return list(dict.fromkeys(lost))

    def _draw_failure(self, name: str, since: float) -> None:
        if self._costs.mtbf_s and name not in self._fail:
            self._fail.add(name)
            self._push(since + self._random.expovariate(1 / self._costs.mtbf_s), "fails", name)

    def _do(self, what: str, name: str, now: float) -> list[Life]:
        state = self._state
        if what == "restocked":
            state.stockouts.pop(name, None)
            self.has_changed = True
            return []
        if what == "fails":
            self._fail.discard(name)
        machine = state.machines.get(name)
        if machine is None:
            return []
        if what == "ready":
            self._ready.pop(name, None)
            state.machines[name] = replace(machine, phase=MachinePhase.READY)
            return []
        if what == "idle":
            self._delete_if_idle(machine, now)
            return []
        if what == "repaired" and not machine.cordoned:
            return []  # a new machine, under the name of one that was deleted before its repair
        self.has_changed = True
        devices = self._devices(machine)
        if what == "repaired":
            state.machines[name] = replace(machine, cordoned="")
            state.capacity += devices
            self._draw_failure(name, now)
            return []
        state.machines[name] = replace(machine, cordoned="failed")
        state.capacity -= devices
        self._push(now + self._costs.repair_s, "repaired", name)
        return sorted(state.on.get(name, ()), key=lambda life: life.index)

    def _devices(self, machine: Machine) -> int:
        return machine.resources[self._state.cluster.named[machine.pool].type]

    # Machines that the scheduler requests

    def make(self, machines: Sequence[Machine], now: float) -> bool:
        """
        Create the machines that a plan names; return whether any were requested.

        A sold-out pool creates none, and the scheduler is told when that ends.
        """
        state, costs = self._state, self._costs
        for machine in machines:
            shape = state.cluster.named[machine.pool]
            if costs.stockout and self._random.random() < costs.stockout:
                until = now + costs.stockout_s
                state.stockouts[machine.pool] = ProviderStockout(pool=machine.pool, until=until)
                self._push(until, "restocked", machine.pool)
                continue
            boots = 0.0 if costs.are_none else shape.boot_s
            phase = MachinePhase.CREATING if boots else MachinePhase.READY
            state.machines[machine.name] = replace(
                machine, phase=phase, resources=shape.resources, created_at=now
            )
            state.capacity += shape.devices
            state.stood[machine.name] = shape.devices
            if boots:
                self._ready[machine.name] = now + boots
                self._push(now + boots, "ready", machine.name)
            self._push(now + boots + shape.idle_timeout_s, "idle", machine.name)
            self._draw_failure(machine.name, now + boots)
        return bool(machines)

    def _delete_if_idle(self, machine: Machine, now: float) -> None:
        """Delete a created machine if it is idle, or check again later."""
        state = self._state
        if state.on.get(machine.name) or self._is_promised(machine.name):
            shape = state.cluster.named[machine.pool]
            self._push(now + shape.idle_timeout_s, "idle", machine.name)
            return
        self._remove(machine)

    def _is_promised(self, name: str) -> bool:
        kept: list[Promise | PlannedStart] = [*self._state.promises, *self._state.planned]
        return any(
            host.machine == name
            for each in kept
            for placement in each.placements
            for replica in placement
            for host in replica.hosts
        )

    # Machines that an admin adds and removes

    def _change(self, change: Change) -> list[Life]:
        state = self._state
        shape = state.cluster.named[change.pool]
        own = [machine for machine in state.machines.values() if machine.pool == change.pool]
        pool = state.pools[change.pool]
        most = max(0, pool.max_machines + change.count)
        least = min(most, pool.min_machines)
        pool = replace(pool, max_machines=most, min_machines=least)
        state.pools = {**state.pools, change.pool: pool}
        if change.count >= 0:
            taken = max((int(m.name.rpartition("-")[2]) for m in own), default=-1) + 1
            for number in range(taken, taken + change.count):
                machine = machine_of(change.pool, shape, number)
                state.machines[machine.name] = machine
                state.capacity += shape.devices
                state.stood[machine.name] = shape.devices
                self._draw_failure(machine.name, (self._began or 0.0) + change.at_s)
            return []
        own.sort(key=lambda machine: (len(state.on.get(machine.name, ())), machine.name))
        lost: list[Life] = []
        for machine in own[: -change.count]:
            lost += sorted(state.on.get(machine.name, ()), key=lambda life: life.index)
            self._remove(machine)
        return lost

    def _remove(self, machine: Machine) -> None:
        state = self._state
        del state.machines[machine.name]
        if not machine.cordoned:
            state.capacity -= self._devices(machine)
        self.has_changed = True
