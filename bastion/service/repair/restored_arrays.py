"""
What becomes of arrays when a copy of root is brought back: pure functions of both.

A task that has a final record since is counted as ended, one that may run unknown or was cancelled
since is held like every other job; the rest wait, run or have ended as in the copy.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping

from bastion.array import ArrayRecord, held_back, task_over
from bastion.job import JobRecord, Outcome
from bastion.records.root import Root
from bastion.spec import Indices, tasks_of_id


def arrays_back(
    copy: Root,
    results: Collection[tuple[str, str]],
    outcomes: Mapping[str, Outcome],
    risky: Collection[str],
    *,
    by: str,
) -> dict[str, ArrayRecord]:
    """
    The arrays of `copy` as they may be by now; those with a final record stay away.

    Args:
        copy: What is brought back.
        results: (project, job) of every final record.
        outcomes: How tasks ended that have one and had not ended in the copy.
        risky: What may run unknown or was cancelled since, as jobs, arrays or tasks.
        by: Who holds that.
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
    """The array that `target` is or names tasks of; `target` itself where it is another job."""
    named = tasks_of_id(target)
    return target if named is None else named[0]


def names(target: str, job: JobRecord) -> bool:
    """Whether `target` is `job`, its array, or names it among others."""
    if target == job.id or job.task is None:
        return target == job.id
    named = tasks_of_id(target)
    if named is None:
        return target == job.launch
    return named[0] == job.launch and job.task in named[1]


def is_known(job: str, before: Collection[str]) -> bool:
    """Whether `job`, or the array that it is a task of, is among `before`."""
    return job in before or array_named(job) in before


def _tasks(target: str, array: ArrayRecord) -> Indices:
    named = tasks_of_id(target)
    return array.tasks if named is None else named[1]
