"""
Withdrawal of attempts on machines that will not be created.

If no host of an attempt was instructed, no agent can know of it: its job returns to its place in
the queue immediately, and the same turn places it elsewhere. If some of its hosts are already
running, the attempt is stopped like any other, and its barrier is revoked first. Neither counts
against the job.
"""

from __future__ import annotations

from collections.abc import Mapping

from bastion.job import UNTOUCHED, Attempt, JobRecord, Phase, Stop, StopReason
from bastion.lifecycle import StopWanted, Withdrawn
from bastion.monitor import Options, grace_s
from bastion.service.draft.root_draft import Draft


def withdraw_attempts(draft: Draft, given_up: Mapping[str, str], options: Options) -> None:
    """Withdraw or stop every attempt on a machine in `given_up`, which has the reasons."""
    if not given_up:
        return
    for job in draft.working_jobs():
        if job.phase is not Phase.STARTING or job.attempt is None:
            continue
        why = _reason(job.attempt, given_up)
        if why:
            draft.apply(job.id, _event(job, job.attempt, why, draft.now, options))


def _reason(attempt: Attempt, given_up: Mapping[str, str]) -> str:
    hosts = attempt.each_host()
    return next((given_up[p.machine] for _, _, p, _ in hosts if p.machine in given_up), "")


def _event(
    job: JobRecord, attempt: Attempt, why: str, now: float, options: Options
) -> Withdrawn | StopWanted:
    if all(state == UNTOUCHED for _, _, _, state in attempt.each_host()):
        return Withdrawn(text=why)
    deadline = now + grace_s(job, options)
    return StopWanted(stop=Stop(reason=StopReason.NO_MACHINES, at=now, deadline=deadline, by=why))
