"""Azure's machines, created by a Resource Manager on loopback that checks each request."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from bastion.clock import VirtualClock
from bastion.provider.azure.arm import Arm
from bastion.provider.azure.vms import AzureVmProvider
from tests.bastion.provider.azure import rig
from tests.contracts.provider_place import POOL, STEP_S, Place, World
from tests.servers.azure import ArmError, ArmServer, lost
from tests.servers.azure.arm import GROUP, SUBSCRIPTION

BUCKET = "0a1b2c3d4e5f"
GPUS = replace(rig.POOL, name=POOL.name, max_machines=POOL.max_machines)


@contextlib.contextmanager
def azure_place(folder: Path) -> Iterator[Place]:
    """Provide VMs of Azure."""
    clock = VirtualClock()
    with ArmServer(clock=clock).running() as server:

        def opened(*zones: str) -> AzureVmProvider:
            return AzureVmProvider(
                replace(GPUS, zones=zones),
                bucket=BUCKET,
                script=lambda pool, name: f"#!/bin/sh\n{name}\n",
                arm=Arm(
                    subscription=SUBSCRIPTION,
                    resource_group=GROUP,
                    clock=clock,
                    endpoint=server.url,
                ),
            )

        def stock(left: int | None) -> None:
            server.stock = {} if left is None else {GPUS.zones[0]: left}

        def limit(is_on: bool) -> None:
            server.limit = 0 if is_on else None

        def stop(name: str) -> None:
            server.vm(_cloud_name(name)).power = "stopped"

        def vanish(name: str) -> None:
            server.vm(_cloud_name(name)).deleted_at = clock.monotonic()

        yield Place(
            provider=opened(*GPUS.zones),
            let_time_pass=lambda: clock.advance(STEP_S),
            kill_agent=stop,
            zones=(GPUS.zones[0], GPUS.zones[1]),
            pool=GPUS,
            world=World(
                made=lambda: server.made,
                stock=stock,
                limit=limit,
                refuse=lambda is_on: _fault(server, "PUT", _FORBIDDEN, is_on),
                pace=lambda is_on: _fault(server, ".", _TOO_MANY, is_on),
                cut=lambda is_on: _fault(server, ".", lost(), is_on),
                lose=lambda is_made: server.fail("PUT", lost(), is_late=is_made),
                keep_deleted=lambda is_on: setattr(server, "keeps_deleted", is_on),
                lag=lambda lag_s: setattr(server, "lag_s", lag_s),
                expire=lambda is_on: _fault(server, ".", _OLD, is_on),
                vanish=vanish,
                moved=lambda: opened("northeurope", GPUS.zones[0]),
            ),
        )
        assert server.problems == []


_FORBIDDEN = ArmError(
    403,
    "AuthorizationFailed",
    "The client does not have authorization to perform action"
    " 'Microsoft.Compute/virtualMachines/write'",
)
_TOO_MANY = ArmError(
    429, "TooManyRequests", "The request is being throttled", headers={"Retry-After": "7"}
)
_OLD = ArmError(401, "ExpiredAuthenticationToken", "The access token has expired")


def _cloud_name(machine: str) -> str:
    return f"bastion-{BUCKET}-{machine}"


def _fault(server: ArmServer, pattern: str, error: Exception, is_on: bool) -> None:
    server.faults.clear()
    if is_on:
        server.fail(pattern, error, times=1000)
