"""
Launches that were accepted after a copy of root was made and never started: they are requeued.

A launch is recreated from its spec only if the bucket proves that none of it ever started: it was
accepted, no cancel of it was accepted, and no instruction, register, log or final record names any
of its jobs. Every other launch needs a decision by an admin.

Launches with dependencies are left out, because the outcomes of these may be lost too. Launches
with `when_busy="fail"` are also left out: an accepted one has started.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from bastion.array import ArrayRecord
from bastion.errors import SpecError
from bastion.job import JobRecord
from bastion.records.keys import layout
from bastion.records.requests.answer import Answer
from bastion.records.requests.launch_request import SpecRecord
from bastion.records.requests.queued import queued_array, queued_jobs
from bastion.service.repair.restored_arrays import array_named
from bastion.spec import job_ids
from bastion.store import ObjectStore
from bastion.value import value


@value
class Accepted:
    """A launch that was accepted after the copy and never started."""

    spec: SpecRecord
    at: float
    """When it was accepted, in the store's seconds."""


def never_begun(
    store: ObjectStore,
    specs: Iterable[SpecRecord],
    answers: Mapping[str, Answer],
    *,
    begun: Collection[str],
    cancelled: Collection[str],
) -> tuple[Accepted, ...]:
    """
    Return the launches of `specs` that were accepted and never started.

    Args:
        store: Where their logs would be.
        specs: Of launches that came after the copy.
        answers: By key.
        begun: Jobs and tasks that an instruction, a register or a final record names.
        cancelled: Jobs, arrays and tasks that accepted cancels name.

    Raises:
        StoreError: Out of reach.
    """
    touched = {array_named(job) for job in (*begun, *cancelled)} | set(begun) | set(cancelled)
    found = []
    for spec in specs:
        answer = answers.get(layout.answer(spec.project, spec.user, spec.ulid))
        jobs = job_ids(spec.launch, spec.ulid)
        is_excluded = spec.launch.waits_for_others or spec.launch.when_busy == "fail"
        if answer is None or not answer.accepted or answer.jobs != jobs or is_excluded:
            continue
        if touched & {*jobs, spec.id}:
            continue
        if not any(store.list(layout.job_logs(spec.project, job), limit=1) for job in jobs):
            found.append(Accepted(spec=spec, at=answer.at))
    return tuple(found)


def requeued(
    accepted: Iterable[Accepted], known: Collection[str]
) -> tuple[dict[str, JobRecord], dict[str, ArrayRecord]]:
    """Return the jobs and arrays of `accepted` as they joined the queue, without those `known`."""
    jobs: dict[str, JobRecord] = {}
    arrays: dict[str, ArrayRecord] = {}
    for each in accepted:
        spec = each.spec
        try:
            made = queued_jobs(
                spec.launch, project=spec.project, user=spec.user, ulid=spec.ulid, at=each.at
            )
            array = queued_array(spec.launch, made[0])
        except SpecError:
            continue  # Another version accepted it. `RestoredRoot.lost` names it.
        if any(job.id in known or job.launch in known for job in made):
            continue
        if array is not None:
            arrays[array.id] = array
        else:
            jobs.update((job.id, job) for job in made)
    return jobs, arrays
