"""A stored launch, as it is submitted again."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from bastion.spec import Launch


def changed(launch: Launch, *, priority: int | None, env: Mapping[str, str]) -> Launch:
    """
    `launch` with another priority (None: each job's own) and more variables in every job.

    Raises:
        SpecError: A value is not allowed.
    """
    jobs = tuple(
        replace(
            job,
            priority=job.priority if priority is None else priority,
            env={**job.env, **env},
        )
        for job in launch.jobs
    )
    return replace(launch, jobs=jobs)
