"""
The `Launch` that corresponds to a `CreateLaunchRequest` of Clusterfudge.

A pure function, except for the names of resource types: those of this bastion are an argument.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable

from bastion import spec
from bastion.compat.clusterfudge_values import (
    Behaviour,
    CreateLaunchRequest,
    GitRepo,
    Job,
    LocalDir,
    OnReplicaFailureOtherReplicasAreStopped,
    Process,
    Resources,
)
from bastion.errors import SpecError
from bastion.spec import Where
from bundler.code import GitRepo as Repository
from bundler.code import LocalDir as Folder
from bundler.errors import InvalidCodeError

_CONSUMER = re.compile(r"(rtx|gtx)(\d+)")
_MIB = 1 << 20


def type_here(name: str, here: Collection[str]) -> str:
    """Return the catalog's name of a resource type, unless `here` has it by Clusterfudge's name."""
    if name in here:
        return name
    return "a100" if name == "a100_40gb" else _CONSUMER.sub(r"\1_\2", name)


def as_written(problem: str, request: CreateLaunchRequest, here: Collection[str]) -> str:
    """Return `problem` with the script's names for fields and resource types."""
    problem = re.sub(r"\.name: ", ".short_name: ", problem)
    for name in types_in(request):
        problem = re.sub(rf"\b{re.escape(type_here(name, here))}\b", name, problem)
    return problem


def types_in(request: CreateLaunchRequest) -> set[str]:
    """Return the resource types that `request` names."""
    processes = [
        process
        for job in request.jobs
        if isinstance(job, Job)
        for process in job.processes
        if isinstance(process, Process)
    ]
    asked = [process.resource_requirements for process in processes]
    return {name for each in asked if isinstance(each, Resources) for name in vars(each)}


def to_launch(request: CreateLaunchRequest, here: Collection[str] = ()) -> spec.Launch:
    """
    Return the launch that `request` describes.

    A name that is too long or malformed for Bastion is kept in the description. Resource types get
    their names from the catalog, except those that `here` has by Clusterfudge's name.

    Raises:
        SpecError: It is invalid or has fields without a counterpart; the error lists every problem.
    """
    if not isinstance(request, CreateLaunchRequest):
        raise SpecError(f"{type(request).__name__} is not a CreateLaunchRequest")
    problems: list[str] = []
    jobs = []
    made: Iterable[object] = request.jobs or ()  # scripts are not type-checked
    for at, job in enumerate(made):
        if not isinstance(job, Job):
            problems.append(f"jobs[{at}]: {job!r} is not a Job(...)")
            continue
        where = job.short_name or f"jobs[{at}]"
        try:
            jobs.append(_job(job, here))
        except SpecError as error:
            problems += [as_written(f"{where}.{each}", request, here) for each in error.problems]
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


def _job(job: Job, here: Collection[str]) -> spec.Job:
    problems: list[str] = []
    processes = []
    for at, process in enumerate(job.processes or ()):
        try:
            processes.append(_process(process, here))
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


def _process(process: object, here: Collection[str]) -> spec.Process:
    if not isinstance(process, Process):
        raise SpecError(f"{process!r} is not a Process(...)")
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
            units[type_here(name, here)] = number
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
                raise SpecError(f"deployment: {deployment!r} is not LocalDir() or GitRepo(...)")
    except InvalidCodeError as error:
        raise SpecError(*(f"deployment.{each}" for each in error.problems)) from None
