"""
The targets of a request: jobs by id, all jobs of a launch, an array, or some tasks of one.

A verb on an array changes its record and the records of its admitted tasks. Tasks that it does not
apply to are skipped. If it applies to none, that is a problem.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from bastion.array import ArrayRecord, cancelled, held_back, released, updated
from bastion.job import JobRecord
from bastion.records.requests.job_request import JobsRequest, UpdateRequest
from bastion.service.draft.root_draft import Draft
from bastion.spec import Indices, tasks_of_id
from bastion.spec.arrays.indices import NONE
from bastion.value import value

SHOWN_RANGES = 20
"""Ranges of tasks that an event lists."""


@value
class Aimed:
    """An array or some of its tasks, as named by a target."""

    target: str
    array: ArrayRecord
    tasks: Indices

    @property
    def is_whole(self) -> bool:
        """Whether it is the whole array."""
        return self.tasks == self.array.tasks


@value
class Targets:
    """Everything that one request names."""

    jobs: tuple[JobRecord, ...]
    """The jobs with a record, including tasks of arrays."""
    arrays: tuple[Aimed, ...] = ()
    unknown: tuple[str, ...] = ()
    problems: tuple[str, ...] = ()


def targets_of(draft: Draft, project: str, targets: Sequence[str]) -> Targets:
    """Look up `targets` in `project`."""
    arrays: list[Aimed] = []
    problems: list[str] = []
    jobs: dict[str, JobRecord] = {}
    for target in dict.fromkeys(targets):
        if (one := draft.jobs.get(target)) is not None:
            jobs[one.id] = one
        jobs.update((job.id, job) for job in draft.by_launch.jobs_of(target))
        array, tasks = _array_named(draft, target)
        if array is None or array.project != project:
            continue
        strange = tasks - array.tasks
        if strange:
            problems.append(f"{target}: the tasks of {array.id} are {array.tasks}")
        arrays.append(Aimed(target=target, array=array, tasks=tasks))
    for name, tasks in _tasks_by_array(arrays).items():
        jobs.update((job.id, job) for job in draft.by_launch.jobs_of(name) if job.task in tasks)
    found = tuple(job for job in jobs.values() if job.project == project)
    known = {job.id for job in found} | {job.launch for job in found}
    known |= {each.target for each in arrays}
    unknown = tuple(target for target in dict.fromkeys(targets) if target not in known)
    return Targets(jobs=found, arrays=tuple(arrays), unknown=unknown, problems=tuple(problems))


def _tasks_by_array(arrays: Iterable[Aimed]) -> dict[str, Indices]:
    """Return the named tasks of each array, in all targets together."""
    pairs: dict[str, list[tuple[int, int]]] = {}
    for each in arrays:
        pairs.setdefault(each.array.id, []).extend(each.tasks.pairs)
    return {name: Indices(found) for name, found in pairs.items()}


def _array_named(draft: Draft, target: str) -> tuple[ArrayRecord | None, Indices]:
    array = draft.arrays.get(target)
    if array is not None:
        return array, array.tasks
    named = tasks_of_id(target)
    return (draft.arrays.get(named[0]), named[1]) if named is not None else (None, NONE)


def reached(aimed: Aimed, verb: str) -> Indices:
    """Return the tasks without their own record that `verb` applies to."""
    waiting = aimed.array.held if verb == "release" else aimed.array.waiting
    return waiting & aimed.tasks


def obstacle(aimed: Aimed, verb: str, *, moves: bool, passed: str) -> str:
    """
    Return why `verb` does not apply to these tasks, or an empty string.

    Args:
        aimed: The tasks.
        verb: What is requested.
        moves: Whether it applies to any of them that has a record.
        passed: Why it does not apply to another that has one, or an empty string.
    """
    touched = reached(aimed, verb)
    if verb == "update" and touched and not aimed.is_whole:
        return (
            f"{aimed.target}: tasks that never started are changed together; name the array,"
            f" {aimed.array.id}"
        )
    if touched or moves or verb == "cancel":
        return ""
    what = {"hold": "waits", "release": "is held"}.get(verb, "waits or runs")
    return passed or f"{aimed.target}: none of its tasks {what}"


def changed(
    draft: Draft, aimed: Aimed, verb: str, body: JobsRequest | UpdateRequest, user: str
) -> ArrayRecord:
    """Return the array with `verb` applied to the tasks that have no record of their own."""
    array, tasks = draft.arrays[aimed.array.id], aimed.tasks
    if isinstance(body, UpdateRequest):
        if not aimed.is_whole:
            return array
        return updated(array, priority=body.priority, max_runtime_s=body.max_runtime_s)
    if verb == "hold":
        return held_back(array, tasks, user)
    if verb == "release":
        return released(array, tasks, draft.now)
    return cancelled(array, tasks, user, draft.now)


def change(
    draft: Draft, aimed: Aimed, verb: str, body: JobsRequest | UpdateRequest, user: str
) -> None:
    """Put the array as `changed` returns it, and record the tasks that it cancels."""
    array = draft.arrays[aimed.array.id]
    after = changed(draft, aimed, verb, body, user)
    gone = array.waiting - after.waiting
    if gone:
        text = f"tasks {_short(gone)} by {user}, before they started"
        draft.tell(what="cancelled", text=text, job=array.each)
    draft.put_array(after)


def _short(tasks: Indices) -> str:
    """Return `tasks` as text, which root holds until it is sealed; many ranges are counted."""
    if tasks.ranges <= SHOWN_RANGES:
        return str(tasks)
    first = Indices(tasks.pairs[:SHOWN_RANGES])
    return f"{first} and {len(tasks) - len(first)} more"
