"""Google's machines on loopback, for the tests of this folder."""

from __future__ import annotations

from bastion.machine import Machine, Pool
from bastion.provider.boot import Boot, startup_script
from bastion.provider.gcp.api import Api
from bastion.provider.gcp.gce import GceProvider
from bastion.provider.gcp.tpu import GcpTpuProvider
from quota.amounts import Amounts
from tests.servers.google import Compute, Tpu

BUCKET = "0a1b2c3d4e5f"
BOOT = Boot(root_url="gs://b/bastion", bucket=BUCKET, wheel="wheels/a/b.whl", digest="a" * 64)
GPUS = Pool(
    name="gpus",
    provider="gce",
    resources=Amounts({"h100": 8}),
    max_machines=8,
    instance_type="a3-highgpu-8g",
    image="projects/acme/global/images/family/cuda",
    zones=("us-central1-a", "us-central1-b"),
)
TPUS = Pool(
    name="tpus",
    provider="gcp_tpu",
    resources=Amounts({"v4": 8}),
    max_machines=8,
    hosts=4,
    instance_type="tpu-v4-32",
    zones=("us-central2-b", "us-east5-a"),
)


def gce(server: Compute, pool: Pool = GPUS, *, bucket: str = BUCKET) -> GceProvider:
    """Return a provider of a bastion that has just started."""
    api = Api("compute", project=server.project, clock=server.clock, endpoint=server.url)
    return GceProvider(pool, bucket=bucket, script=script, api=api)


def tpu(server: Tpu, pool: Pool = TPUS, *, bucket: str = BUCKET) -> GcpTpuProvider:
    """Return a provider of a bastion that has just started."""
    api = Api("tpu", project=server.project, clock=server.clock, endpoint=server.url)
    return GcpTpuProvider(pool, bucket=bucket, script=script, api=api)


def script(pool: Pool, machine: str) -> str:
    """Return the start-up script of a bastion of that bucket."""
    return startup_script(pool, BOOT, machine=machine)


def vms(count: int, pool: Pool = GPUS, *, seq: int = 7, zone: str = "") -> list[Machine]:
    """Return a batch of VMs."""
    return [
        Machine(
            name=f"{pool.name}-{seq}-{index}",
            pool=pool.name,
            zone=zone or pool.zones[0],
            batch=f"{pool.name}-{seq}-0",
        )
        for index in range(count)
    ]


def hosts(slices: int, pool: Pool = TPUS, *, seq: int = 7) -> list[Machine]:
    """Return a batch of slices, with every host of each."""
    return [
        Machine(
            name=f"{pool.name}-{seq}-{index}-h{host}",
            pool=pool.name,
            zone=pool.zones[0],
            slice=f"{pool.name}-{seq}-{index}",
            batch=f"{pool.name}-{seq}-0",
        )
        for index in range(slices)
        for host in range(pool.hosts)
    ]
