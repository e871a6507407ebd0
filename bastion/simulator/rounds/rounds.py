"""
Rounds in which running jobs yield to those before them in the order, as in round-based studies.

At each boundary, one cycle plans everything from scratch: the scheduler sees every active job as if
it waited and all devices were free. Jobs that it starts and that already run continue where they
are; running jobs that it does not start are suspended. So `preemption = "order"` takes one cycle
per round, no matter how much moves. If such a cycle can only be a walk along the order, it is one:
see `one_device.py`.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from typing import NamedTuple, Protocol

from bastion.job import JobClass, Placement
from bastion.machine import Machine, Pool
from bastion.scheduler.plan import Admit, Plan, Verdicts
from bastion.simulator.engine.driver import Naive
from bastion.simulator.engine.engine import Engine, taken_by
from bastion.simulator.engine.jobs.life import Life
from bastion.simulator.engine.state import State
from quota import Amounts


class Moves(NamedTuple):
    """The changes at the beginning of a round."""

    stops: tuple[Life, ...]
    """Running jobs that are suspended, in order."""
    starts: Mapping[str, JobClass]
    """Jobs that hold devices from now on, and how each is charged."""


class RoundPlanner(Protocol):
    """Chooses which jobs hold devices until the next boundary."""

    @property
    def is_lasting(self) -> bool:
        """Whether its choice stays the same while no job arrives or ends."""
        ...

    def waits(self, life: Life) -> None:
        """Add a job that waits from now on."""
        ...

    def waits_no_more(self, life: Life) -> None:
        """Remove a job that starts or is taken out."""
        ...

    def choose(self, state: State, now: float) -> Moves:
        """Return the changes."""
        ...

    def place(
        self, state: State, starting: Mapping[str, JobClass], now: float
    ) -> Mapping[str, Placement]:
        """Return where jobs start beside continuing ones; one that fits nowhere waits a round."""
        ...


class WholeRound:
    """Treats all active jobs as waiting, in one cycle of the scheduler."""

    def __init__(self, driver: Naive) -> None:
        self._driver = driver
        self.is_lasting = driver.parts.order.is_lasting

    def waits(self, life: Life) -> None:
        """Do nothing: the scheduler sees all waiting jobs."""

    def waits_no_more(self, life: Life) -> None:
        """Do nothing when a job starts or is taken out."""

    def choose(self, state: State, now: float) -> Moves:
        """Return the jobs that the scheduler would start on free machines."""
        seen = state.snapshot(now)
        pools = standing(seen.pools, seen.machines)
        snapshot = replace(seen, pools=pools, promises=(), planned=())
        plan = self._driver.decide(snapshot, now)
        chosen = {
            name: verdict.job_class
            for name, verdict in plan.verdicts.decided.items()
            if isinstance(verdict, Admit)
        }
        return Moves(
            stops=tuple(life for life in state.holding if life.record.id not in chosen),
            starts={n: c for n, c in chosen.items() if not state.lives[n].is_running},
        )

    def place(
        self, state: State, starting: Mapping[str, JobClass], now: float
    ) -> Mapping[str, Placement]:
        """Return where the scheduler would start them on free devices beside continuing jobs."""
        jobs = {name: state.lives[name].record for name in starting}
        seen, free = state.snapshot(now), _free(state)
        pools = standing(seen.pools, free)
        snapshot = replace(seen, jobs=jobs, machines=free, pools=pools, promises=(), planned=())
        plan = self._driver.decide(snapshot, now)
        return {
            name: verdict.placement
            for name, verdict in plan.verdicts.decided.items()
            if isinstance(verdict, Admit)
        }


def standing(pools: Mapping[str, Pool], machines: Mapping[str, Machine]) -> dict[str, Pool]:
    """Return pools that create no machines: a job that fits on none would get a new one."""
    count = Counter(machine.pool for machine in machines.values())
    return {
        name: replace(pool, max_machines=count[name], min_machines=0)
        for name, pool in pools.items()
        if count[name]
    }


def _free(state: State) -> dict[str, Machine]:
    """Return machines as if they had only their free devices."""
    held: Counter[str] = Counter()
    for life in state.holding:
        held.update(life.taken)
    free = {}
    for name, machine in state.machines.items():
        if not held[name]:
            free[name] = machine
            continue
        kind = state.cluster.named[machine.pool].type
        left = machine.resources - Amounts({kind: held[name]})
        if left[kind]:
            free[name] = replace(machine, resources=left)
    return free


class RoundEngine(Engine):
    """
    A simulation in rounds; a planner chooses which jobs run in each.

    Args: as for `Engine`; the driver places jobs that start beside those that continue.
    """

    planner: RoundPlanner

    def step(self) -> bool:
        """Advance to the next boundary at which anything can change; return False at the end."""
        if not self._open:
            return False
        jobs = self.workload.jobs
        following = self._heap[0][0] if self._heap else math.inf
        if self.arrived < len(jobs):
            following = min(following, self._seen(jobs[self.arrived].submit_s))
        following = min(following, self._seen_or_never(self.fleet.next_at()))
        following = min(following, self._seen_or_never(self.outside.next_at()))
        if self.state.waiting.count and self.state.running and not self.planner.is_lasting:
            following = min(following, self.now + self.round_s)
        if following == math.inf:
            return False
        self.now = max(self.now, following)
        self._happen()
        self._plan_round()
        self._note()
        return True

    def _arrive(self, index: int) -> None:
        name = self._names[index] if self._names else f"{index:07}"
        life = self.state.enter(self.workload.jobs[index], index, name)
        self.state.shown[name] = life.record
        self._count_waiting(life, 1)

    def _count_waiting(self, life: Life, sign: int) -> None:
        self.state.waiting.count += sign
        self.state.waiting.devices += sign * life.job.devices
        if sign > 0:
            self.planner.waits(life)
        else:
            self.planner.waits_no_more(life)

    def _plan_round(self) -> None:
        state = self.state
        if not state.waiting.count:
            return
        stops, starts = self.planner.choose(state, self.now)
        self.cycles += 1
        for life in stops:
            self._leave(life, "preempted")
        if starts:
            for name, placement in self.planner.place(state, starts, self.now).items():
                self._begin(state.lives[name], placement, starts[name])
        if self.watches:
            plan = Plan(verdicts=Verdicts({}), promises=(), planned=(), new_machines=())
            for watch in self.watches:
                watch(state, plan, self.now)

    def _begin(self, life: Life, placement: Placement, job_class: JobClass) -> None:
        state = self.state
        self._count_waiting(life, -1)
        taken = taken_by(placement)
        ready = self.now + self.costs.start_s + (self.costs.restart_s if life.spans else 0.0)
        life.begin(self.now, ready, self.speeds.rate(life.job, taken, state), taken)
        life.job_class = job_class
        state.hold(life, job_class, 1)
        for machine in taken:
            state.on.setdefault(machine, set()).add(life)
        self._schedule(life.ends_at(), 0, life)

    def _release(self, life: Life) -> None:
        self.state.hold(life, life.job_class, -1)
        for machine in life.taken:
            self.state.on[machine].discard(life)

    def set_aside(self, life: Life) -> None:
        """Hold a waiting job: the scheduler does not see it."""
        del self.state.shown[life.record.id]
        self._count_waiting(life, -1)

    def put_back(self, life: Life) -> None:
        """Let a held job join the queue again, as of now."""
        life.record = replace(life.record, queued_at=self.now)
        self.state.shown[life.record.id] = life.record
        self._count_waiting(life, 1)

    def cancel(self, life: Life, takes_s: float = 0.0) -> None:
        """Cancel a job for its user: it ends now, as its end is not visible within a round."""
        del takes_s
        if life.is_running:
            self._release(life)
            life.cancel(self.now)
            del self.state.shown[life.record.id]
        else:
            self.set_aside(life)
            life.ended_at, life.outcome = self.now, "cancelled"
        self._close(life)

    def _end(self, life: Life) -> None:
        self._release(life)
        self._finish(life)
        del self.state.shown[life.record.id]
        self._close(life)

    def _leave(self, life: Life, kind: str) -> None:
        self._release(life)
        life.stop(self.now, kind, self.costs.checkpoint_s)
        self.standstill.stopped(life, len(self.state.lives))
        self._count_waiting(life, 1)
