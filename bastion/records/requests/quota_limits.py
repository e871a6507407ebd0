"""
Limits of the quota file on a launch for which waiting does not help.

The bastion that accepts a launch and the client that checks it first use the same functions.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from bastion.spec.values.quantity import text_of_limit
from bastion.value import replace
from quota.amounts import Amounts

if TYPE_CHECKING:
    from bastion.job import JobRecord
    from bastion.spec import Launch, Request
    from quota.tree import Quota


def with_limit(job: JobRecord, quota: Quota) -> JobRecord:
    """Return `job` with the `max_runtime` that its project gives to jobs that do not set one."""
    limits = quota.project(job.project).limits_of(job.user)
    limit_s = limits.runtime_s(job.request.max_runtime_s)
    if limit_s == job.request.max_runtime_s:
        return job
    return replace(
        job, request=replace(job.request, max_runtime_s=limit_s), revised_limit_s=limit_s
    )


def limit_notes(quota: Quota, project: str, user: str, launch: Launch) -> tuple[str, ...]:
    """Return which jobs of `launch` get a `max_runtime` that they do not set, and from where."""
    limits = quota.project(project).limits_of(user)
    limit_s = limits.runtime_s(None)
    if limit_s is None:
        return ()
    key = "max_max_runtime" if limits.default_max_runtime_s is None else "default_max_runtime"
    said = f"{text_of_limit(limit_s)}, from {quota.place_of_limit(project, user, key)}"
    return tuple(
        f"jobs.{job.name}.max_runtime: none is named, so it is {said}"
        for job in launch.jobs
        if job.max_runtime_s is None
    )


def runtime_problem(quota: Quota, project: str, user: str, asked_s: float | None) -> str:
    """Return the problem with a `max_runtime` of a job of `user`, or an empty string."""
    limits = quota.project(project).limits_of(user)
    if asked_s is None or not limits.is_too_long(asked_s):
        return ""
    assert limits.max_max_runtime_s is not None
    place = quota.place_of_limit(project, user, "max_max_runtime")
    return (
        f"max_runtime: {text_of_limit(asked_s)} is more than the"
        f" {text_of_limit(limits.max_max_runtime_s)} that {project} allows; ask for less, or an"
        f" admin changes {place}"
    )


def limit_problems(
    quota: Quota, project: str, user: str, launch: Launch, requests: Sequence[Request]
) -> list[str]:
    """
    Return every reason why jobs of `launch` could never start under `quota`.

    Args:
        quota: The quota in force.
        project: The project that is charged.
        user: The user who submits it.
        launch: The launch, checked.
        requests: The requests of its jobs, in the same order.
    """
    problems, every = [], []
    for job, request in zip(launch.jobs, requests):
        if problem := runtime_problem(quota, project, user, request.max_runtime_s):
            problems.append(f"jobs.{job.name}.{problem}")
    named = [(job.name, request) for job, request in zip(launch.jobs, requests)]
    for named_gang in [named] if launch.together else [[each] for each in named]:
        gang = dict(named_gang)
        if not _charged(quota, gang.values()) and not any(r.takes_whole for r in gang.values()):
            problems += _without_share(quota, project, gang)
        every += _gang_problems(quota, project, user, [*gang.values()])
    return problems + list(dict.fromkeys(every))


def _without_share(quota: Quota, project: str, gang: Mapping[str, Request]) -> list[str]:
    """Return why a gang with nothing under quota never starts: it or its project cannot borrow."""
    kept = next((job for job, request in gang.items() if not request.borrow), None)
    if kept is not None:
        return [
            f"jobs.{kept}.borrow: false is not possible for a job that asks for nothing under"
            " quota: it can only borrow; submit it without --no_borrow"
        ]
    if quota.project(project).borrow:
        return []
    place = quota.place("project_options", project, "borrow")
    return [
        f"jobs.{next(iter(gang))}: asks for nothing under quota, so it can only borrow,"
        f" and {project} does not borrow; charge it to another project, or an admin changes {place}"
    ]


def _gang_problems(quota: Quota, project: str, user: str, gang: Sequence[Request]) -> list[str]:
    asked = _charged(quota, gang)
    problems = _walls(quota, project, asked) if asked else []
    share = quota.project(project).nominal
    is_own = not all(request.borrow for request in gang)
    for resource, units in asked.items():
        if is_own and units > share[resource] and not problems:
            place = quota.place("project_resources", project, resource)
            problems.append(
                f"asks for {units} {resource} with borrow = false, and the share of {project} is"
                f" {share[resource]}: ask for less, let it borrow, or an admin changes {place}"
            )
    limits = quota.project(project).limits_of(user)
    for resource, most in limits.max_units.items():
        if asked[resource] > most:
            place = quota.place_of_limit(project, user, "max_units", resource)
            problems.append(
                f"asks for {asked[resource]} {resource} at once, and {user} may have {most} in"
                f" {project}; ask for less, or an admin changes {place}"
            )
    if limits.max_running is not None and len(gang) > limits.max_running:
        place = quota.place_of_limit(project, user, "max_running")
        problems.append(
            f"starts {len(gang)} jobs together, and {user} may have {limits.max_running} running in"
            f" {project}; submit fewer, or an admin changes {place}"
        )
    return problems


def _walls(quota: Quota, project: str, asked: Amounts) -> list[str]:
    from quota.reach import beyond_reach

    # The scheduler refuses requests above the totals, because it knows what the machines have.
    walls = beyond_reach(quota, project, asked)
    return [str(each) for each in walls if each.asked <= quota.totals[each.resource]]


def _charged(quota: Quota, requests: Iterable[Request]) -> Amounts:
    """Return the least that `requests` are charged: whole machines can be more."""
    return Amounts.sum(request.units for request in requests).only(quota.types)
