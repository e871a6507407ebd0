"""
Phase 6: every job leaves the cycle with a verdict, and every verdict with a reason.

It must not change anything.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import cache, partial

from bastion.job import JobClass, JobRecord
from bastion.scheduler.explain.census import censuses
from bastion.scheduler.explain.diagnosis import Diagnosis
from bastion.scheduler.forecast.next_change import wake_at
from bastion.scheduler.phases.carried import classes_after, machines_made, planned_of, promises_of
from bastion.scheduler.plan import Admit, Keep, Plan, Preempt, Refuse, Verdict, Verdicts, Wait
from bastion.scheduler.queue.order import Gang
from bastion.scheduler.reasons.reason import (
    Borrowing,
    Doomed,
    Ending,
    Held,
    HoldingReason,
    NeverFits,
    Promised,
    WaitingReason,
    WaitsFor,
    WithinShare,
)
from bastion.scheduler.state.decisions import Doom
from bastion.scheduler.state.draft import Draft
from bastion.scheduler.state.running import Running


def explain(draft: Draft) -> Plan:
    """The plan that `draft` has become."""
    classes = classes_after(draft)
    verdicts: dict[str, Verdict] = {}
    verdicts.update(_admitted(draft, classes))
    verdicts.update(_running(draft, classes))
    verdicts.update(_done(draft, classes))
    diagnosis = Diagnosis(draft)
    verdicts.update(_waiting(diagnosis))
    return Plan(
        verdicts=Verdicts(verdicts, diagnosis.in_line, diagnosis.estimates.starts),
        promises=promises_of(draft),
        planned=planned_of(draft),
        new_machines=(*draft.outset.done.machines, *machines_made(draft)),
        wake_at=wake_at(draft, diagnosis.estimates.passes_at),
    )


def _admitted(draft: Draft, classes: dict[str, JobClass]) -> Iterator[tuple[str, Verdict]]:
    holding = cache(partial(_holding, draft))
    for each in draft.admitted:
        job_class = classes[each.gang[0].id]
        doomed = _doomed_with(draft, each.gang)
        reason = doomed or holding(each.gang[0].project, job_class, draft.now)
        for job, placement in zip(each.gang, each.placed.placements):
            yield job.id, Admit(job_class=job_class, placement=placement, reason=reason)


def _running(draft: Draft, classes: dict[str, JobClass]) -> Iterator[tuple[str, Verdict]]:
    holding = cache(partial(_holding, draft))

    @cache
    def keep(project: str, job_class: JobClass, started_at: float) -> Keep:
        return Keep(job_class=job_class, reason=holding(project, job_class, started_at))

    for running in draft.running.values():
        doom = draft.doomed.get(running.name)
        verdict: Verdict
        if running.is_leaving:
            verdict = Keep(job_class=running.job_class, reason=_ending(running))
        elif doom is None:
            verdict = keep(running.project, classes[running.name], running.started_at)
        elif doom.stop_at <= draft.now:
            deadline = draft.now + running.grace_s
            verdict = Preempt(by=doom.by, deadline=deadline, reason=doom.reason)
        else:
            verdict = Keep(job_class=classes[running.name], reason=_doomed(doom))
        for job in running.jobs:
            yield job.id, verdict


def _done(draft: Draft, classes: dict[str, JobClass]) -> Iterator[tuple[str, Verdict]]:
    """Of those whom earlier passes started or stopped: here they run, or end."""
    holding = cache(partial(_holding, draft))
    for each in draft.outset.done.started:
        project, name = each.gang[0].project, draft.of_job[each.gang[0].id].name
        reason = _doomed_with(draft, each.gang) or holding(project, classes[name], draft.now)
        for job, placement in zip(each.gang, each.placed.placements):
            yield job.id, Admit(job_class=classes[name], placement=placement, reason=reason)
    for name, doom in draft.outset.done.stopped.items():
        yield name, Preempt(by=doom.by, deadline=draft.of_job[name].frees_at, reason=doom.reason)


def _doomed(doom: Doom) -> Doomed:
    return Doomed(by=doom.by, at=doom.stop_at)


def _doomed_with(draft: Draft, gang: Gang) -> Doomed | None:
    """What jobs have to expect that were lost and start again, where the rest of it will end."""
    rest = (draft.of_job[job] for job in gang[0].gang if job in draft.of_job)
    dooms = (draft.doomed[each.name] for each in rest if each.name in draft.doomed)
    return next(map(_doomed, dooms), None)


def _ending(running: Running) -> Ending:
    stop = running.jobs[0].attempt and running.jobs[0].attempt.stop
    cause = stop.reason.value if stop else "asked to"
    return Ending(cause=cause, deadline=running.frees_at)


def _holding(draft: Draft, project: str, job_class: JobClass, started_at: float) -> HoldingReason:
    held = draft.shares.held(project)
    nominal = draft.shares.project(project).nominal
    if job_class is JobClass.GUARANTEED:
        return WithinShare(project=project, held=held & nominal, nominal=nominal)
    safe_until = started_at + draft.options.min_runtime_s
    return Borrowing(project=project, held=held, nominal=nominal, safe_until=safe_until)


def _waiting(diagnosis: Diagnosis) -> Iterator[tuple[str, Verdict]]:
    draft = diagnosis.draft
    for job_id, reason in draft.aside.items():
        job = draft.snapshot.jobs[job_id]
        yield job_id, _verdict(draft, job, Wait(reason=_with_never(draft, job, reason)))
    for reserved in draft.reserved.values():
        ending = {r.name: r for r in (*reserved.waits, *reserved.victims)}
        stopping = tuple(job for name in sorted(ending) for job in ending[name].ids)
        promised = Promised(deadline=reserved.until, stopping=stopping)
        for job in reserved.gang:
            yield job.id, Wait(reason=promised, estimated_at=reserved.until)
    for gang, wait in diagnosis.tell():
        reports = censuses(draft, gang) if gang[0].fail_when_busy else {}
        for job in gang:
            if job.id in reports:
                yield job.id, Refuse(reason=wait.reason, machines=reports[job.id])
            else:
                yield job.id, _verdict(draft, job, wait)


SUBMITTED_S = 60.0
"""
How long after its submission a job that can never run is refused.

Later it waits and says so: a pool that somebody removed by mistake must not cost the queue.
"""


def _verdict(draft: Draft, job: JobRecord, wait: Wait) -> Verdict:
    if job.fail_when_busy:
        return Refuse(reason=wait.reason)
    never = wait.reason.then if isinstance(wait.reason, Held | WaitsFor) else wait.reason
    if isinstance(never, NeverFits) and _is_new(draft, job):
        return Refuse(reason=never)
    return wait


def _is_new(draft: Draft, job: JobRecord) -> bool:
    return not job.attempts and draft.now - job.queued_at <= SUBMITTED_S


def _with_never(draft: Draft, job: JobRecord, reason: WaitingReason) -> WaitingReason:
    """`reason`, and that it can never run even when it is free to go."""
    if not isinstance(reason, Held | WaitsFor):
        return reason
    jobs = draft.snapshot.jobs
    gang = [jobs[name] for name in job.gang if name in jobs] or [job]
    found = draft.beyond(draft.shapes.of(gang))
    return replace(reason, then=found) if isinstance(found, NeverFits) else reason
