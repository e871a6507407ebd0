"""The smallest launch request, for tests of what the leader refuses."""

from __future__ import annotations

from bastion.records.requests.launch_request import LaunchRequest
from bastion.spec import Job, Launch, Process, Resources


def launch_request(**more: object) -> LaunchRequest:
    """Return a launch of one job of one process on one device; `more` replaces fields."""
    job = Job(processes=(Process(["true"], resources=Resources(h100=1)),))
    given = {"name": "train", "jobs": (job,), **more}
    return LaunchRequest(launch=Launch(**given))  # type: ignore[arg-type]
