"""
The types that launch scripts for Clusterfudge use: mutable values, checked when they are sent.

Source: the package `clusterfudge` 0.66 on PyPI, `clusterfudge.py`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import TYPE_CHECKING, TypeAlias, TypeVar

from bastion.errors import SpecError
from quota.explained import explained

if TYPE_CHECKING:
    from quota.misfit import Misfit

_T = TypeVar("_T")


def _told(cls: type[_T]) -> type[_T]:
    """Make a value raise a SpecError for arguments that it does not have."""
    cls.__init__ = explained(cls.__init__, cls.__name__, _misfit_error)  # type: ignore[method-assign]
    return cls


def _misfit_error(misfit: Misfit) -> Exception:
    problems, _ = misfit.problems({}, {})
    return SpecError(*problems, hint=f"{misfit.called} takes {', '.join(misfit.taken)}")


class Resources:
    """
    The resources of one process: `cpus`, `memory_mb` (of 2**20 bytes), and devices by type.

    A type with the value 0 is not requested. Whether a type exists is checked when the launch is
    built.
    """

    def __init__(self, cpus: int = 0, memory_mb: int = 0, **devices: int) -> None:
        self.cpus = cpus
        self.memory_mb = memory_mb
        for name, number in devices.items():
            setattr(self, name, number)

    def __repr__(self) -> str:
        asked = ", ".join(f"{name}={number}" for name, number in vars(self).items() if number)
        return f"Resources({asked})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Resources) and vars(self) == vars(other)

    __hash__ = None  # type: ignore[assignment]  # mutable, as in Clusterfudge


@dataclass
class LocalDir:
    """
    The working tree around the current folder; without one, the script's own folder.

    The top of a tree holds `.git`, `pyproject.toml` or `requirements.txt`.
    """


@_told
@dataclass
class GitRepo:
    """A commit of a repository, or the tip of a branch."""

    repo: str
    branch: str = ""
    commit: str | None = None


@dataclass
class OnReplicaFailureOtherReplicasContinue:
    """When a replica fails, the other replicas of its job keep running. This is the default."""


@dataclass
class OnReplicaFailureOtherReplicasAreStopped:
    """When any process of a replica fails, the other replicas of its job are stopped."""


Behaviour: TypeAlias = (
    OnReplicaFailureOtherReplicasContinue | OnReplicaFailureOtherReplicasAreStopped
)
Deployment: TypeAlias = LocalDir | GitRepo


@_told
@dataclass
class QueueingBehaviour:
    """
    Whether a launch that cannot start immediately is queued.

    A request without one is refused then; `QueueingBehaviour()` queues it.
    """

    enqueue_if_cluster_busy: bool | None = True


@_told
@dataclass
class Process:
    """One command, a list of words, that runs beside the other processes of its replica."""

    command: Sequence[str]
    resource_requirements: Resources | None = None


@_told
@dataclass
class Job:
    """`replicas` identical replicas, each of one or more processes."""

    short_name: str
    replicas: int = 1
    processes: Sequence[Process] = ()
    replica_failure_behaviour: Behaviour | None = None


@_told
@dataclass
class CreateLaunchRequest:
    """One launch: its jobs, its code, and the machines where it may run."""

    jobs: Sequence[Job]
    name: str | None = None
    description: str | None = None
    deployment: Deployment | None = None
    cluster: str | None = None
    shard: str | None = None
    hostnames: Sequence[str] | None = None
    queueing_behaviour: QueueingBehaviour | None = None


@dataclass
class ClusterfudgeConfig:
    """A user's token; a bastion needs none, but scripts may still read one."""

    token: str


class LaunchStatus(IntEnum):
    """The states of a launch, with Clusterfudge's numbers."""

    LAUNCH_STATUS_UNKNOWN = 0
    LAUNCH_STATUS_PENDING = 1
    LAUNCH_STATUS_RUNNING = 2
    LAUNCH_STATUS_COMPLETED = 3
    LAUNCH_STATUS_FAILED = 4
    LAUNCH_STATUS_UNMANAGED = 5
    LAUNCH_STATUS_STOPPED = 6
    LAUNCH_STATUS_QUEUED = 7

    @classmethod
    def Name(cls, number: int) -> str:  # noqa: N802  # the name that scripts call
        """Return the name of a number, as protobuf's enums do."""
        return cls(number).name
