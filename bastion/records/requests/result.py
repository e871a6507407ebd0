"""The final record of a job."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from bastion.job import PastAttempt
from bastion.spec.arrays.indices import Indices
from bastion.spec.request import Request
from bastion.value import field, value


@value
class Result:
    """The final record of a job, kept after machines, bastion and job are gone."""

    schema: Literal[1] = 1
    id: str
    project: str
    user: str
    launch: str
    name: str
    outcome: str
    text: str
    code: int | None = None
    submitted_at: float
    ended_at: float
    submitted: str = ""
    """`submitted_at` as ISO-8601, for people who read the record with `cat`."""
    ended: str = ""
    attempts: int = 0
    preemptions: int = 0
    failures: int = 0
    past: tuple[PastAttempt, ...] = ()
    """Every attempt, oldest first."""
    ulid: str = ""
    """ULID of its launch request."""
    task: int | None = None
    """Index of the task if the launch is an array."""
    request: Request = Request()
    """The resources that it requested."""
    report: Mapping[str, float] = field(default_factory=dict)
    """The numbers that it last reported."""
    tasks: Mapping[str, Indices] = field(default_factory=dict)
    """For an array: its tasks by the kind of their outcome, including those that never started."""
