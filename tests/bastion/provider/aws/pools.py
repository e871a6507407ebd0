"""Pools of EC2's machines for tests."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from bastion.catalog import lookup
from bastion.machine import Machine, Pool
from tests.servers.aws.ec2 import PROFILE, ZONES

NVIDIA = "Deep Learning Base OSS Nvidia Driver GPU AMI (Ubuntu 24.04) 20260101"
"""The name of the image that pools use by default."""
POOL = Pool(
    name="gpu",
    provider="ec2",
    resources=lookup("p5.48xlarge").host,
    max_machines=8,
    zones=ZONES,
    instance_type="p5.48xlarge",
    identity=PROFILE,
)


def pool(**changes: Any) -> Pool:
    """Return `POOL` with other fields."""
    if changes.get("instance_type"):
        changes.setdefault("resources", lookup(changes["instance_type"]).host)
    return replace(POOL, **changes)


def batch(size: int, *, seq: int = 7, zone: str = ZONES[0], first: int = 0) -> list[Machine]:
    """Return the machines of one batch."""
    name = f"{seq}" if size > 1 else ""
    return [
        Machine(name=f"gpu-{seq}-{first + at}", pool="gpu", zone=zone, batch=name)
        for at in range(size)
    ]
