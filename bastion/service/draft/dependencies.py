"""
Dependencies in a draft: what it knows about jobs that others wait for, and the effect of an end.

The end of a job is recorded in its dependents in the same commit. It leaves root later, so its
outcome never needs to be looked up again.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from functools import partial

from bastion.errors import SpecError
from bastion.job import JobRecord, Phase
from bastion.lifecycle import DependenciesEnded
from bastion.lifecycle.dependencies import Ended, propagate_ends
from bastion.records.requests.targets import Targets, ended_of, without_ended
from bastion.records.tasks import array_told, ended_of_arrays, unended
from bastion.service.draft.root_draft import Draft
from bastion.spec import tasks_of_id


def settle(draft: Draft) -> None:
    """Record the ends of jobs in their dependents, until they end no further dependent."""
    ended = [*ended_of(draft.working_jobs()), *ended_of_arrays(draft.arrays.values())]
    if not (ended and draft.dependents):
        return
    waiting: dict[str, list[str]] = defaultdict(list)
    for name in draft.dependents:
        array = draft.arrays.get(name)
        for each in array.each.after if array is not None else draft.jobs[name].after:
            waiting[each.on].append(name)
    propagate_ends(
        ended,
        unfinished=unended(draft.jobs.values(), draft.arrays.values()),
        waiting=waiting,
        apply=partial(_tell, draft),
    )


def _tell(draft: Draft, name: str, event: DependenciesEnded) -> Ended | None:
    if name not in draft.dependents:
        return None
    if name not in draft.arrays:
        draft.apply(name, event)
        return next(ended_of([draft.jobs[name]]), None)
    array = draft.arrays[name]
    after = array_told(array, event, draft.now)
    if after != array:
        draft.put_array(after)
        draft.is_scheduling = True
        if not after.each.after and after.ended_at is None:
            draft.tell(what="ready", text="all that it waited for has ended", job=after.each)
    return next(ended_of_arrays([after]), None)


def is_on_its_way(draft: Draft, jobs: Iterable[JobRecord]) -> bool:
    """Whether `jobs` depend on a job that joined in this turn and can still be refused."""
    own = {job.id for job in jobs}
    wanted = dict.fromkeys(each.on for job in jobs for each in job.after if each.on not in own)
    return any(_is_new(draft, name) for name in wanted)


def _is_new(draft: Draft, name: str) -> bool:
    """Whether a job, launch or array with this name joined in this turn."""
    if name in draft.arrays:
        return name not in draft.root.arrays
    names = (name, *(job.id for job in draft.by_launch.jobs_of(name)))
    return any(each in draft.jobs and each not in draft.root.jobs for each in names)


def joining(draft: Draft, jobs: Sequence[JobRecord], targets: Targets) -> tuple[JobRecord, ...]:
    """
    Return the jobs of a new launch without the dependencies that are already met.

    It reads only the jobs that they wait for, not the whole queue: a turn accepts hundreds of
    launches.

    Raises:
        SpecError: A dependency is unknown or can never be met; every such dependency is listed.
    """
    project = jobs[0].project
    own = {job.id for job in jobs}
    wanted = dict.fromkeys(each.on for job in jobs for each in job.after if each.on not in own)
    tasks = [(each, named[0]) for each in wanted if (named := tasks_of_id(each)) is not None]
    if tasks:
        raise SpecError(
            *(f"after: {each} is a task; wait for its array, {array}" for each, array in tasks)
        )
    every = (job for name in wanted for job in draft.by_launch.with_left(name))
    known = {job.id: job for job in every if job.project == project}
    each_array = (draft.arrays.get(name) or draft.root.arrays.get(name) for name in wanted)
    arrays = [array for array in each_array if array is not None and array.project == project]
    names = {name for job in known.values() for name in (job.id, job.launch)} | targets.keys()
    names |= {array.id for array in arrays}
    unknown = [each for each in wanted if each not in names]
    if unknown:
        raise SpecError(*(_unknown(draft, each, project) for each in unknown))
    made = without_ended(jobs, known, targets, draft.now, arrays=arrays)
    # A refused launch has a spec but no job that could end.
    active = own | unended(known.values(), arrays).keys()
    active |= {job.id for job in known.values() if job.phase is not Phase.DONE}
    lost = dict.fromkeys(each.on for job in made for each in job.after if each.on not in active)
    if lost:
        raise SpecError(*(_unknown(draft, each, project) for each in lost))
    return made


def _unknown(draft: Draft, target: str, project: str) -> str:
    alike = draft.by_launch.like(project, target)
    meant = f"; did you mean {alike}?" if alike and alike != target else ""
    return f"after: there is no job or launch {target!r} in project {project}{meant}"
