"""
The check of a launch before anything is sent: a pure function of the launch and its context.

It resolves instance types, refuses unknown resource types and projects with the nearest name, and
replaces the names of dependencies by their ids. It reports all problems together.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from bastion.client.submit.context import LaunchContext
from bastion.errors import SpecError
from bastion.records.requests.quota_limits import limit_problems
from bastion.spec.after import After
from bastion.spec.launch import MAX_BACKOFF_S, Job, Launch
from bastion.spec.python_env import python_problems
from bastion.spec.request import request_of
from bastion.spec.resources import Resources
from bastion.spec.secret import MIN_SECRET_BYTES
from bastion.spec.values.quantity import text_of_seconds
from bastion.value import replace
from quota.pattern import pattern

if TYPE_CHECKING:
    from bundler.bundle.upload import Bundle


def check(launch: Launch, context: LaunchContext) -> Launch:
    """
    Return `launch` as it is sent, without its code.

    Raises:
        SpecError: It is invalid; the error lists every problem.
    """
    problems = list(python_problems(launch.python, launch.code))
    hints = []
    jobs: list[Job] = []
    named: list[Job] = []
    meant = _generic_types(context)
    for job in launch.jobs:
        try:
            problems += (*_memory_problems(job), *_backoff_problems(job), *_scope_problems(job))
            named.append(_with_types(job, meant))
            jobs.append(_with_instance_type(named[-1]))
        except SpecError as error:
            problems += (f"jobs.{job.name}.{problem}" for problem in error.problems)
            hints.append(error.hint)
    unknown, nearest = _unknown_types(named, context)
    problems += (*context.problems, *unknown)
    if problems:
        raise SpecError(*problems, hint=next(filter(None, (*hints, context.hint, nearest)), ""))
    made = replace(launch, project=context.project, jobs=tuple(jobs))
    problems += _limit_problems(made, context)
    if problems:
        raise SpecError(*problems)
    return _with_targets(made, context.targets) if context.targets else made


def warnings_of(launch: Launch, bundled: Bundle | None) -> tuple[str, ...]:
    """
    Return warnings about likely mistakes; loads only what that needs.

    `bundled` is the folder that was uploaded as its code, if any.
    """
    warnings: tuple[str, ...] = ()
    if bundled is not None:
        from bastion.client.code.named_files import missing_file_warnings

        warnings += missing_file_warnings(launch, bundled)
    processes = [process for job in launch.jobs for process in job.processes]
    words = (word for process in processes for word in process.command)
    has_variables = any(job.env for job in launch.jobs) or any(each.env for each in processes)
    if has_variables or any(len(word) >= MIN_SECRET_BYTES for word in words):
        from bastion.client.submit.open_secrets import open_secret_warnings

        warnings += open_secret_warnings(launch)
    return warnings


def _limit_problems(launch: Launch, context: LaunchContext) -> list[str]:
    """Return problems with limits of the quota file that would never let the launch start."""
    if context.quota is None:
        return []
    requests = [request_of(launch, j, per_replica=j.per_replica, hosts=1) for j in launch.jobs]
    return limit_problems(context.quota, context.project, context.user, launch, requests)


def _with_targets(launch: Launch, ids: Mapping[str, str]) -> Launch:
    """Return `launch` with ids in place of the names of its dependencies."""
    jobs = (replace(job, after=_named(job.waits_for, ids)) for job in launch.jobs)
    return replace(launch, jobs=tuple(jobs), after=_named(launch.waits_for, ids))


def _named(asked: Iterable[After], ids: Mapping[str, str]) -> tuple[After, ...]:
    return tuple(replace(each, job=ids.get(each.job, each.job)) for each in asked)


def _with_instance_type(job: Job) -> Job:
    """
    Return `job` with the resources of its instance type, if its processes ask for none.

    Raises:
        SpecError: The type is unknown, or has less than the processes ask for.
    """
    if not job.instance_type:
        return job
    from bastion.catalog import lookup

    kind = lookup(job.instance_type)
    if job.per_replica:
        beyond = (job.per_replica - kind.hosts * kind.host).positive()
        if beyond:
            raise SpecError(
                f"processes: ask for {beyond} more than a {kind.name} has ({kind.resources})"
            )
        return job
    if len(job.processes) > 1:
        raise SpecError(
            f"processes: {len(job.processes)} share one {kind.name}; give the resources of each"
        )
    (process,) = job.processes
    asked = Resources(**dict(kind.resources.items()))
    return replace(job, processes=(replace(process, resources=asked),))


_COUNTED = frozenset({"cpu", "memory"})
_GENERIC = ("gpu", "gpus", "tpu", "tpus", "accelerator", "nvidia.com/gpu", "google.com/tpu")
"""Generic words for an accelerator."""
_TPU = pattern(r"v\d+[a-z]?")
_LEAST_MEMORY_BYTES = 1 << 20
"""No process starts with less; such a small number is most likely meant in GiB."""


def _generic_types(context: LaunchContext) -> Mapping[str, str]:
    """Return the type that `gpu`, `tpu` and the like mean here, if there is only one."""
    devices = context.here - _COUNTED
    tpus = {name for name in devices if _TPU.fullmatch(name)}
    meant = {}
    for word in _GENERIC:
        kinds = tpus if "tpu" in word else devices - tpus if "gpu" in word else devices
        if len(kinds) == 1:
            (meant[word],) = kinds
    return meant


def _with_types(job: Job, meant: Mapping[str, str]) -> Job:
    """Return `job` with the types that its generic words mean."""
    if not set(job.per_replica.types()) & set(meant):
        return job
    processes = []
    for process in job.processes:
        units = dict(process.resources.amounts.items())
        named: dict[str, int | str] = {meant.get(name, name): n for name, n in units.items()}
        if len(named) < len(units):
            raise SpecError(f"resources: {', '.join(units)} name one type twice; name it once")
        processes.append(replace(process, resources=Resources(**named)))
    return replace(job, processes=tuple(processes))


def _backoff_problems(job: Job) -> list[str]:
    """Return a problem if its delay before a retry is longer than the maximum."""
    if job.retry_backoff_s <= MAX_BACKOFF_S:
        return []
    most = text_of_seconds(MAX_BACKOFF_S)
    asked = text_of_seconds(job.retry_backoff_s)
    return [f"retry_backoff: {asked} is not allowed; at most {most}"]


def _scope_problems(job: Job) -> list[str]:
    """Return a problem if it sets the scope of a stop that never happens."""
    if job.scope != "launch" or job.on_failure != "continue":
        return []
    return ["scope: 'launch' is for on_failure='stop_others'; with 'continue' nothing is stopped"]


def _memory_problems(job: Job) -> list[str]:
    """Return a problem for every process whose memory can only be a mistake."""
    asked = (dict(process.resources.amounts.items()).get("memory") for process in job.processes)
    return [
        f"resources.memory: {size} bytes are too few for any process; did you mean {size}GiB?"
        for size in asked
        if size is not None and size < _LEAST_MEMORY_BYTES
    ]


def _unknown_types(jobs: Iterable[Job], context: LaunchContext) -> tuple[list[str], str]:
    """Return a problem for each unknown resource type, and one hint for all of them."""
    asked = {name for job in jobs for name in job.per_replica.types()}
    unknown = sorted(asked - context.types)
    if not unknown:
        return [], ""
    import difflib

    offered = sorted(context.here | _COUNTED)
    devices = [name for name in offered if name not in _COUNTED]
    nearest = [
        near
        for name in unknown
        if name not in _GENERIC
        for near in difflib.get_close_matches(name, devices, n=1)
    ]
    hint = f"this bastion has {', '.join(offered)}"
    if nearest:
        hint = f"did you mean {' or '.join(dict.fromkeys(nearest))}? {hint}"
    problems = [f"resources.{name}: no resource type {name!r} here" for name in unknown]
    return problems, hint
