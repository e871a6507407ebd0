"""The part of the client that the handle of a launch needs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from bastion.client.follow.log_filter import Wanted
from bastion.client.follow.logs import Logs
from bastion.client.look.find_job import JobNames
from bastion.client.look.views import JobView
from bastion.client.look.watch import Watch
from bastion.store.port import ObjectStore


class LaunchClient(Protocol):
    """The client that submitted a launch, as far as its handle needs it."""

    @property
    def store(self) -> ObjectStore:
        """The bucket."""
        ...

    @property
    def user(self) -> str:
        """The user who submits."""
        ...

    @property
    def watch(self) -> Watch:
        """Waits for jobs by id."""
        ...

    @property
    def following(self) -> Logs:
        """The logs of running jobs."""
        ...

    def tasks(self, name: str, *, project: str = "", needed: bool = True) -> tuple[JobView, ...]:
        """Return every task of an array."""
        ...

    def job(self, name: str, *, project: str = "") -> JobView:
        """Return a job."""
        ...

    def check_log(self, jobs: Sequence[JobView], wanted: Wanted) -> None:
        """Check that a job has the requested attempt, replica and process."""
        ...

    def cancel(self, *names: JobNames, project: str = "") -> tuple[str, ...]:
        """Request that jobs end; return their ids."""
        ...
