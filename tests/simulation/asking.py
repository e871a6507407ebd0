"""What users of the worlds submit: jobs with a duration and an outcome, and verbs on them."""

from __future__ import annotations

from typing import Any

from bastion.records.requests.answer import Answer
from bastion.records.requests.job_request import JobsRequest, UpdateRequest
from bastion.records.requests.launch_request import LaunchRequest
from bastion.records.requests.request import Body
from bastion.spec import Job, Launch, Process, Resources
from tests.simulation.processes import Wish
from tests.simulation.rights import PROJECTS

USERS = ("ann", "ben", "cat")
"""The user of most worlds; a world with another user says so."""


def one(
    name: str = "main",
    *,
    h100: int = 1,
    runs_s: float = 10.0,
    codes: str = "0",
    kind: str = "sim",
    **fields: Any,
) -> Job:
    """
    Return a job of one process.

    Args:
        name: Its name.
        h100: The devices that it asks for.
        runs_s: How long each attempt runs.
        codes: The exit codes of the attempts, one after the other.
        kind: `sim`, or `deaf` to notices.
        fields: More fields of the job.
    """
    resources = Resources(h100=h100) if h100 else Resources()
    process = Process([kind, str(runs_s), *codes.split()], resources=resources)
    return Job(name=name, processes=(process,), retry_backoff=5.0, **fields)


def launch(at_s: float, user: str, name: str, *jobs: Job, **fields: Any) -> Wish:
    """Return a launch of `jobs`, or of one job; `fields` are the launch's own."""
    asked = Launch(name=name, jobs=jobs or (one(),), project=PROJECTS[user], **fields)
    body = LaunchRequest(launch=asked)
    return wish(at_s, user, "launch", name, body)


def verb(
    at_s: float, user: str, what: str, target: str, *, tasks: str = "", **changes: Any
) -> Wish:
    """
    Return a verb on every job of an earlier launch of the same user, if that was accepted.

    Args:
        at_s: When it is sent.
        user: Who sends it.
        what: The verb.
        target: The name of the launch.
        tasks: The end of an id that names some tasks of an array.
        changes: What an `update` changes.
    """

    def body(answers: dict[str, Answer]) -> Body | None:
        answer = answers.get(target)
        if answer is None or not answer.jobs:
            return None
        targets = (f"{answer.launch}{tasks}",) if tasks else answer.jobs
        return (
            UpdateRequest(targets=targets, **changes) if changes else JobsRequest(targets=targets)
        )

    asked = wish(at_s, user, what, f"{what} {target}{tasks}", None)
    asked.body = body
    return asked


def wish(at_s: float, user: str, what: str, name: str, body: Body | None) -> Wish:
    """Return a wish for `body`, whatever was answered before."""
    project = PROJECTS[user]
    return Wish(at_s=at_s, user=user, project=project, verb=what, name=name, body=lambda _: body)
