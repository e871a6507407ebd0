"""
The records of a launch's jobs as they join the queue.

The bastion uses this to accept a launch, and the client for a dry run.
"""

from __future__ import annotations

import difflib
from collections.abc import Collection, Iterable

from bastion.array import ArrayRecord, new_array
from bastion.catalog import lookup
from bastion.errors import SpecError
from bastion.job import Dependency, JobRecord
from bastion.spec import Job, Launch, job_id, job_ids, request_of
from quota.amounts import Amounts

MAX_AWAITED = 1_000
"""Maximum dependencies of one job of a gang; each job of the gang can name a hundred."""


def queued_jobs(
    launch: Launch,
    *,
    project: str,
    user: str,
    ulid: str,
    at: float,
    known_types: Collection[str] | None = None,
) -> tuple[JobRecord, ...]:
    """
    Return the jobs of `launch`; `user` submitted it with the request `ulid` at store's time `at`.

    Args:
        launch: The launch, checked, with its code uploaded.
        project: The project that is charged.
        user: The user who submits it.
        ulid: The ULID of the request.
        at: When the store received the request.
        known_types: The resource types that exist; None: types are not checked.

    Raises:
        SpecError: An instance type or a resource type is unknown; every problem is listed.
    """
    ids = job_ids(launch, ulid)
    asked: list[tuple[Amounts, int]] = []
    problems: list[str] = []
    for job in launch.jobs:
        try:
            asked.append(_asked(job, known_types))
        except SpecError as error:
            problems += [f"jobs.{job.name}.{problem}" for problem in error.problems]
    after = _afters(launch, ids)
    most = max(map(len, after))
    if most > MAX_AWAITED:
        problems.append(
            f"after: its jobs start together, so each waits for what any of them waits for: {most}"
            f" jobs and launches; at most {MAX_AWAITED}"
        )
    if problems:
        raise SpecError(*problems)
    return tuple(
        JobRecord(
            id=ids[index],
            project=project,
            user=user,
            launch=job_id(launch.name, ulid),
            index=index,
            ulid=ulid,
            submitted_at=at,
            queued_at=at,
            request=request_of(launch, job, per_replica=asked[index][0], hosts=asked[index][1]),
            name=job.name,
            gang=ids if launch.together and len(ids) > 1 else (),
            stops_others=job.stops_others,
            first_decides=job.success == "first",
            launch_scope=job.scope == "launch" and job.on_failure != "continue",
            retries=job.retries,
            retry_backoff_s=job.retry_backoff_s,
            resume=job.resume,
            fail_when_busy=launch.when_busy == "fail",
            after=after[index],
            notify=launch.tells,
            held=user if job.hold else "",
            secrets=job.every_secret,
            hold_on_failure_s=job.hold_on_failure_s,
        )
        for index, job in enumerate(launch.jobs)
    )


def _afters(launch: Launch, ids: tuple[str, ...]) -> list[tuple[Dependency, ...]]:
    """Return what each job waits for; a gang waits for the dependencies of all its jobs."""
    named = dict(zip((each.name for each in launch.jobs), ids))

    def of(jobs: Iterable[Job]) -> tuple[Dependency, ...]:
        asked = dict.fromkeys([*launch.waits_for, *(a for job in jobs for a in job.waits_for)])
        return tuple(Dependency(on=named.get(each.job, each.job), when=each.when) for each in asked)

    if launch.together:
        return [of(launch.jobs)] * len(ids)
    return [of((job,)) for job in launch.jobs]


def queued_array(launch: Launch, each: JobRecord) -> ArrayRecord | None:
    """Return `launch` as an array with `each` from `queued_jobs`; None if it is not an array."""
    if launch.tasks is None:
        return None
    return new_array(each, launch.tasks, at_once=launch.at_once, max_failures=launch.max_failures)


def _asked(job: Job, known_types: Collection[str] | None) -> tuple[Amounts, int]:
    """Return the resources of one replica and its number of hosts; an instance type fills gaps."""
    per_replica, hosts, by_type = job.per_replica, 1, ""
    if job.instance_type:
        instance = lookup(job.instance_type)
        per_replica, hosts = per_replica or instance.resources, instance.hosts
        # A client writes the contents of a type into a process that requests nothing itself.
        by_type = job.instance_type if per_replica == instance.resources else ""
    unknown = [] if known_types is None else sorted(set(per_replica.types()) - set(known_types))
    if unknown:
        raise SpecError(*(_unknown(kind, known_types or (), by_type) for kind in unknown))
    return per_replica, hosts


def _unknown(kind: str, known_types: Collection[str], by_type: str) -> str:
    """Return what is wrong with a resource, requested directly or through an instance type."""
    if kind in ("cpu", "memory") and not by_type:
        return (
            f"resources.{kind}: no pool here counts {kind}, and a job may use what its machine has;"
            f" leave it out, or an admin gives a pool its {kind} in config/bastion.toml"
        )
    nearest = difflib.get_close_matches(kind, sorted(known_types), n=1)
    has = ", ".join(sorted(known_types))
    meant = f"; did you mean {nearest[0]}?" if nearest else f"; there are: {has}" if has else ""
    asked = (
        f"instance_type: {by_type!r} is made of {kind}, and" if by_type else f"resources.{kind}:"
    )
    nowhere = "no pool has this type" if not by_type else "no pool has it"
    return f"{asked} {nowhere}, and the quota file has no total of it{meant}"
