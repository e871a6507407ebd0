"""
Jobs that wait for others: what a draft knows of their targets, and what the end of one means.

What happened to a target is written into the waiting jobs in the very commit that sees it end: a
finished job leaves root later, so nobody ever has to ask what became of it.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence

from bastion.errors import SpecError
from bastion.job import JobRecord, Phase
from bastion.lifecycle.awaited import tidings, waits_for
from bastion.records.targets import Targets, ended_of, without_ended
from bastion.service.draft import Draft


def settle(draft: Draft) -> None:
    """Tell every waiting job of the jobs that have ended, and go on until nobody ends by it."""
    told = 0
    while draft.dependents:
        ended = list(ended_of(draft.working_jobs()))
        if len(ended) == told:
            return
        told = len(ended)
        going_on = {job.launch for job in draft.jobs.values() if job.phase is not Phase.DONE}
        for event in tidings(ended, going_on=going_on):
            for job_id in tuple(draft.dependents):
                if waits_for(draft.jobs[job_id].after, event):
                    draft.apply(job_id, event)


def is_on_its_way(draft: Draft, jobs: Iterable[JobRecord]) -> bool:
    """Whether a target of `jobs` came in this very turn, and may yet be refused."""
    new = [job for job in draft.jobs.values() if job.id not in draft.root.jobs]
    names = {name for job in new for name in (job.id, job.launch)}
    own = {job.id for job in jobs}
    return any(each.on in names and each.on not in own for job in jobs for each in job.after)


def joining(draft: Draft, jobs: Sequence[JobRecord], targets: Targets) -> tuple[JobRecord, ...]:
    """
    The jobs of a new launch, without what they need not wait for any more.

    Raises:
        SpecError: A target that nobody knows, or one that ended as it must not: every problem.
    """
    project = jobs[0].project
    every = {**draft.root.jobs, **draft.jobs}
    known = {name: job for name, job in every.items() if job.project == project}
    names = {name for job in known.values() for name in (job.id, job.launch)} | targets.keys()
    own = {job.id for job in jobs}
    wanted = dict.fromkeys(each.on for job in jobs for each in job.after if each.on not in own)
    unknown = [each for each in wanted if each not in names]
    if unknown:
        raise SpecError(*(_unknown(each, project, names) for each in unknown))
    return without_ended(jobs, known, targets, draft.now)


def _unknown(target: str, project: str, names: Iterable[str]) -> str:
    nearest = difflib.get_close_matches(target, sorted(names), n=1)
    meant = f"; did you mean {nearest[0]}?" if nearest else ""
    return f"after: there is no job or launch {target!r} in project {project}{meant}"
