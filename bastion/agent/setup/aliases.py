"""
Variables that a process gets on request: the names that other schedulers use for the same values.

Each has the meaning from its own documentation; `docs/reference/environment.md` explains how that
fits the jobs of Bastion.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import assert_never

from bastion.spec.launch import Alias
from bastion.spec.names import launch_uuid

_CLUSTERFUDGE = {
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
    Return the variables of the schedulers in `wanted`.

    Args:
        wanted: The schedulers.
        ours: The process's variables under their own names.
        devices: The devices of all processes of its replica on this machine.
    """
    env: dict[str, str] = {}
    for scheduler in wanted:
        match scheduler:
            case "clusterfudge":
                env |= {theirs: ours[name] for theirs, name in _CLUSTERFUDGE.items()}
                env["CLUSTERFUDGE_LAUNCH_ID"] = launch_uuid(ours["BASTION_LAUNCH_ID"])
            case "blox":
                env |= {theirs: ours[name] for theirs, name in _BLOX.items()}
                every = ",".join(map(str, devices))
                env["local_gpu_id"] = ours["CUDA_VISIBLE_DEVICES"].partition(",")[0]
                env["master_ip_address"] = ours["BASTION_HOSTS"].partition(",")[0]
                # The name in its documentation, and the one that its launcher sets.
                env["local_accessible_gpu"] = env["local_accessible_gpus"] = every
            case _:
                assert_never(scheduler)
    return env
