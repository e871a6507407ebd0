"""A launch that was submitted, in the hands of who submitted it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bastion.client.log import JobLog
from bastion.client.views import JobView, LaunchStatus, name_of
from bastion.client.wanted import Wanted
from bastion.errors import NotFoundError

if TYPE_CHECKING:
    from bastion.client.client import Client


class LaunchHandle:
    """
    One launch: its jobs by id, and what one asks of them.

    Args:
        client: Who submitted it.
        launch: Its id.
        project: What it is charged to.
        jobs: The ids of its jobs, in the order of the launch.
        names: What the launch calls them, in the same order.
        warnings: What the user should look at in the code that was sent.
    """

    def __init__(
        self,
        client: Client,
        *,
        launch: str,
        project: str,
        jobs: tuple[str, ...],
        names: tuple[str, ...] = (),
        warnings: tuple[str, ...] = (),
    ) -> None:
        self._client = client
        self.id = launch
        self.project = project
        self.jobs = jobs
        self.warnings = warnings
        self._by_name = dict(zip(names, jobs, strict=False))

    def __repr__(self) -> str:
        return f"LaunchHandle(id={self.id!r}, project={self.project!r}, jobs={self.jobs!r})"

    def wait(self, *, timeout_s: float | None = None) -> LaunchStatus:
        """
        How all jobs ended, once they have.

        Raises:
            TimedOutError: One still goes on after `timeout_s`.
            StoreRefusedError: The store said no for good.
        """
        places = dict.fromkeys(self.jobs, self.project)
        return LaunchStatus(jobs=self._client.watch.wait(places, timeout_s=timeout_s))

    def status(self) -> LaunchStatus:
        """
        What is known of the jobs now.

        Raises:
            StoreError: Out of reach.
        """
        found = self._client.watch.look(dict.fromkeys(self.jobs, self.project))
        return LaunchStatus(jobs=tuple(found[job] or self._unpublished(job) for job in self.jobs))

    def cancel(self) -> tuple[str, ...]:
        """
        Ask that all jobs end; their ids.

        Raises:
            RefusedError: The bastion said no, and why.
            TimedOutError: No answer yet; the request is in the inbox and will be taken.
            StoreError: Out of reach.
        """
        return self._client.cancel(*self.jobs, project=self.project)

    def logs(self, job: str, *, replica: int = 0, process: int | None = None) -> str:
        """
        What one replica of a job printed so far, in its newest attempt, as text.

        Args:
            job: Its name in the launch, or its id.
            replica: Which.
            process: Only this process; None: all, one after the other.

        Raises:
            NotFoundError: The launch has no such job.
            StoreError: Out of reach.
        """
        wanted = Wanted(replica=replica, process=process)
        log = JobLog(self._client.store, self.project, self._id_of(job))
        return b"".join(chunk.data for chunk in log.read(wanted)).decode(errors="replace")

    def _id_of(self, job: str) -> str:
        if job in self.jobs:
            return job
        if job in self._by_name:
            return self._by_name[job]
        raise NotFoundError(
            f"the launch {self.id} has no job {job!r}",
            hint=f"its jobs are {', '.join(self._by_name or self.jobs)}",
        )

    def _unpublished(self, job: str) -> JobView:
        return JobView(
            id=job,
            name=name_of(job),
            project=self.project,
            user=self._client.user,
            launch=self.id,
            state="queued",
            phase="queued",
        )
