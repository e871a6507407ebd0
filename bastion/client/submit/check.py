"""
A launch on its way in: everything that can be checked at the user's machine is checked here.

Instance types are looked up, unknown resource types and projects are refused with the nearest word,
and only then is anything sent.
"""

from __future__ import annotations

import dataclasses
import difflib
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import TYPE_CHECKING

from bastion import catalog
from bastion.errors import NotFoundError, SpecError
from bastion.spec import After, Job, Launch, Resources, python_problems
from quota.amounts import Amounts

if TYPE_CHECKING:
    from quota.tree import Quota


def checked(
    launch: Launch,
    *,
    quota: Quota | None,
    user: str,
    project: str,
    machines: Callable[[], Iterable[Amounts]],
    target: Callable[[str, str], str],
) -> Launch:
    """
    `launch` as it would be sent, code apart.

    Args:
        launch: As it was written.
        quota: The quota file, or None when it cannot be read.
        user: Who asks.
        project: His project, where the launch names none.
        machines: What machines have; only asked when a resource type is known nowhere else.
        target: The id of the job or launch that a name means in a project.

    Raises:
        SpecError: It is wrong: every problem.
    """
    if wrong := python_problems(launch.python, launch.code):
        raise SpecError(*wrong)
    launch = with_instance_types(launch)
    place = resolve_project(quota, user, launch.project or project)
    known = known_types(quota, ())
    if not all(set(job.per_replica.types()) <= known for job in launch.jobs):
        check_types(launch, known_types(quota, machines()))
    return with_targets(dataclasses.replace(launch, project=place), target)


def with_targets(launch: Launch, target: Callable[[str, str], str]) -> Launch:
    """
    `launch` with the ids of the jobs and launches that it waits for in place of what was written.

    Raises:
        SpecError: There is no such job, or there are several: every problem.
    """
    ids: dict[str, str] = {}
    problems: list[str] = []
    for name in launch.waits_for_others:
        try:
            ids[name] = target(name, launch.project)
        except (NotFoundError, SpecError) as error:
            problems.append(f"after: {error.message}")
    if problems:
        raise SpecError(*problems, hint="bastion list --all shows what there is to wait for")
    if not ids:
        return launch
    jobs = (dataclasses.replace(job, after=_named(job.waits_for, ids)) for job in launch.jobs)
    return dataclasses.replace(launch, jobs=tuple(jobs), after=_named(launch.waits_for, ids))


def _named(asked: Iterable[After], ids: Mapping[str, str]) -> tuple[After, ...]:
    return tuple(dataclasses.replace(each, job=ids.get(each.job, each.job)) for each in asked)


def with_instance_types(launch: Launch) -> Launch:
    """
    `launch` with what its instance types stand for written into the processes that ask for nothing.

    Raises:
        SpecError: An instance type is unknown, or asked for more than it has; every problem.
    """
    problems: list[str] = []
    hints: list[str] = []
    jobs: list[Job] = []
    for job in launch.jobs:
        try:
            jobs.append(_with_instance_type(job))
        except SpecError as error:
            problems.extend(f"jobs.{job.name}.{problem}" for problem in error.problems)
            hints.append(error.hint)
    if problems:
        raise SpecError(*problems, hint=next(filter(None, hints), ""))
    return dataclasses.replace(launch, jobs=tuple(jobs))


def _with_instance_type(job: Job) -> Job:
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


def check_types(launch: Launch, known: Collection[str]) -> None:
    """
    Refuse resource types that nothing here has ever heard of.

    Raises:
        SpecError: One of them is in none of `known`; the hint names the nearest.
    """
    asked = {name for job in launch.jobs for name in job.per_replica.types()}
    unknown = sorted(asked - set(known))
    if not unknown:
        return
    nearest = [
        near for name in unknown for near in difflib.get_close_matches(name, sorted(known), n=1)
    ]
    raise SpecError(
        *(f"resources.{name}: no resource type {name!r} here" for name in unknown),
        hint=f"did you mean {' or '.join(nearest)}?" if nearest else f"known: {_some(known)}",
    )


def resolve_project(quota: Quota | None, user: str, project: str) -> str:
    """
    The project a request of `user` is charged to.

    Args:
        quota: The quota file, or None when it cannot be read: then `project` is taken as it is.
        user: Who asks.
        project: What he named, or empty for his only one.

    Raises:
        SpecError: There is none, or several; the message lists them.
    """
    if quota is None:
        if project:
            return project
        raise SpecError(
            "project: none named, and the quota file that would tell yours cannot be read",
            hint="name it: --project_id=PROJECT",
        )
    found = quota.resolve_project(user, project or None)
    if isinstance(found, str):
        return found
    raise SpecError(
        f"project: {found}", hint="--project_id=PROJECT names one, --user_id=USER says who you are"
    )


def known_types(quota: Quota | None, machines: Iterable[Amounts]) -> set[str]:
    """Every resource type that the catalog, the quota file or a machine knows."""
    types = set(catalog.resource_types())
    if quota is not None:
        types |= quota.types
    for resources in machines:
        types |= set(resources.types())
    return types


def _some(names: Collection[str]) -> str:
    return ", ".join(sorted(names)[:20])
