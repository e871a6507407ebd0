"""The scheduler's plan, applied to a draft."""

from __future__ import annotations

from collections.abc import Callable
from typing import assert_never

from bastion.job import JobRecord, Phase, Stop, StopReason
from bastion.lifecycle import Admitted, Reclassed, StopWanted
from bastion.scheduler.plan import Admit, Keep, Plan, Preempt, Refuse, Wait
from bastion.scheduler.reasons.reason import Resized, Vacated
from bastion.service.decide.machine_batches import batched
from bastion.service.draft.root_draft import Draft


def apply_plan(draft: Draft, plan: Plan, nonce: Callable[[], str]) -> bool:
    """
    Apply `plan` to `draft`, apart from its verdicts on waiting jobs, which are not state.

    Return whether it changed anything. If it did, another cycle must follow: some jobs can be
    decided only from the new state.
    """
    moved = draft.keep_word(plan.promises, plan.planned) or bool(plan.new_machines)
    for machine in batched(plan, draft.jobs):
        draft.put_machine(machine)
    for job_id, verdict in sorted(plan.verdicts.decided.items()):
        job = draft.jobs.get(job_id)
        if job is None:  # a waiting task has no record before it is admitted
            if not isinstance(verdict, Admit):
                continue
            job = draft.take_task(job_id)
        match verdict:
            case Admit(job_class=job_class, placement=placement):
                event = Admitted(nonce=nonce(), placement=placement, job_class=job_class)
                draft.apply(job_id, event)
                moved = True
            case Preempt():
                moved |= _preempt(draft, job, verdict)
            case Keep(job_class=job_class):
                if job.attempt is not None and job.attempt.job_class is not job_class:
                    draft.apply(job_id, Reclassed(job_class=job_class))
            case Wait() | Refuse():
                pass
            case other:
                assert_never(other)
    return moved


def _preempt(draft: Draft, job: JobRecord, verdict: Preempt) -> bool:
    if job.phase not in (Phase.STARTING, Phase.RUNNING):
        return False
    why, by = StopReason.PREEMPT, verdict.by
    if isinstance(verdict.reason, Resized):
        why, by = StopReason.RESIZE, f"{verdict.reason.fits} in place of {verdict.reason.replicas}"
    elif isinstance(verdict.reason, Vacated):
        by = f"maintenance: {verdict.reason.window}"
    stop = Stop(reason=why, at=draft.now, deadline=verdict.deadline, by=by)
    draft.apply(job.id, StopWanted(stop=stop))
    return True
