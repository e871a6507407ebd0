"""Machines that admins drain: jobs that still run there at the deadline are preempted."""

from __future__ import annotations

from dataclasses import replace

from bastion.job import JobRecord, Stop, StopReason
from bastion.lifecycle import StopWanted
from bastion.machine import Machine
from bastion.monitor import Options, grace_s
from bastion.service.draft.root_draft import Draft


def drain_machines(draft: Draft, options: Options) -> None:
    """Preempt jobs that run past the deadline of a drain, and report drained machines."""
    draining = {m.name: m for m in draft.machines.values() if m.draining and m.drained_at is None}
    if not draining:
        return
    left = set()
    for job in draft.working_jobs():
        on = [draining[name] for name in machines_of(job) if name in draining]
        left |= {machine.name for machine in on}
        due = next((m for m in on if m.drain_by is not None and draft.now >= m.drain_by), None)
        if due is not None:
            _preempt(draft, job, due, options)
    for name in draining.keys() - left:
        draft.put_machine(replace(draft.machines[name], drained_at=draft.now))
        draft.tell(what="machine drained", text=f"{name}: no job runs on it")


def machines_of(job: JobRecord) -> set[str]:
    """Return the machines that an attempt, or its logs, still need."""
    if job.attempt is None:
        return set()
    return {place.machine for _, _, place, _ in job.attempt.each_host()}


def _preempt(draft: Draft, job: JobRecord, machine: Machine, options: Options) -> None:
    stop = StopWanted(
        stop=Stop(
            reason=StopReason.PREEMPT,
            at=draft.now,
            deadline=draft.now + grace_s(job, options),
            by=f"the drain of machine {machine.name}: {machine.cordoned}",
        )
    )
    if draft.can(job.id, stop):
        draft.apply(job.id, stop)
