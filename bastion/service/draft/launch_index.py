"""The jobs of each launch in a draft, found without scanning all jobs for every request."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from bastion.array import ArrayRecord
from bastion.job import JobRecord


class LaunchIndex:
    """
    The names of jobs by launch, collected at the first query.

    Args:
        root: The jobs as committed, including those that leave in this turn.
        jobs: Those of the draft, which can change: `add` is called for every new job.
        arrays: The same.
    """

    def __init__(
        self,
        root: Mapping[str, JobRecord],
        jobs: Mapping[str, JobRecord],
        arrays: Mapping[str, ArrayRecord],
    ) -> None:
        self._root: Final = root
        self._jobs: Final = jobs
        self._arrays: Final = arrays
        self._names: dict[str, dict[str, None]] | None = None
        self._alike: dict[tuple[str, str], str] | None = None
        """Project, and the name or the suffix of an id -> one such id."""

    def add(self, job: JobRecord) -> None:
        """Add a job; a job that leaves need not be removed."""
        if self._names is not None:
            self._names.setdefault(job.launch, {})[job.id] = None

    def jobs_of(self, launch: str) -> list[JobRecord]:
        """Return the jobs of `launch`, including tasks of an array."""
        names = self._collected().get(launch, ())
        return [self._jobs[name] for name in names if name in self._jobs]

    def holders(self, name: str) -> list[JobRecord]:
        """
        Return a job of each active launch, array or job that has the id `name`, in any project.

        Everything about a launch is found by its id alone, so there is one launch per id.
        """
        array = self._arrays.get(name)
        found = [*self.jobs_of(name)[:1], self._jobs.get(name), array.each if array else None]
        return [job for job in found if job is not None]

    def with_left(self, name: str) -> list[JobRecord]:
        """Return the job `name` and the jobs of the launch `name`, including those that left."""
        names = {name: None, **self._collected().get(name, {})}
        found = (self._jobs.get(each) or self._root.get(each) for each in names)
        return [job for job in found if job is not None]

    def named(self, target: str) -> int:
        """Return how many jobs `target` names; anything but a launch counts as one."""
        return max(1, len(self._collected().get(target, ())))

    def like(self, project: str, target: str) -> str:
        """
        Return an id in `project` that differs from `target` only in its name or its suffix, or ''.

        This does not search for the nearest of all: users may send thousands of ids that do not
        exist.
        """
        if self._alike is None:
            launches = ((job.project, job.launch) for job in self._jobs.values())
            arrays = ((array.project, array.id) for array in self._arrays.values())
            every = dict.fromkeys([*launches, *arrays])
            self._alike = {}
            for where, name in every:
                stem, _, suffix = name.rpartition("-")
                self._alike[where, stem] = self._alike[where, suffix] = name
        stem, _, suffix = target.rpartition("-")
        found = (self._alike.get((project, part)) for part in (target, stem, suffix) if part)
        return next(filter(None, found), "")

    def _collected(self) -> Mapping[str, Mapping[str, None]]:
        if self._names is None:
            self._names = {}
            for job in (*self._root.values(), *self._jobs.values()):
                self._names.setdefault(job.launch, {})[job.id] = None
        return self._names
