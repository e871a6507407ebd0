"""The names of everything active in one root, indexed at the first lookup."""

from __future__ import annotations

from functools import cached_property

from bastion.records.root import Root
from bastion.spec import tasks_of_id


class ActiveNames:
    """
    The names of active jobs, launches, arrays and their tasks.

    Args:
        root: The committed root.
    """

    def __init__(self, root: Root) -> None:
        self._root = root

    def __contains__(self, target: object) -> bool:
        if not isinstance(target, str):
            return False
        arrays = self._root.arrays
        if target in self._root.jobs or target in arrays or target in self._launches:
            return True
        tasks = tasks_of_id(target)
        return tasks is not None and tasks[0] in arrays

    def is_job(self, name: str) -> bool:
        """Whether it is the id of a job or an array."""
        return name in self._root.jobs or name in self._root.arrays

    @cached_property
    def _launches(self) -> frozenset[str]:
        return frozenset(job.launch for job in self._root.jobs.values())


class Owners:
    """
    The users that have an active job, by project.

    Args:
        root: The committed root.
    """

    def __init__(self, root: Root) -> None:
        self._root = root

    def owns(self, project: str, user: str) -> bool:
        """Whether `user` has an active job in `project`."""
        return (project, user) in self._pairs

    @cached_property
    def _pairs(self) -> frozenset[tuple[str, str]]:
        jobs = [*self._root.jobs.values(), *(each.each for each in self._root.arrays.values())]
        return frozenset((job.project, job.user) for job in jobs)
