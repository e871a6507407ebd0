"""Google's machines, created by loopback servers that are checked against its descriptions."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from bastion.clock import VirtualClock
from bastion.provider.gcp.api import Api
from bastion.provider.gcp.gce import GceProvider
from bastion.provider.gcp.tpu import GcpTpuProvider
from quota.amounts import Amounts
from tests.contracts.provider_place import POOL, STEP_S, Place, World
from tests.servers.google import ApiError, Cloud, Compute, Tpu, lost
from tests.servers.google.compute import Vm
from tests.servers.google.tpu import Slice

BUCKET = "0a1b2c3d4e5f"
GPUS = replace(
    POOL,
    provider="gce",
    resources=Amounts({"h100": 8}),
    instance_type="a3-highgpu-8g",
    image="projects/acme/global/images/family/cuda",
    zones=("us-central1-a", "us-central1-b"),
)
TPUS = replace(
    POOL,
    provider="gcp_tpu",
    resources=Amounts({"v5e": 4}),
    instance_type="tpu-v5e-4",
    zones=("us-central2-b", "us-east5-a"),
)


def cloud_name(machine: str) -> str:
    """Return Google's name of a machine of these pools."""
    return f"bastion-{BUCKET}-{machine}"


@contextlib.contextmanager
def gce_place(folder: Path) -> Iterator[Place]:
    """Provide VMs of Compute Engine."""
    clock = VirtualClock()
    with Compute.at(clock) as server:

        def opened(*zones: str) -> GceProvider:
            return GceProvider(
                replace(GPUS, zones=zones),
                bucket=BUCKET,
                script=lambda pool, name: f"#!/bin/sh\n{name}\n",
                api=Api("compute", project=server.project, clock=clock, endpoint=server.url),
            )

        provider = opened(*GPUS.zones)

        def stock(left: int | None) -> None:
            server.stock = {} if left is None else {GPUS.zones[0]: left}

        def limit(is_on: bool) -> None:
            server.limit = 0 if is_on else None

        yield Place(
            provider=provider,
            let_time_pass=lambda: clock.advance(STEP_S),
            kill_agent=lambda name: server.end(cloud_name(name)),
            zones=("us-central1-a", "us-central1-b"),
            pool=GPUS,
            world=World(
                made=lambda: server.made,
                stock=stock,
                limit=limit,
                refuse=lambda is_on: _fault(
                    server, "[iI]nsert", ApiError(403, "forbidden", _FORBIDDEN), is_on
                ),
                pace=lambda is_on: _fault(
                    server, ".", ApiError(403, "rateLimitExceeded", _TOO_MANY), is_on
                ),
                cut=lambda is_on: _fault(server, ".", lost(), is_on),
                lose=lambda is_made: server.fail("[iI]nsert", lost(), times=2, is_late=is_made),
                keep_deleted=lambda is_on: setattr(server, "keeps_deleted", is_on),
                lag=lambda lag_s: setattr(server, "lag_s", lag_s),
                expire=lambda is_on: _fault(server, ".", ApiError(401, "authError", _OLD), is_on),
                vanish=lambda name: _vanish(server.vm(cloud_name(name)), clock),
                moved=lambda: opened(GPUS.zones[1], GPUS.zones[0]),
            ),
        )
        assert server.problems == []


@contextlib.contextmanager
def tpu_place(folder: Path) -> Iterator[Place]:
    """Provide slices of Cloud TPU, of one host each."""
    clock = VirtualClock()
    with Tpu.at(clock) as server:

        def opened(*zones: str) -> GcpTpuProvider:
            return GcpTpuProvider(
                replace(TPUS, zones=zones),
                bucket=BUCKET,
                script=lambda pool, name: f"#!/bin/sh\n{name}\n",
                api=Api("tpu", project=server.project, clock=clock, endpoint=server.url),
            )

        provider = opened(*TPUS.zones)

        def stock(left: int | None) -> None:
            server.room = {} if left is None else {TPUS.zones[0]: left}

        def stop(name: str) -> None:
            server.slice(cloud_name(name)).node_state = "STOPPED"

        yield Place(
            provider=provider,
            let_time_pass=lambda: clock.advance(STEP_S),
            kill_agent=stop,
            zones=("us-central2-b", "us-east5-a"),
            pool=TPUS,
            world=World(
                made=lambda: server.made,
                stock=stock,
                limit=lambda is_on: _fault(
                    server, "create", _rpc(429, "RESOURCE_EXHAUSTED", "", _QUOTA), is_on
                ),
                refuse=lambda is_on: _fault(
                    server, "create", _rpc(403, "PERMISSION_DENIED", "", _FORBIDDEN), is_on
                ),
                pace=lambda is_on: _fault(
                    server,
                    ".",
                    _rpc(429, "RESOURCE_EXHAUSTED", "RATE_LIMIT_EXCEEDED", _TOO_MANY),
                    is_on,
                ),
                cut=lambda is_on: _fault(server, ".", lost(), is_on),
                lose=lambda is_made: server.fail("create", lost(), times=2, is_late=is_made),
                keep_deleted=lambda is_on: setattr(server, "keeps_deleted", is_on),
                lag=lambda lag_s: setattr(server, "lag_s", lag_s),
                expire=lambda is_on: _fault(
                    server, ".", _rpc(401, "UNAUTHENTICATED", "", _OLD), is_on
                ),
                vanish=lambda name: _vanish(server.slice(cloud_name(name)), clock),
                moved=lambda: opened(TPUS.zones[1], TPUS.zones[0]),
            ),
        )
        assert server.problems == []


_FORBIDDEN = "Required 'compute.instances.create' permission for 'projects/acme'"
_OLD = "Request had invalid authentication credentials"
_TOO_MANY = "Quota exceeded for quota metric 'Queries' and limit 'Queries per minute'"
_QUOTA = "Quota 'TPUV5sLitepodPerProjectPerZoneForTPUAPI' exhausted. Limit 0 in zone us-central2-b"


def _rpc(status: int, rpc: str, reason: str, message: str) -> ApiError:
    return ApiError(status, reason, message, rpc=rpc, headers={"Retry-After": "7"})


def _fault(server: Cloud, method: str, error: Exception, is_on: bool) -> None:
    server.faults.clear()
    if is_on:
        server.fail(method, error, times=1000)


def _vanish(made: Vm | Slice, clock: VirtualClock) -> None:
    made.deleted_at = clock.monotonic()
