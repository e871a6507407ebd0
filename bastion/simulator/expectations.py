"""
An admin's expectations of a quota file, checked at every cycle of a simulation.

There are three: a job within its project's share starts within the bound that the file guarantees,
no job waits longer than a limit, and devices do not idle while a job waits that would fit on them.
A broken expectation is reported once per job, with the time of the cycle and the scheduler's own
reason.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from typing import Literal

from bastion.job import Phase
from bastion.scheduler.plan import Plan
from bastion.scheduler.snapshot import Snapshot
from bastion.scheduler.state.holders.budgets import spent_budgets
from bastion.simulator.engine.driver import Driver
from bastion.simulator.engine.jobs.life import Life
from bastion.simulator.engine.state import State
from bastion.value import value

What = Literal["share", "wait", "idle"]
_NUMBER = re.compile(r"\b\d{7}\b")
SLACK_S = 1.0
"""Allowed beyond the bound, for the cycle itself."""


@value
class Limits:
    """The expectations."""

    max_wait_s: float = math.inf
    """The longest wait before the first start."""
    idle_s: float = 600.0
    """How long devices may idle while a job that fits on them waits."""


@value
class Broken:
    """One expectation that was not met."""

    at_s: float
    """When it was found, in the time of the workload."""
    what: What
    job: str
    project: str
    lasted_s: float
    """How long it had lasted."""
    reason: str
    """The scheduler's: at that time, or from while it still waited if the job started then."""

    @property
    def text(self) -> str:
        """What was expected, in a few words."""
        return {
            "share": "within its project's share, and not started in the guaranteed bound",
            "wait": "waited above the limit",
            "idle": "free devices would hold it",
        }[self.what]


class Expectations:
    """
    Checks every plan against the limits; pass it to `simulated` as a watch.

    Args:
        limits: The expectations.
        driver_of: Returns the driver that gives reasons, once there is one.
    """

    def __init__(self, limits: Limits, driver_of: Callable[[], Driver]) -> None:
        self._limits, self._driver_of = limits, driver_of
        self._since: dict[What, dict[str, float]] = {"share": {}, "idle": {}, "wait": {}}
        self._told: set[tuple[What, str]] = set()
        self._before: tuple[Snapshot, float] | None = None
        """The state after the last cycle, and its time: a job that starts now waited in it."""
        self.broken: list[Broken] = []

    def __call__(self, state: State, plan: Plan, now: float) -> None:
        """Check the state after a plan was carried out."""
        del plan
        waiting = {
            name: state.lives[name]
            for name, record in state.shown.items()
            if record.phase is Phase.QUEUED and not state.lives[name].is_running
        }
        options = state.quota.scheduler
        bound = options.min_runtime_s + options.max_grace_s + SLACK_S
        spent = spent_budgets(state.quota, state.books.spent)
        able = {name: life for name, life in waiting.items() if not _is_over(spent, state, life)}
        within = {name for name, life in able.items() if _is_within(state, life)}
        free = _free(state)
        held = {name for name, life in able.items() if _would_hold(free, life)}
        first = {n for n, life in waiting.items() if life.first_start is None}
        self._look("share", within, bound, state, now)
        self._look("idle", held, self._limits.idle_s, state, now)
        self._look("wait", first, self._limits.max_wait_s, state, now)
        self._before = _kept(state.snapshot(now)), now

    def _look(self, what: What, so: set[str], limit_s: float, state: State, now: float) -> None:
        """Record the jobs to which `what` applies now; report those for which it lasts too long."""
        since = self._since[what]
        late = {name: at for name, at in since.items() if now - at > limit_s}
        for name in since.keys() - so:
            del since[name]
        for name in so:
            life = state.lives[name]
            since.setdefault(name, life.job.submit_s if what == "wait" else now)
        told, lives = self._told, state.lives
        late = {name: at for name, at in late.items() if (what, name) not in told and name in lives}
        reasons = self._reasons(late, state, now) if late else {}
        for name, at in sorted(late.items()):
            self._tell(what, name, state, now, at, reasons.get(name, ""))

    def _reasons(self, late: Collection[str], state: State, now: float) -> Mapping[str, str]:
        """Return why late jobs wait, or waited until they started now."""
        driver, reasons = self._driver_of(), dict[str, str]()
        if self._before is not None and any(state.lives[name].is_running for name in late):
            reasons.update(driver.reasons(*self._before))
        if not all(state.lives[name].is_running for name in late):
            reasons.update(driver.reasons(state.snapshot(now), now))
        return reasons

    def _tell(
        self, what: What, name: str, state: State, now: float, since: float, reason: str
    ) -> None:
        life = state.lives[name]
        self._told.add((what, name))
        self.broken.append(
            Broken(
                at_s=now,
                what=what,
                job=life.job.name,
                project=life.job.project,
                lasted_s=now - since,
                reason=_named(reason, state),
            )
        )


def _kept(snapshot: Snapshot) -> Snapshot:
    """Return `snapshot` as it is now, because its parts will change."""
    return replace(
        snapshot,
        jobs=dict(snapshot.jobs),
        machines=dict(snapshot.machines),
        decayed=dict(snapshot.decayed),
        decayed_by_user=dict(snapshot.decayed_by_user),
        spent=snapshot.spent,
        stockouts=dict(snapshot.stockouts),
        reports=dict(snapshot.reports),
    )


def _named(reason: str, state: State) -> str:
    """Return `reason` with the names of jobs instead of their numbers."""

    def name(found: re.Match[str]) -> str:
        life = state.lives.get(found[0])
        return life.job.name if life is not None else found[0]

    return _NUMBER.sub(name, reason)


def _is_over(spent: Collection[tuple[str, str]], state: State, life: Life) -> bool:
    """Whether a budget that is `spent` prevents it from starting."""
    chain = state.quota.chain(life.job.project)
    return any((node.name, life.job.type) in spent for node in chain)


def _is_within(state: State, life: Life) -> bool:
    """Whether it fits into its project's share beside everything the project holds."""
    job = life.job
    nominal = state.quota.project(job.project).nominal[job.type]
    return state.held_by.get(job.project, 0) + job.devices <= nominal


def _free(state: State) -> dict[str, list[int]]:
    """Return the free devices of every machine, by type."""
    held: dict[str, int] = {}
    for life in state.holding:
        for taken, units in life.taken.items():
            held[taken] = held.get(taken, 0) + units
    free: dict[str, list[int]] = {}
    for name, machine in state.machines.items():
        if machine.accepts:
            kind = state.cluster.named[machine.pool].type
            free.setdefault(kind, []).append(machine.resources[kind] - held.get(name, 0))
    return free


def _would_hold(free: dict[str, list[int]], life: Life) -> bool:
    job = life.job
    each = job.devices // job.replicas
    return sum(units // each for units in free.get(job.type, ())) >= job.replicas
