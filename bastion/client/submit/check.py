"""
The check of a launch before anything is sent: a pure function of the launch and its context.

Instance types are looked up, unknown resource types and projects are refused with the nearest word,
and the names of what it waits for become ids. All problems are reported at once.
"""

from __future__ import annotations

import dataclasses
import difflib
from collections.abc import Collection, Iterable, Mapping

from bastion import catalog
from bastion.client.submit.context import LaunchContext
from bastion.errors import SpecError
from bastion.records.quota_limits import limit_problems
from bastion.spec import After, Job, Launch, Resources, python_problems, request_of


def check(launch: Launch, context: LaunchContext) -> Launch:
    """
    Return `launch` as it is sent, its code apart.

    Raises:
        SpecError: It is wrong: every problem.
    """
    problems = list(python_problems(launch.python, launch.code))
    hints = []
    jobs: list[Job] = []
    for job in launch.jobs:
        try:
            jobs.append(_with_instance_type(job))
        except SpecError as error:
            problems += (f"jobs.{job.name}.{problem}" for problem in error.problems)
            hints.append(error.hint)
    unknown, nearest = _unknown_types(launch, context.types)
    problems += (*context.problems, *unknown)
    if problems:
        raise SpecError(*problems, hint=next(filter(None, (*hints, context.hint, nearest)), ""))
    made = dataclasses.replace(launch, project=context.project, jobs=tuple(jobs))
    problems += _limit_problems(made, context)
    if problems:
        raise SpecError(*problems)
    return _with_targets(made, context.targets) if context.targets else made


def _limit_problems(launch: Launch, context: LaunchContext) -> list[str]:
    """Return what the quota file would never let start."""
    if context.quota is None:
        return []
    requests = [request_of(launch, j, per_replica=j.per_replica, hosts=1) for j in launch.jobs]
    return limit_problems(context.quota, context.project, context.user, launch, requests)


def _with_targets(launch: Launch, ids: Mapping[str, str]) -> Launch:
    """Return `launch` with ids in place of the names of what it waits for."""
    jobs = (dataclasses.replace(job, after=_named(job.waits_for, ids)) for job in launch.jobs)
    return dataclasses.replace(launch, jobs=tuple(jobs), after=_named(launch.waits_for, ids))


def _named(asked: Iterable[After], ids: Mapping[str, str]) -> tuple[After, ...]:
    return tuple(dataclasses.replace(each, job=ids.get(each.job, each.job)) for each in asked)


def _with_instance_type(job: Job) -> Job:
    """
    Write what the instance type of `job` has into its process, where that asks for nothing.

    Raises:
        SpecError: The type is unknown, or has less than the processes ask for.
    """
    if not job.instance_type:
        return job
    kind = catalog.lookup(job.instance_type)
    if job.per_replica:
        beyond = (job.per_replica - kind.hosts * kind.host).positive()
        if beyond:
            raise SpecError(
                f"processes: ask for {beyond} more than a {kind.name} has ({kind.resources})"
            )
        return job
    if len(job.processes) > 1:
        raise SpecError(
            f"processes: {len(job.processes)} share one {kind.name}; say each one's resources"
        )
    (process,) = job.processes
    asked = Resources(**dict(kind.resources.items()))
    return dataclasses.replace(job, processes=(dataclasses.replace(process, resources=asked),))


def _unknown_types(launch: Launch, known: Collection[str]) -> tuple[list[str], str]:
    """Return a problem for each resource type that is not known, and a hint for all of them."""
    asked = {name for job in launch.jobs for name in job.per_replica.types()}
    unknown = sorted(asked - set(known))
    nearest = [
        near for name in unknown for near in difflib.get_close_matches(name, sorted(known), n=1)
    ]
    some = ", ".join(sorted(known)[:20])
    hint = f"did you mean {' or '.join(nearest)}?" if nearest else f"known: {some}"
    problems = [f"resources.{name}: no resource type {name!r} here" for name in unknown]
    return problems, hint if unknown else ""
