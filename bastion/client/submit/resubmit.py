"""A stored launch, changed to be submitted again."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from bastion.errors import SpecError
from bastion.spec.arrays.array import Array
from bastion.spec.arrays.indices import Indices
from bastion.spec.launch import Launch


def changed(
    launch: Launch, *, priority: int | None, env: Mapping[str, str], tasks: Indices
) -> Launch:
    """
    Return `launch` with another priority (None: each job's own) and more variables in every job.

    If `tasks` names some, the launch has only these; the limit on simultaneous tasks stays.

    Raises:
        SpecError: A value is not allowed.
    """
    if not isinstance(env, Mapping):
        raise SpecError(f"env: {env!r} is not a table of {{name: value}}, as {{'LR': '0.1'}}")
    jobs = tuple(
        replace(
            job,
            priority=job.priority if priority is None else priority,
            env={**job.env, **env},
        )
        for job in launch.jobs
    )
    again = replace(launch, jobs=jobs)
    if not tasks:
        return again
    at_once = launch.array.at_once if launch.array is not None else None
    return replace(again, array=Array(tasks, at_once=at_once))
