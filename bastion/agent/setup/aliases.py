"""
What a process sees besides, on request: the names that other schedulers gave to the same things.

Each has the meaning that its own documentation gives it; `docs/reference/environment.md` says how
that fits what a job is here.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import assert_never

from bastion.spec.launch import Alias

_CLUSTERFUDGE = {
    "CLUSTERFUDGE_LAUNCH_ID": "BASTION_LAUNCH_ID",
    "CLUSTERFUDGE_JOB_NAME": "BASTION_JOB_NAME",
    "CLUSTERFUDGE_REPLICA_INDEX": "BASTION_REPLICA_INDEX",
    "CLUSTERFUDGE_REPLICA_COUNT": "BASTION_REPLICA_COUNT",
    "CLUSTERFUDGE_PROCESS_COUNT_ACROSS_ALL_REPLICAS": "BASTION_PROCESS_COUNT_ACROSS_ALL_REPLICAS",
    "CLUSTERFUDGE_PROCESS_INDEX": "BASTION_PROCESS_INDEX_ON_MACHINE",
    "CLUSTERFUDGE_PROCESS_INDEX_ACROSS_ALL_REPLICAS": "BASTION_PROCESS_INDEX_ACROSS_ALL_REPLICAS",
}
"""Source: Clusterfudge, "Launches", "Environment Variables"; its process index is per node."""

_BLOX = {
    "world_size": "BASTION_PROCESS_COUNT_ACROSS_ALL_REPLICAS",
    "dist_rank": "BASTION_PROCESS_INDEX_ACROSS_ALL_REPLICAS",
    "job_id": "BASTION_JOB_ID",
}
"""Source: Blox, README, "Running Blox", "Cluster mode"."""


def aliased(
    wanted: Iterable[Alias], ours: Mapping[str, str], *, devices: Iterable[int]
) -> dict[str, str]:
    """
    The variables of the schedulers in `wanted`.

    Args:
        wanted: Whose names.
        ours: What the process sees under our own names.
        devices: What all processes of its replica on this machine may use.
    """
    env: dict[str, str] = {}
    for scheduler in wanted:
        match scheduler:
            case "clusterfudge":
                env |= {theirs: ours[name] for theirs, name in _CLUSTERFUDGE.items()}
            case "blox":
                env |= {theirs: ours[name] for theirs, name in _BLOX.items()}
                every = ",".join(map(str, devices))
                env["local_gpu_id"] = ours["CUDA_VISIBLE_DEVICES"].partition(",")[0]
                env["master_ip_address"] = ours["BASTION_HOSTS"].partition(",")[0]
                # The name that its documentation has, and the one that its launcher sets.
                env["local_accessible_gpu"] = env["local_accessible_gpus"] = every
            case _:
                assert_never(scheduler)
    return env
