"""What pages show about a period: sums by project and user, and by hour or day; bars; failures."""

from __future__ import annotations

from collections.abc import Mapping

from bastion.history.ask.usage import UsageRow
from bastion.value import field, value

ANSWERED, FAILED = "answered", "failed"
"""Whether an answer is a summary, or a line that says what is wrong."""


@value
class Slot:
    """What one user of a project held of one type of device in one part of the period."""

    at: float
    project: str
    user: str
    device_type: str
    device_s: float


@value
class Stay:
    """One attempt on one machine."""

    machine: str
    job: str
    project: str
    user: str
    begin: float
    end: float
    outcome: str
    """How the attempt ended; empty if it has not."""
    is_borrowed: bool
    devices: int


@value
class Failure:
    """One attempt that failed or was lost, or a job that failed before it had any attempt."""

    job: str
    project: str
    user: str
    attempt: int
    """0: the job never started."""
    at: float
    outcome: str
    text: str
    """Why; only its beginning if it is long."""
    code: int | None
    machines: tuple[str, ...]
    is_final: bool
    """Whether the job ended with it; otherwise it is retried."""


@value
class Ended:
    """One job that ended, with its last attempt."""

    job: str
    project: str
    user: str
    state: str
    at: float
    held_s: float | None
    """How long its last attempt held machines; None if the job ended in the queue."""
    attempt: int
    """0: the job never started, or is an array."""
    is_array: bool
    devices: int
    device_type: str
    """Empty: none."""
    code: int | None
    text: str
    """Why; only its beginning if it is long."""


@value
class EndedPart:
    """A part of the list of ended jobs, newest first."""

    rows: tuple[Ended, ...]
    number: int
    """Counted from 1."""
    total: int
    """Number of rows of the whole list."""


@value
class Summary:
    """One period."""

    since: float
    until: float
    step_s: float
    """Length of a part."""
    projects: tuple[UsageRow, ...] = ()
    """The sums that `bastion usage --by project` prints."""
    users: tuple[UsageRow, ...] = ()
    """The sums that `bastion usage --by project,user` prints."""
    slots: tuple[Slot, ...] = ()
    stays: tuple[Stay, ...] = ()
    left_out: int = 0
    """Number of attempts that are not among the bars: the oldest ones."""
    failures: tuple[Failure, ...] = ()
    """The newest of each project, the newest first."""
    failed: Mapping[str, int] = field(default_factory=dict)
    """Number of failures by project."""
    ended: EndedPart | None = None
    """The answer if ended jobs were asked for, which has no sums."""
    spoilt: int = 0
    """Records that could not be read."""
