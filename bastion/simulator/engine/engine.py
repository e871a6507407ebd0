"""
`Engine`: runs a workload on a cluster, event by event, on a virtual clock.

At each moment, events happen first: attempts end, stopped jobs leave, machines come and go, jobs
arrive. Then the scheduler decides, until it has nothing to add. With `round_s`, everything is seen
at the next boundary of a round, and decided only there.
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Mapping, Sequence
from heapq import heappop, heappush

from bastion.job import JobClass, Placement
from bastion.scheduler.plan import Admit, Keep, Plan, Preempt, Refuse
from bastion.scheduler.reasons.reason import text
from bastion.simulator.engine.driver import Driver
from bastion.simulator.engine.fleet import Fleet
from bastion.simulator.engine.jobs.costs import IDEAL, Costs
from bastion.simulator.engine.jobs.life import Life
from bastion.simulator.engine.outside import Outside
from bastion.simulator.engine.result import JobResult, Result, Series
from bastion.simulator.engine.speed import Speeds
from bastion.simulator.engine.standstill import Standstill
from bastion.simulator.engine.state import State
from bastion.simulator.workload.job import Workload

MAX_CYCLES = 40
"""At one moment. A scheduler that moves jobs more often without time passing does not settle."""

TURN_S = 5.0
"""In a replay: the longest time between two cycles, if something is left to do."""

_DONE_S = 1e-6
"""Remaining work up to this amount counts as done, because times are sums."""

Watch = Callable[[State, Plan, float], None]
"""Called with every plan after it was carried out, and with the time."""

_ENDS, _LEAVES, _MACHINES, _READY, _RUNS, _WAKES, _PARTS = range(7)


def taken_by(placement: Placement) -> Mapping[str, int]:
    """Return the devices of a placement, by machine; CPU and memory are not devices."""
    taken: dict[str, int] = {}
    for replica in placement:
        for host in replica.hosts:
            units = sum(map(len, host.devices.values()))
            taken[host.machine] = taken.get(host.machine, 0) + units
    return taken


class Engine:
    """
    One simulation.

    Args:
        workload: Its jobs fit the cluster; see `Cluster.fitted`.
        state: At its beginning.
        driver: Calls the scheduler.
        costs: What starting and stopping cost.
        round_s: Length of a round, or 0 to decide at every event.
        speeds: How fast jobs work on which devices.
        seed: Of machine failures and stock-outs.
        watches: Called with every plan.
        names: IDs of the jobs, by index; numbers by default.
        outside: What users and admins do in the meantime.
    """

    def __init__(
        self,
        workload: Workload,
        state: State,
        driver: Driver,
        *,
        costs: Costs = IDEAL,
        round_s: float = 0.0,
        speeds: Speeds | None = None,
        seed: int = 1,
        watches: Sequence[Watch] = (),
        names: Sequence[str] = (),
        outside: Outside | None = None,
    ) -> None:
        self.workload, self.state, self.driver, self.costs = workload, state, driver, costs
        self.round_s = round_s
        self.speeds = speeds or Speeds(state.cluster)
        self.watches = tuple(watches)
        self.now = 0.0
        self.cycles = 0
        self.ended = 0
        """Number of jobs that have ended."""
        self.arrived = 0
        """Number of jobs that have been submitted."""
        self.series = Series(("used", "capacity", "waiting", "asked", "running"))
        self.held = Series(sorted(state.held_by))
        self.results: list[JobResult | None] = [None] * len(workload.jobs)
        self.fleet = Fleet(state, costs, seed)
        self.standstill = Standstill(costs)
        self.violations: list[str] = []
        self.outside = outside or Outside()
        self._names = names
        self._heap: list[tuple[float, int, int, Life | None, int]] = []
        self._count = 0
        self._wake = math.inf
        self._late: dict[int, float] = {}
        self._open = sum(workload.is_tracked(i) for i in range(len(workload.jobs)))
        """Tracked jobs that have not ended: when none is left, it is over."""
        options = state.quota.scheduler
        self._bound_s = options.min_runtime_s + options.max_grace_s

    # Time

    def step(self) -> bool:
        """
        Advance to the next moment at which anything happens; return False when it is over.

        It is over when every tracked job has ended, or no waiting job will ever start.
        """
        if not self._open:
            return False
        jobs = self.workload.jobs
        following = self._heap[0][0] if self._heap else math.inf
        if self.arrived < len(jobs):
            following = min(following, self._seen(jobs[self.arrived].submit_s))
        following = min(following, self._seen_or_never(self.outside.next_at()))
        is_idle = following == math.inf and not self.state.holding
        if is_idle and self.fleet.only_fails:
            return False  # waiting jobs would not fit after a machine failure either
        following = min(following, self.fleet.next_at())
        if following == math.inf:
            return False
        self.now = max(self.now, following)
        self._turn()
        return True

    def _turn(self) -> None:
        self.state.books.advance(self.now)
        is_replay = bool(self.workload.moments)
        for _ in range(1 if is_replay else MAX_CYCLES):
            changed, only_ends = self._happen()
            if not changed or not self.driver.needs_cycle(self.state, only_ends=only_ends):
                break
            plan = self.driver.plan(self.state, self.now)
            self.cycles += 1
            moved = self._carry_out(plan)
            for watch in self.watches:
                watch(self.state, plan, self.now)
            is_open = plan.wake_at is not None and plan.wake_at <= self.now
            if not (is_open or (moved and self.state.waiting.count)):
                break
            self._schedule(self._following(self.now) if is_replay else self.now, _WAKES)
        self._note()

    def _following(self, time: float, *, is_enough: bool = False) -> float:
        """
        Return when the record's next commit after `time` was; soon, if it has none.

        With `is_enough`, a commit at `time` itself counts too.
        """
        moments = self.workload.moments
        at = (bisect_left if is_enough else bisect_right)(moments, time)
        soon = time + TURN_S
        return min(moments[at], soon) if at < len(moments) else soon

    def _seen(self, time: float) -> float:
        """Return when an event at `time` is seen."""
        if not self.round_s:
            return time
        rounds = math.ceil(round(time / self.round_s, 9))
        return rounds * self.round_s

    def _seen_or_never(self, time: float) -> float:
        return time if time == math.inf else self._seen(time)

    def _schedule(self, time: float, kind: int, life: Life | None = None) -> None:
        self._count += 1
        version = life.version if life is not None else 0
        heappush(self._heap, (self._seen(time), kind, self._count, life, version))

    def _happen(self) -> tuple[bool, bool]:
        """Carry out all current events; return whether there were any, and whether all are ends."""
        heap, changed, only_ends = self._heap, False, True
        while heap and heap[0][0] <= self.now:
            _, kind, _, life, version = heappop(heap)
            if life is not None and life.version != version:
                continue
            if kind == _ENDS and life is not None:
                self._end(life)
            elif kind == _LEAVES and life is not None:
                self._leave(life, "preempted")
                only_ends = False
            else:
                self._go_on(kind, life)
                only_ends = False
            changed = True
        for life in self.fleet.happen(self.now):
            self._leave(life, "lost")
        if self.fleet.has_changed:
            changed, only_ends = True, False
        jobs = self.workload.jobs
        while self.arrived < len(jobs) and jobs[self.arrived].submit_s <= self.now:
            self._arrive(self.arrived)
            self.arrived += 1
            changed, only_ends = True, False
        if self.outside.happen(self, self.now):
            changed, only_ends = True, False
        return changed, only_ends

    def _go_on(self, kind: int, life: Life | None) -> None:
        """Handle an event that does not end a whole attempt."""
        if kind == _RUNS and life is not None:
            self.state.started(life, self.now)
        elif kind == _PARTS and life is not None:
            self._end_parts(life)
        elif kind == _WAKES and self._wake <= self.now:
            self._wake = math.inf

    def _arrive(self, index: int) -> None:
        name = self._names[index] if self._names else f"{index:07}"
        self.state.submit(self.workload.jobs[index], index, name)

    # What the scheduler wants

    def _carry_out(self, plan: Plan) -> bool:
        """Carry out `plan`; return whether anything moved, or the next cycle is due now."""
        state, moved = self.state, False
        for promise in plan.promises:
            if promise.within_share:
                life = state.lives[promise.gang[0]]
                if life.promised_at is None:
                    life.promised_at = self.now
        is_replay = bool(self.workload.moments)
        word = plan.promises, plan.planned
        moved = is_replay and word != (state.promises, state.planned)  # as a service counts it
        state.take(plan)
        moved |= self.fleet.make(plan.new_machines, self.now)
        for name, verdict in plan.verdicts.decided.items():
            match verdict:
                case Keep():
                    life = state.lives[name]
                    state.reclass(life, verdict.job_class)
                case Admit():
                    life = state.lives[name]
                    self._start(life, verdict.placement, verdict.job_class)
                    moved = True
                case Preempt():
                    self._stop(state.lives[name], verdict.deadline, verdict.by)
                    moved = True
                case Refuse():
                    self._refuse(state.lives[name], text(verdict.reason, self.now))
                case _:
                    pass
        if plan.wake_at is None:
            return moved
        if self.now < plan.wake_at < self._wake:
            self._wake = plan.wake_at
            at = self._following(plan.wake_at, is_enough=True) if is_replay else plan.wake_at
            self._schedule(at, _WAKES)
        return moved or plan.wake_at <= self.now  # the next cycle carries out what one announces

    def _start(self, life: Life, placement: Placement, job_class: JobClass) -> None:
        state, costs = self.state, self.costs
        taken = taken_by(placement)
        ready = self.fleet.ready_at(taken, self.now) + costs.start_s
        if life.spans:
            ready += costs.restart_s
        begins = life.job.begins[: len(life.spans) + 1]
        runs_at = self.now + (begins[-1] if begins else 0.0)
        is_at_once = runs_at <= self.now
        state.start(
            life, placement, job_class, self.now, started_at=self.now if is_at_once else None
        )
        life.begin(self.now, ready, self.speeds.rate(life.job, taken, state), taken)
        if not is_at_once and runs_at < math.inf:
            self._schedule(runs_at, _RUNS, life)
        if life.promised_at is not None:
            late = self.now - life.promised_at - self._bound_s
            if late > 0 and life.first_start == self.now:
                self._late[life.index] = late
                self.violations.append(
                    f"at {self.now:.0f} s: {life.job.name} of {life.job.project} started"
                    f" {late:.0f} s after its guaranteed bound of {self._bound_s:.0f} s"
                )
        self._end_at(life, life.ends_at(), _ENDS)

    def _end_at(self, life: Life, at: float, kind: int) -> None:
        """Schedule that an attempt is gone `at` a time; in a replay, some replicas before."""
        self._schedule(at, kind, life)
        if life.job.parts:
            for time in life.part_before(at, self.now):
                self._schedule(time, _PARTS, life)

    def _end_parts(self, life: Life) -> None:
        for replica in [each for each, at in life.parts.items() if at <= self.now]:
            del life.parts[replica]
            self.state.end_part(life, replica)

    def _stop(self, life: Life, deadline: float, by: str) -> None:
        if life.stops_at is not None:
            return
        self.state.preempt(life, deadline, by, self.now)
        known = life.job.stops[life.preemptions :]
        leave_s = known[0].leave_s if known else self.costs.leave_s
        life.stops_at = self.now + leave_s
        if not known:
            life.stops_at = min(deadline, life.stops_at)
        self._end_at(life, life.stops_at, _LEAVES)

    # What jobs do

    def _end(self, life: Life) -> None:
        self.state.leave(life)
        self._finish(life)
        self._close(life)

    def _finish(self, life: Life) -> None:
        ends_at = life.ends_at()
        limit = life.job.max_runtime_s
        is_cut = limit is not None and life.left_by(ends_at) > _DONE_S
        life.finish(self.now, "timed_out" if is_cut else "succeeded", ends_at)

    def _leave(self, life: Life, kind: str) -> None:
        if kind == "preempted" and life.left_by(self.now) <= _DONE_S:
            self._end(life)
            return
        if life.is_cancelled:
            self.cancel(life)
            return
        life.stop(self.now, kind, self.costs.checkpoint_s)
        self.state.requeue(life, self.now)
        self.standstill.stopped(life, len(self.state.lives))

    # What users and admins do

    def set_aside(self, life: Life) -> None:
        """Hold a waiting job: the scheduler does not see it."""
        self.state.waiting.remove(life)

    def put_back(self, life: Life) -> None:
        """Let a held job join the queue again, as of now."""
        self.state.rejoin(life, self.now)

    def cancel(self, life: Life, takes_s: float = 0.0) -> None:
        """Cancel a job for its user: it ends now, or gets its notice and ends `takes_s` later."""
        if life.is_running and takes_s:
            self._tell_to_end(life, takes_s)
            return
        if life.is_running:
            self.state.leave(life)
            life.cancel(self.now)
        else:
            self.set_aside(life)
            life.ended_at, life.outcome = self.now, "cancelled"
        self._close(life)

    def _tell_to_end(self, life: Life, takes_s: float) -> None:
        life.is_cancelled = True
        if life.stops_at is None:
            self.state.cancel(life, self.now)
            life.stops_at = self.now + takes_s
            self._end_at(life, life.stops_at, _LEAVES)

    def _refuse(self, life: Life, reason: str) -> None:
        if life.is_running:
            return
        self.state.waiting.remove(life)
        life.ended_at, life.outcome = self.now, "refused"
        self._close(life, reason)

    def _close(self, life: Life, reason: str = "") -> None:
        self.state.forget(life)
        self.standstill.ended()
        self.ended += 1
        self._record(life, reason)
        self._open -= self.workload.is_tracked(life.index)

    def _record(self, life: Life, reason: str) -> None:
        self.results[life.index] = JobResult(
            job=life.job,
            first_start=life.first_start,
            ended_at=life.ended_at,
            outcome=life.outcome or ("running" if life.is_running else "waiting"),
            preemptions=life.preemptions,
            lost_s=life.lost_s,
            spans=tuple(life.spans),
            is_tracked=self.workload.is_tracked(life.index),
            late_s=self._late.get(life.index, 0.0),
            was_promised=life.promised_at is not None,
            reason=reason,
        )

    # What is measured

    def _note(self) -> None:
        if not self.arrived:
            return  # in a replay, admins act before the first job
        state = self.state
        self.series.add(
            self.now,
            state.used,
            state.capacity,
            state.waiting.count,
            state.waiting.devices,
            state.running,
        )
        self.held.add(self.now, *(state.held_by.get(name, 0) for name in self.held.names))

    def result(
        self,
        label: str,
        settings: dict[str, str],
        *,
        took_s: float,
        is_partial: bool = False,
    ) -> Result:
        """Return what has happened so far, with the reasons of jobs that still wait."""
        reasons: Mapping[str, str] = {}
        if self.state.waiting.count and not is_partial:
            reasons = self.driver.reasons(self.state.snapshot(self.now), self.now)
        for life in list(self.state.lives.values()):
            if life.is_running:
                useful = min(life.worked_by(self.now), life.job.duration_s - life.done_s)
                life._close(self.now, useful, "running")
                life.outcome = "running"
            self._record(life, reasons.get(life.record.id, ""))
        began = self.workload.jobs[0].submit_s if self.workload.jobs else 0.0
        return Result(
            label=label,
            settings=settings,
            jobs=[each for each in self.results if each is not None],
            series=self.series,
            held=self.held,
            machines=dict(self.state.stood),
            began_at=began,
            ended_at=self.now,
            cycles=self.cycles,
            is_partial=is_partial,
            took_s=took_s,
            violations=tuple(self.violations),
        )
