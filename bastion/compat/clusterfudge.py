"""
Run launch scripts that were written for Clusterfudge, with one line changed.

    from bastion.compat import clusterfudge

    client = clusterfudge.Client()
    client.create_launch(clusterfudge.CreateLaunchRequest(...))

Names, arguments and defaults are Clusterfudge's. `Client()` connects to the bastion that the
command line uses. Three defaults differ from those of `bastion.Launch`: a launch that cannot start
at once is refused, the other replicas go on when one fails, and processes see the `CLUSTERFUDGE_*`
variables. The values are mutable, since scripts change them. `create_launch` checks everything
before it sends anything.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

from bastion import spec
from bastion.client import Client as BastionClient
from bastion.client import LaunchHandle
from bastion.errors import RefusedError, SpecError
from bastion.spec import Where
from bundler.code import GitRepo as Repository
from bundler.code import LocalDir as Folder
from bundler.errors import InvalidCodeError

__all__ = [
    "Client",
    "CreateLaunchRequest",
    "CreatedLaunch",
    "GitRepo",
    "Job",
    "LocalDir",
    "OnReplicaFailureOtherReplicasAreStopped",
    "OnReplicaFailureOtherReplicasContinue",
    "Process",
    "QueueingBehaviour",
    "Resources",
    "SchedulingError",
]

_TYPES = {
    "a100_40gb": "a100",
    "rtx3090": "rtx_3090",
    "rtx4090": "rtx_4090",
}
"""Types that the catalog calls by another name; every other type has the same name here."""
_MIB = 1 << 20


class Resources:
    """
    The resources of one process: `cpus`, `memory_mb` (of 2**20 bytes), and devices by type.

    A type that is 0 is not requested. Whether a type exists is checked when the launch is made.
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

    __hash__ = None  # type: ignore[assignment]  # it may be changed, as in Clusterfudge


@dataclass
class LocalDir:
    """The working tree that contains the script's current folder."""


@dataclass
class GitRepo:
    """A commit of a repository, or the tip of a branch."""

    repo: str
    branch: str = ""
    commit: str | None = None


@dataclass
class OnReplicaFailureOtherReplicasContinue:
    """When a replica fails, the other replicas of its job go on. This is the default."""


@dataclass
class OnReplicaFailureOtherReplicasAreStopped:
    """When any process of a replica fails, the other replicas of its job are stopped."""


Behaviour: TypeAlias = (
    OnReplicaFailureOtherReplicasContinue | OnReplicaFailureOtherReplicasAreStopped
)
Deployment: TypeAlias = LocalDir | GitRepo


@dataclass
class QueueingBehaviour:
    """Whether a launch that cannot start at once is queued; the default is to refuse it."""

    enqueue_if_cluster_busy: bool = False


@dataclass
class Process:
    """One command, a list of words, that runs beside the others of its replica."""

    command: Sequence[str]
    resource_requirements: Resources | None = None


@dataclass
class Job:
    """`replicas` identical replicas, each of one or more processes."""

    short_name: str
    replicas: int = 1
    processes: Sequence[Process] = ()
    replica_failure_behaviour: Behaviour | None = None


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


class SchedulingError(RefusedError):
    """The bastion refused the launch: nothing is free now, or the launch can never run."""

    @property
    def scheduling_log(self) -> str:
        """The bastion's answer."""
        return self.message


class CreatedLaunch:
    """
    A launch that the bastion has accepted.

    Args:
        request: The request that created it.
        handle: Bastion's own handle of the launch: to wait, to look, to cancel.
    """

    def __init__(self, request: CreateLaunchRequest, handle: LaunchHandle) -> None:
        self.launch_id = handle.id
        self.title = request.name or ""
        self.description = request.description or ""
        self.handle = handle

    def __repr__(self) -> str:
        return f"CreatedLaunch(launch_id={self.launch_id!r})"


class Client:
    """
    A user's side of one bastion.

    Args:
        base_url: The root of the bastion. Default: the bastion that the command line uses.
        api_key: Not supported: the bucket's permissions decide what a user may do.

    Raises:
        SpecError: An API key is given, or no bastion is named anywhere.
        StoreRefusedError: There can be no bastion at this root.
    """

    def __init__(self, base_url: str | None = None, api_key: str | None = None) -> None:
        if api_key is not None:
            raise SpecError(
                "api_key: a bastion takes none, who may do what is the bucket's to say",
                hint="leave it out; gcloud auth or aws configure say who you are to the bucket",
            )
        if base_url is not None and "://" not in base_url:
            raise SpecError(
                f"base_url: {base_url!r} is no root of a bastion",
                hint="leave it out, or name a root such as gs://bucket/shared-bastion",
            )
        self._client = BastionClient(base_url or "")

    def create_launch(self, create_launch_request: CreateLaunchRequest) -> CreatedLaunch:
        """
        Submit a launch, and wait until the bastion has accepted it.

        Raises:
            SpecError: It is wrong or has fields without a counterpart: every problem (a
                ValueError).
            SchedulingError: The bastion refused it; the error says why.
            TimedOutError: No answer yet; the launch is in the inbox and will be read.
            BastionError: Its code could not be bundled or resolved.
            StoreError: The bucket is out of reach.
        """
        launch = to_launch(create_launch_request)
        try:
            handle = self._client.launch(launch)
        except RefusedError as error:
            raise SchedulingError(error.message, hint=error.hint) from None
        return CreatedLaunch(create_launch_request, handle)


