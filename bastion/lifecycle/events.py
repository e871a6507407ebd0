"""What can happen to a job: frozen, and checked by the table in `bastion.lifecycle.step`."""

from __future__ import annotations

from collections.abc import Mapping

from bastion.job import Claim, End, Hold, JobClass, Outcome, Placement, Stop
from bastion.value import value


@value
class Admitted:
    """The scheduler admitted the job and placed it on these devices."""

    nonce: str
    placement: Placement
    job_class: JobClass


@value
class Withdrawn:
    """
    The attempt is given up before any of its hosts got an instruction: it gets no machines.

    No agent can have heard of such an attempt, so no register needs to be revoked.
    """

    text: str


@value
class Reclassed:
    """The scheduler changed the class of the admitted gang."""

    job_class: JobClass


@value
class Instructed:
    """A commit allocated the instruction that starts one host, for this keeper life."""

    replica: int
    host: int
    life: int


@value
class StopInstructed:
    """A commit allocated the instruction that stops one host, for this keeper life."""

    replica: int
    host: int
    life: int


@value
class HostClaimed:
    """An agent holds the claim of one host."""

    replica: int
    host: int
    claim: Claim


@value
class HostPrepares:
    """One host is being set up; `text` is the step and its progress."""

    replica: int
    host: int
    text: str


@value
class HostStarted:
    """The processes of one host are running."""

    replica: int
    host: int


@value
class HostCheckpointed:
    """The job marked a checkpoint."""

    replica: int
    host: int


@value
class HostReported:
    """The job reported numbers that policies can read."""

    replica: int
    host: int
    numbers: Mapping[str, float]


@value
class HostIdle:
    """One host shows no sign of life and is not stopped; an empty `text` ends that."""

    replica: int
    host: int
    text: str


@value
class HostUnkept:
    """The output of one host was not kept, for the reason in `text`; an empty `text` ends that."""

    replica: int
    host: int
    text: str
    is_log: bool = False
    """Whether it is about its log."""


@value
class HostHeld:
    """One host failed, and is held for inspection before it ends."""

    replica: int
    host: int
    hold: Hold


@value
class LimitInstructed:
    """A commit allocated the instruction that changes the time limit of one host."""

    replica: int
    host: int
    limit_s: float


@value
class HostEnded:
    """No process of one host is left."""

    replica: int
    host: int
    end: End


@value
class HostDrained:
    """Every log byte of one host is in the bucket."""

    replica: int
    host: int
    lacks_end: bool = False
    """Its end, which its machine writes before reporting this, is not in the bucket."""


@value
class GoWanted:
    """Every host is claimed: the barrier can open."""


@value
class GoGiven:
    """The barrier is open."""


@value
class GoRevoked:
    """The barrier will never open."""


@value
class StopWanted:
    """The attempt must be stopped."""

    stop: Stop


@value
class CancelWanted:
    """A user wants to end the job."""

    by: str
    grace_s: float


@value
class DrainEnded:
    """All logs are in the bucket, or the time to wait for them is over."""


@value
class HeldBack:
    """A user holds the queued job."""

    by: str


@value
class Released:
    """A user releases the job: it leaves its hold in the queue, or its held hosts end."""

    by: str = ""


@value
class DependencyEnded:
    """The end of a job that others may wait for."""

    job: str
    launch: str
    """The launch of `job`."""
    outcome: Outcome
    is_last: bool
    """Whether all other jobs of `launch` have ended, with an event before this one."""


@value
class DependenciesEnded:
    """
    Jobs have ended that this one may wait for.

    One event has everything that is known: a job can wait for a hundred others, and thousands of
    jobs for the same ones.
    """

    ends: tuple[DependencyEnded, ...]


@value
class Updated:
    """A user changed the priority or the time limit of a queued or running job."""

    priority: int | None = None
    max_runtime_s: float | None = None


Event = (
    Admitted
    | Withdrawn
    | Reclassed
    | Instructed
    | StopInstructed
    | HostClaimed
    | HostPrepares
    | HostStarted
    | HostCheckpointed
    | HostReported
    | HostIdle
    | HostUnkept
    | HostHeld
    | LimitInstructed
    | HostEnded
    | HostDrained
    | GoWanted
    | GoGiven
    | GoRevoked
    | StopWanted
    | CancelWanted
    | DrainEnded
    | HeldBack
    | Released
    | DependenciesEnded
    | Updated
)
