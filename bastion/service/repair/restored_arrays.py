"""
The arrays of a restored root: pure functions of the copy and of what the bucket shows since.

A task with a final record counts as ended. A task with an unknown attempt, or that was cancelled
since, is held like any other job. All others are as in the copy.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping

from bastion.array import ArrayRecord, held_back, task_over
from bastion.job import JobRecord, Outcome
from bastion.records.root import Root
from bastion.spec import Indices, tasks_of_id


def restored_arrays(
    copy: Root,
    results: Collection[tuple[str, str]],
    outcomes: Mapping[str, Outcome],
    risky: Collection[str],
    *,
    by: str,
) -> dict[str, ArrayRecord]:
    """
    Return the arrays of `copy`, brought up to date; those with a final record are left out.

    Args:
        copy: The root that is restored.
        results: (project, job) of every final record.
        outcomes: The outcomes of tasks that have a final record and had not ended in the copy.
        risky: Jobs, arrays or tasks that began unknown to the copy or were cancelled since.
        by: The name under which these are held.
    """
    ended: dict[str, dict[int, Outcome]] = defaultdict(dict)
    for task, outcome in outcomes.items():
        named = tasks_of_id(task)
        if named is not None:
            ended[named[0]][named[1].first] = outcome
    arrays: dict[str, ArrayRecord] = {}
    for array in copy.arrays.values():
        if (array.project, array.id) in results:
            continue
        for index, outcome in sorted(ended[array.id].items()):
            if index in array.tasks - array.all_ended:
                array = task_over(array, index, outcome, copy.now)
        for one in risky:
            if array_named(one) == array.id:
                array = held_back(array, _tasks(one, array), by)
        arrays[array.id] = array
    return arrays


def array_named(target: str) -> str:
    """Return the array that `target` is or names tasks of; `target` itself if it is none."""
    named = tasks_of_id(target)
    return target if named is None else named[0]


def names(target: str, job: JobRecord) -> bool:
    """Whether `target` is `job`, its array, or a range of tasks that includes it."""
    if target == job.id or job.task is None:
        return target == job.id
    named = tasks_of_id(target)
    if named is None:
        return target == job.launch
    return named[0] == job.launch and job.task in named[1]


def task_in(arrays: Mapping[str, ArrayRecord], job: str) -> tuple[ArrayRecord | None, int]:
    """Return the array in which `job` is a waiting task, and its index; None if it is none."""
    named = tasks_of_id(job)
    array = arrays.get(named[0]) if named is not None else None
    if named is None or array is None or not named[1] & array.waiting:
        return None, 0
    return array, named[1].first


def is_known(job: str, before: Collection[str]) -> bool:
    """Whether `before` has `job` or the array that it is a task of."""
    return job in before or array_named(job) in before


def _tasks(target: str, array: ArrayRecord) -> Indices:
    named = tasks_of_id(target)
    return array.tasks if named is None else named[1]