def to_launch(request: CreateLaunchRequest) -> spec.Launch:
    """
    Return the launch that `request` describes.

    A name that is too long or malformed for Bastion is kept in the description.

    Raises:
        SpecError: It is wrong or has fields without a counterpart: every problem.
    """
    if not isinstance(request, CreateLaunchRequest):
        raise SpecError(f"{type(request).__name__} is no CreateLaunchRequest")
    problems: list[str] = []
    jobs = []
    for at, job in enumerate(request.jobs or ()):
        where = getattr(job, "short_name", "") or f"jobs[{at}]"
        try:
            jobs.append(_job(job))
        except SpecError as error:
            problems += [f"{where}.{problem}" for problem in error.problems]
    code = None
    try:
        code = _code(request.deployment)
    except SpecError as error:
        problems += error.problems
    if not request.jobs:
        problems.append("jobs must be non-empty")
    if problems:
        raise SpecError(*problems)
    title = request.name or jobs[0].name
    name = re.sub(r"[^A-Za-z0-9._@+-]+", "-", title)[:63].strip("._@+-") or jobs[0].name
    description = request.description or ""
    if name != title:
        description = f"{title}: {description}" if description else title
    waits = request.queueing_behaviour and request.queueing_behaviour.enqueue_if_cluster_busy
    return spec.Launch(
        name=name,
        description=description,
        jobs=tuple(jobs),
        code=code,
        where=Where(
            cluster=request.cluster or "",
            shard=request.shard or "",
            hostnames=request.hostnames or (),
        ),
        when_busy="queue" if waits else "fail",
    )


def _job(job: Job) -> spec.Job:
    problems: list[str] = []
    processes = []
    for at, process in enumerate(job.processes or ()):
        try:
            processes.append(_process(process))
        except SpecError as error:
            problems += [f"processes[{at}].{problem}" for problem in error.problems]
    behaviour: object = job.replica_failure_behaviour
    if behaviour is not None and not isinstance(behaviour, Behaviour):
        problems.append(
            f"replica_failure_behaviour: {behaviour!r} is not known; allowed:"
            " OnReplicaFailureOtherReplicasContinue(), OnReplicaFailureOtherReplicasAreStopped()"
        )
    if not job.processes:
        problems.append("processes must be non-empty")
    if problems:
        raise SpecError(*problems)
    stops = isinstance(behaviour, OnReplicaFailureOtherReplicasAreStopped)
    return spec.Job(
        name=job.short_name,
        replicas=job.replicas,
        processes=tuple(processes),
        on_failure="stop_others" if stops else "continue",
        aliases=("clusterfudge",),
    )


def _process(process: Process) -> spec.Process:
    asked: object = process.resource_requirements or Resources()
    if not isinstance(asked, Resources):
        raise SpecError(f"resource_requirements: {asked!r} is not Resources(...)")
    units: dict[str, int | str] = {}
    for name, number in vars(asked).items():
        if name == "cpus":
            units["cpu"] = number
        elif name == "memory_mb":
            if not isinstance(number, int):
                raise SpecError(f"memory_mb: {number!r} is not a number of megabytes")
            units["memory"] = number * _MIB
        else:
            units[_TYPES.get(name, name)] = number
    wanted = {name: number for name, number in units.items() if number != 0}
    return spec.Process(process.command, resources=spec.Resources(**wanted))


def _code(deployment: object) -> Folder | Repository | None:
    try:
        match deployment:
            case None:
                return None
            case LocalDir():
                return Folder()
            case GitRepo(repo=repo, branch=branch, commit=commit):
                return Repository(repo, branch=branch or "", commit=commit or "")
            case _:
                raise SpecError(f"deployment: {deployment!r} is no LocalDir() and no GitRepo(...)")
    except InvalidCodeError as error:
        raise SpecError(*(f"deployment.{each}" for each in error.problems)) from None
