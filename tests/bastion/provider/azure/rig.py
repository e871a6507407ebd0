"""Azure's machines on loopback, for the tests of this folder."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from bastion.catalog import lookup
from bastion.machine import Machine, Pool
from bastion.provider.azure.arm import Arm
from bastion.provider.azure.vms import AzureVmProvider
from bastion.provider.boot import Boot, cloud_init, startup_script
from tests.servers.azure import ArmServer
from tests.servers.azure.arm import GROUP, SUBSCRIPTION

BUCKET = "0a1b2c3d4e5f"
BOOT = Boot(root_url="az://a/c", bucket=BUCKET, wheel="wheels/a/b.whl", digest="a" * 64)
OPTIONS = {
    "subscription": SUBSCRIPTION,
    "resource_group": GROUP,
    "ssh_key": "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJ admin",
}
POOL = Pool(
    name="gpu",
    provider="azure_vm",
    resources=lookup("Standard_ND96isr_H100_v5").host,
    max_machines=8,
    zones=("westeurope-1", "westeurope-2"),
    instance_type="Standard_ND96isr_H100_v5",
    image="microsoft-dsvm:ubuntu-hpc:2204:latest",
    network="net/machines",
    identity="bastion-gpu",
    options=OPTIONS,
)


def pool(**changes: Any) -> Pool:
    """Return `POOL` with other fields; `options` are added to its own."""
    options = {**OPTIONS, **changes.pop("options", {})}
    return replace(POOL, options=options, **changes)


def provider(server: ArmServer, of: Pool = POOL) -> AzureVmProvider:
    """Return a provider of a bastion that has just started."""
    return AzureVmProvider(of, bucket=BUCKET, script=script, arm=arm(server))


def arm(server: ArmServer) -> Arm:
    """Return the requests to a server."""
    return Arm(
        subscription=SUBSCRIPTION, resource_group=GROUP, clock=server.clock, endpoint=server.url
    )


def script(of: Pool, machine: str) -> str:
    """Return the user data of a bastion of that bucket."""
    return cloud_init(startup_script(of, BOOT, machine=machine))


def batch(size: int, *, zone: str = "westeurope-1") -> list[Machine]:
    """Return the machines of one batch."""
    return [
        Machine(name=f"gpu-7-{at}", pool="gpu", zone=zone, batch="gpu-7-0") for at in range(size)
    ]
