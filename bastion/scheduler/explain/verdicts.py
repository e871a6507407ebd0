"""
Phase 6: every job leaves the cycle with a verdict, and every verdict with a reason.

This module must not change what was decided.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import chain

from bastion.job import JobClass, JobRecord
from bastion.scheduler.explain.census import censuses
from bastion.scheduler.explain.set_aside import SetAside
from bastion.scheduler.explain.waiting import NOT_YET, WaitingGangs
from bastion.scheduler.forecast.next_change import wake_at
from bastion.scheduler.outcome import (
    classes_after,
    is_told,
    machines_made,
    planned_of,
    promises_of,
)
from bastion.scheduler.phases.maintenance import running_into
from bastion.scheduler.plan import (
    Admit,
    Estimate,
    Keep,
    Plan,
    Preempt,
    Refuse,
    Verdict,
    Verdicts,
    Wait,
)
from bastion.scheduler.queue.order import Gang
from bastion.scheduler.queue.positions import Crowd
from bastion.scheduler.reasons.holding import MaintenanceStop
from bastion.scheduler.reasons.reason import (
    Borrowing,
    Ending,
    Held,
    Promised,
    ToBePreempted,
    WaitsFor,
    WithinShare,
    can_never_run,
)
from bastion.scheduler.state.blocked import Blocked
from bastion.scheduler.state.decisions import PlannedStop
from bastion.scheduler.state.draft import Draft
from bastion.scheduler.state.holders.running import Running
from quota.maintenance import Window


def explain(draft: Draft) -> Plan:
    """Return the plan that `draft` has become."""
    blocked = Blocked(draft)
    waiting = WaitingGangs(draft, blocked)
    told = dict(_waiting(waiting))
    holding = Holding(draft)
    decided = {**_decided(draft, holding), **told}
    starts, passes_at = waiting.estimates.starts, waiting.estimates.passes_at
    verdicts = Verdicts(decided, waiting.in_line, starts, holding.verdicts)
    return _plan(draft, verdicts, blocked, passes_at=passes_at)


def outline(draft: Draft) -> Plan:
    """Return the same plan without verdicts on waiting jobs, for callers that need no reasons."""
    holding = Holding(draft)
    verdicts = Verdicts(_decided(draft, holding), holding=holding.verdicts)
    return _plan(draft, verdicts, Blocked(draft), passes_at=math.inf)


def _plan(draft: Draft, verdicts: Verdicts, blocked: Blocked, *, passes_at: float) -> Plan:
    return Plan(
        verdicts=verdicts,
        promises=promises_of(draft),
        planned=planned_of(draft),
        new_machines=machines_made(draft),
        considered=draft.search.considered_so_far(),
        wake_at=wake_at(draft, blocked, passes_at),
    )


def _decided(draft: Draft, holding: Holding) -> dict[str, Verdict]:
    """Return what to do with jobs that start, that are stopped, or whose class changes."""
    classes = classes_after(draft)
    return dict(chain(_admitted(draft, holding, classes), _running(draft, holding, classes)))


def _admitted(
    draft: Draft, holding: Holding, classes: Mapping[str, JobClass]
) -> Iterator[tuple[str, Verdict]]:
    for each in draft.admitted:
        job_class = classes[each.gang[0].id]
        told = _stopped_with(draft, each.gang) if draft.victims else None
        types = each.placed.total.types()
        reason = told or holding.reason(each.gang[0].project, job_class, draft.now, types)
        for job, placement in zip(each.gang, each.placed.placements):
            yield job.id, Admit(job_class=job_class, placement=placement, reason=reason)


def _running(
    draft: Draft, holding: Holding, classes: Mapping[str, JobClass]
) -> Iterator[tuple[str, Verdict]]:
    """Yield the verdicts on running gangs that are stopped or whose class changes."""
    names = {name for name in classes if name in draft.running}
    names.update(draft.victims, draft.occupancy.reclassed)
    for running in (draft.running[name] for name in sorted(names)):
        if running.is_leaving:
            continue
        stop = draft.victims.get(running.name)
        job_class = classes.get(running.name, running.job_class)
        verdict: Verdict
        if stop is None:
            if job_class is running.recorded_class:
                continue
            verdict = holding.keep(running, job_class)
        elif is_told(draft, running):
            deadline = draft.now + running.grace_s
            verdict = Preempt(by=stop.by, deadline=deadline, reason=stop.reason)
        else:
            verdict = Keep(job_class=job_class, reason=_to_be_preempted(stop))
        for job in running.jobs:
            yield job.id, verdict


class Holding:
    """The verdicts on gangs that keep what they hold, computed on request."""

    def __init__(self, draft: Draft) -> None:
        self._running = draft.running
        self._shares = draft.shares
        self._now, self._min_runtime_s = draft.now, draft.options.min_runtime_s
        self._reasons: dict[tuple[object, ...], WithinShare | Borrowing] = {}
        self._stops = {
            running.name: _maintenance_of(running, window)
            for running, window in running_into(draft)
        }

    def verdicts(self) -> Iterator[tuple[str, Verdict]]:
        """Yield verdicts on all jobs that hold devices, as if nothing happened to any of them."""
        for running in self._running.values():
            if running.recorded_class is None:
                continue  # decided: all of its jobs must have one class
            if running.is_leaving:
                verdict = Keep(job_class=running.recorded_class, reason=_ending(running))
            else:
                verdict = self.keep(running, running.recorded_class)
            for job in running.jobs:
                yield job.id, verdict

    def keep(self, running: Running, job_class: JobClass) -> Keep:
        """Return the verdict that `running` continues."""
        types = running.held.types()
        reason = self.reason(running.project, job_class, running.started_at, types)
        if running.name in self._stops:
            reason = replace(reason, maintenance=self._stops[running.name])
        return Keep(job_class=job_class, reason=reason)

    def reason(
        self, project: str, job_class: JobClass, started_at: float, types: tuple[str, ...]
    ) -> WithinShare | Borrowing:
        """Return on what basis a gang of `project` holds these types."""
        is_own = job_class is JobClass.GUARANTEED
        key = project, types, None if is_own else started_at
        if key in self._reasons:
            return self._reasons[key]
        held = self._shares.held(project).only(types)
        nominal = self._shares.project(project).nominal.only(types)
        reason: WithinShare | Borrowing
        if is_own:
            reason = WithinShare(project=project, held=held & nominal, nominal=nominal)
        else:
            safe_until = started_at + self._min_runtime_s
            reason = Borrowing(project=project, held=held, nominal=nominal, safe_until=safe_until)
        self._reasons[key] = reason
        return reason


def _to_be_preempted(stop: PlannedStop) -> ToBePreempted:
    return ToBePreempted(by=stop.by, at=stop.stop_at)


def _stopped_with(draft: Draft, gang: Gang) -> ToBePreempted | None:
    """Return what lost jobs that restart face, if the rest of their gang will be preempted."""
    rest = (draft.of_job[job] for job in gang[0].gang if job in draft.of_job)
    stops = (draft.victims[each.name] for each in rest if each.name in draft.victims)
    return next(map(_to_be_preempted, stops), None)


def _ending(running: Running) -> Ending:
    stop = running.jobs[0].attempt and running.jobs[0].attempt.stop
    cause = stop.reason.value if stop else "asked to"
    return Ending(cause=cause, deadline=running.frees_at)


def _waiting(waiting: WaitingGangs) -> Iterator[tuple[str, Verdict]]:
    draft = waiting.draft
    for reserved in draft.promised.values():
        ending = {r.name: r for r in (*reserved.waits, *reserved.victims)}
        stopping = tuple(job for name in sorted(ending) for job in ending[name].ids)
        victims = tuple(job for each in reserved.victims for job in each.ids)
        going = filter(draft.is_departing, reserved.waits)
        at = max([reserved.until, *map(draft.ends_at, going)])  # cycles may have been late
        promised = Promised(deadline=at, stopping=stopping, victims=victims)
        for job in reserved.gang:
            yield job.id, Wait(reason=promised, start=Estimate(at=at))
    for gang, wait in waiting.tell():
        is_refused = gang[0].fail_when_busy and wait is not NOT_YET
        reports = censuses(draft, gang) if is_refused else {}
        for job in gang:
            if job.id in reports:
                yield job.id, Refuse(reason=wait.reason, machines=reports[job.id])
            else:
                yield job.id, _verdict(draft, job, wait)
    set_aside = SetAside(draft, waiting.diagnosis)
    for line, entries, reason in draft.lines_aside:
        told = set_aside.told(entries[0].gang, line.shape, reason)
        if line.fail_when_busy or can_never_run(told):
            jobs = (entry.gang[0] for entry in entries)
            yield from ((job.id, _verdict(draft, job, Wait(reason=told))) for job in jobs)
        else:
            waiting.in_line.append(Crowd(tails=[(entries, 0)], reason=told))
    for job_id, known in draft.aside.items():
        job = draft.snapshot.jobs[job_id]
        yield job_id, _verdict(draft, job, Wait(reason=set_aside.with_next(job, known)))


SUBMITTED_S = 60.0
"""
How long after its submission a job that can never run is refused.

Later it waits and says so: a pool removed by mistake must not empty the queue.
"""


def _verdict(draft: Draft, job: JobRecord, wait: Wait) -> Verdict:
    if job.fail_when_busy and wait is not NOT_YET:
        return Refuse(reason=wait.reason)
    never = wait.reason.then if isinstance(wait.reason, Held | WaitsFor) else wait.reason
    if never is not None and can_never_run(never) and _is_new(draft, job):
        return Refuse(reason=never)
    return wait


def _is_new(draft: Draft, job: JobRecord) -> bool:
    return not job.attempts and draft.now - min(job.submitted_at, job.queued_at) <= SUBMITTED_S


def _maintenance_of(running: Running, window: Window) -> MaintenanceStop:
    if not running.shape.resumes:
        return MaintenanceStop(at=window.starts_at, window=str(window), is_left=True)
    return MaintenanceStop(at=window.starts_at - running.grace_s, window=str(window))
