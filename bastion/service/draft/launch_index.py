"""The jobs of each launch in a draft, found without going through all jobs for every request."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from bastion.job import JobRecord


class LaunchIndex:
    """
    The names of jobs by launch, collected when it is first asked.

    Args:
        jobs: Those of the draft, which may change: `add` is called for every job that comes.
    """

    def __init__(self, jobs: Mapping[str, JobRecord]) -> None:
        self._jobs: Final = jobs
        self._names: dict[str, dict[str, None]] | None = None

    def add(self, job: JobRecord) -> None:
        """Add a job; a job that leaves need not be removed."""
        if self._names is not None:
            self._names.setdefault(job.launch, {})[job.id] = None

    def jobs_of(self, launch: str) -> list[JobRecord]:
        """Return the jobs of `launch`, tasks of an array included."""
        names = self._collected().get(launch, ())
        return [self._jobs[name] for name in names if name in self._jobs]

    def named(self, target: str) -> int:
        """Return how many jobs `target` names, which is a launch or anything else."""
        return max(1, len(self._collected().get(target, ())))

    def _collected(self) -> Mapping[str, Mapping[str, None]]:
        if self._names is None:
            self._names = {}
            for job in self._jobs.values():
                self._names.setdefault(job.launch, {})[job.id] = None
        return self._names
