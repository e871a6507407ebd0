"""
The catalog: the devices, cores and memory of every instance type.

There is one table for each vendor, as the vendor prints it; everything else is derived.

* **Units** are the number in the type's own name: TPU v2, v3, v4 and v5p count TensorCores (two per
  chip), TPU v5e and v6e count chips; GPUs and AWS's own chips count devices.
* A **host** is one machine (one VM): a TPU slice of four hosts is four machines.
* Clouds write GB but mean GiB; here it is bytes.

This module must not know availability, prices, zones or permissions.

Source: the page named above each table. A test compares AWS's figures with `ec2
describe-instance-types`.
"""

from __future__ import annotations

from functools import cache
from math import prod
from typing import Literal

from bastion.errors import SpecError
from bastion.value import value
from quota.amounts import Amounts

Provider = Literal["gcp_tpu", "gce", "ec2", "azure_vm"]

_GIB = 1024**3


@value
class InstanceType:
    """
    An instance type of a cloud: a machine, or a slice of several.

    Shape: one slice x `hosts` x (`chips` / `hosts`).
    """

    name: str
    provider: Provider
    resources: Amounts
    """Units of its one accelerator type, as the quota counts them, on all hosts together."""
    chips: int
    """Accelerator chips or devices on all hosts together."""
    hosts: int = 1
    topology: str = ""
    """How the chips of a slice are connected, such as `2x2x4`; empty if the vendor names none."""
    cpu: int
    """Virtual cores of one host."""
    memory_bytes: int
    """Main memory of one host."""

    @property
    def host(self) -> Amounts:
        """The capacity of one host: its accelerators, `cpu`, and `memory` in bytes."""
        accelerators = {name: units // self.hosts for name, units in self.resources.items()}
        return Amounts({**accelerators, "cpu": self.cpu, "memory": self.memory_bytes})


@value
class _Tpu:
    """One TPU version: the unit of its names, its hosts, and its slices."""

    units_a_chip: int
    cpu: int
    memory_gib: int
    names: tuple[str, ...]
    """The prefixes of its names, before the number; the first one is printed."""
    one_host: tuple[tuple[int, int, int], ...] = ()
    """(chips, cores, GiB) of single-host slices that differ from a four-chip host."""
    topologies: str


# A multi-host slice has four chips per host in every version. v5e and v6e also have single hosts
# with one and with eight chips.
# Source: cloud.google.com/tpu/docs/{v2,v3,v4,v5e,v5p,v6e}; hosts' cores and memory:
# cloud.google.com/kubernetes-engine/docs/concepts/plan-tpus (ct3, ct4p, ct5lp, ct5p, ct6e
# machines). Google prints none for v2. Users of a v2-8 report 96 cores and "335 GB" of memory
# (trisongz.medium.com, 2021); 334 GiB, our figure, is not confirmed by Google.
_CHIPS_A_HOST = 4
_TPUS = {
    "v2": _Tpu(
        units_a_chip=2,
        cpu=96,
        memory_gib=334,
        names=("tpu-v2", "v2"),
        topologies="2x2 4x4 8x8 8x16 16x16",
    ),
    "v3": _Tpu(
        units_a_chip=2,
        cpu=96,
        memory_gib=340,
        names=("tpu-v3", "v3"),
        topologies="2x2 4x4 4x8 8x8 8x16 16x16 16x32 32x32",
    ),
    "v4": _Tpu(
        units_a_chip=2,
        cpu=240,
        memory_gib=407,
        names=("tpu-v4", "v4"),
        topologies="2x2x1 2x2x2 2x2x4 2x4x4 4x4x4 4x4x8 4x8x8 8x8x8 8x8x12 8x8x16 8x16x16",
    ),
    "v5e": _Tpu(
        units_a_chip=1,
        cpu=112,
        memory_gib=192,
        names=("tpu-v5e", "v5e", "v5litepod", "tpu-v5litepod"),
        one_host=((1, 24, 48), (8, 224, 384)),
        topologies="1x1 2x2 2x4 4x4 4x8 8x8 8x16 16x16",
    ),
    "v5p": _Tpu(
        units_a_chip=2,
        cpu=208,
        memory_gib=448,
        names=("tpu-v5p", "v5p"),
        topologies="2x2x1 2x2x2 2x2x4 2x4x4 4x4x4 4x4x8 4x4x12 4x8x8 4x4x20 4x8x12 8x8x8 4x8x20 "
        "8x8x12 4x12x20 8x8x16 8x12x12 8x8x20 8x12x16 12x12x12 8x16x16 12x12x16 8x16x20 12x16x16 "
        "12x12x24 12x16x20 16x16x16 12x16x24 16x16x20 16x16x24",
    ),
    "v6e": _Tpu(
        units_a_chip=1,
        cpu=180,
        memory_gib=720,
        names=("tpu-v6e", "v6e"),
        one_host=((1, 44, 176), (8, 180, 1440)),
        topologies="1x1 2x2 2x4 4x4 4x8 8x8 8x16 16x16",
    ),
}

# name, accelerator, devices, cores, GiB
_Row = tuple[str, str, int, int, int]

# Source: cloud.google.com/compute/docs/accelerator-optimized-machines (a2, a3, a4, g2) and
# cloud.google.com/compute/docs/gpus (what can be attached to n1; our name says what is).
_GCE: tuple[_Row, ...] = (
    ("a2-highgpu-1g", "a100", 1, 12, 85),
    ("a2-highgpu-2g", "a100", 2, 24, 170),
    ("a2-highgpu-4g", "a100", 4, 48, 340),
    ("a2-highgpu-8g", "a100", 8, 96, 680),
    ("a2-megagpu-16g", "a100", 16, 96, 1360),
    ("a2-ultragpu-1g", "a100_80gb", 1, 12, 170),
    ("a2-ultragpu-2g", "a100_80gb", 2, 24, 340),
    ("a2-ultragpu-4g", "a100_80gb", 4, 48, 680),
    ("a2-ultragpu-8g", "a100_80gb", 8, 96, 1360),
    ("a3-highgpu-1g", "h100", 1, 26, 234),
    ("a3-highgpu-2g", "h100", 2, 52, 468),
    ("a3-highgpu-4g", "h100", 4, 104, 936),
    ("a3-highgpu-8g", "h100", 8, 208, 1872),
    ("a3-megagpu-8g", "h100", 8, 208, 1872),
    ("a3-ultragpu-8g", "h200", 8, 224, 2952),
    ("a4-highgpu-8g", "b200", 8, 224, 3968),
    ("g2-standard-4", "l4", 1, 4, 16),
    ("g2-standard-8", "l4", 1, 8, 32),
    ("g2-standard-12", "l4", 1, 12, 48),
    ("g2-standard-16", "l4", 1, 16, 64),
    ("g2-standard-24", "l4", 2, 24, 96),
    ("g2-standard-32", "l4", 1, 32, 128),
    ("g2-standard-48", "l4", 4, 48, 192),
    ("g2-standard-96", "l4", 8, 96, 384),
    ("n1-standard-4-t4-1", "t4", 1, 4, 15),
    ("n1-standard-8-t4-1", "t4", 1, 8, 30),
    ("n1-standard-16-t4-2", "t4", 2, 16, 60),
    ("n1-standard-32-t4-4", "t4", 4, 32, 120),
    ("n1-standard-8-v100-1", "v100", 1, 8, 30),
    ("n1-standard-16-v100-2", "v100", 2, 16, 60),
    ("n1-standard-32-v100-4", "v100", 4, 32, 120),
    ("n1-standard-96-v100-8", "v100", 8, 96, 360),
)

# Source: docs.aws.amazon.com/ec2/latest/instancetypes/ac.html
_EC2: tuple[_Row, ...] = (
    ("p3.2xlarge", "v100", 1, 8, 61),
    ("p3.8xlarge", "v100", 4, 32, 244),
    ("p3.16xlarge", "v100", 8, 64, 488),
    ("p3dn.24xlarge", "v100", 8, 96, 768),
    ("p4d.24xlarge", "a100", 8, 96, 1152),
    ("p4de.24xlarge", "a100_80gb", 8, 96, 1152),
    ("p5.4xlarge", "h100", 1, 16, 256),
    ("p5.48xlarge", "h100", 8, 192, 2048),
    ("p5e.48xlarge", "h200", 8, 192, 2048),
    ("p5en.48xlarge", "h200", 8, 192, 2048),
    ("p6-b200.48xlarge", "b200", 8, 192, 2048),
    ("g5.xlarge", "a10g", 1, 4, 16),
    ("g5.2xlarge", "a10g", 1, 8, 32),
    ("g5.4xlarge", "a10g", 1, 16, 64),
    ("g5.8xlarge", "a10g", 1, 32, 128),
    ("g5.12xlarge", "a10g", 4, 48, 192),
    ("g5.16xlarge", "a10g", 1, 64, 256),
    ("g5.24xlarge", "a10g", 4, 96, 384),
    ("g5.48xlarge", "a10g", 8, 192, 768),
    ("g6.xlarge", "l4", 1, 4, 16),
    ("g6.2xlarge", "l4", 1, 8, 32),
    ("g6.4xlarge", "l4", 1, 16, 64),
    ("g6.8xlarge", "l4", 1, 32, 128),
    ("g6.12xlarge", "l4", 4, 48, 192),
    ("g6.16xlarge", "l4", 1, 64, 256),
    ("g6.24xlarge", "l4", 4, 96, 384),
    ("g6.48xlarge", "l4", 8, 192, 768),
    ("trn1.2xlarge", "trainium", 1, 8, 32),
    ("trn1.32xlarge", "trainium", 16, 128, 512),
    ("trn1n.32xlarge", "trainium", 16, 128, 512),
    ("inf2.xlarge", "inferentia2", 1, 4, 16),
    ("inf2.8xlarge", "inferentia2", 1, 32, 128),
    ("inf2.24xlarge", "inferentia2", 6, 96, 384),
    ("inf2.48xlarge", "inferentia2", 12, 192, 768),
)

# Source: learn.microsoft.com/azure/virtual-machines/sizes/overview, the pages of the series
# NCads_H100_v5, NC_A100_v4, NCasT4_v3, NVadsA10_v5, NDasrA100_v4, NDm_A100_v4, ND_H100_v5 and
# ND_H200_v5. Sizes with a part of a GPU are left out, because a quota counts whole devices.
_AZURE: tuple[_Row, ...] = (
    ("Standard_NC24ads_A100_v4", "a100_80gb", 1, 24, 220),
    ("Standard_NC48ads_A100_v4", "a100_80gb", 2, 48, 440),
    ("Standard_NC96ads_A100_v4", "a100_80gb", 4, 96, 880),
    ("Standard_NC40ads_H100_v5", "h100", 1, 40, 320),
    ("Standard_NC80adis_H100_v5", "h100", 2, 80, 640),
    ("Standard_NC4as_T4_v3", "t4", 1, 4, 28),
    ("Standard_NC8as_T4_v3", "t4", 1, 8, 56),
    ("Standard_NC16as_T4_v3", "t4", 1, 16, 110),
    ("Standard_NC64as_T4_v3", "t4", 4, 64, 440),
    ("Standard_ND96asr_v4", "a100", 8, 96, 900),
    ("Standard_ND96amsr_A100_v4", "a100_80gb", 8, 96, 1900),
    ("Standard_ND96isr_H100_v5", "h100", 8, 96, 1900),
    ("Standard_ND96isr_H200_v5", "h200", 8, 96, 1850),
    ("Standard_NV36ads_A10_v5", "a10", 1, 36, 440),
    ("Standard_NV36adms_A10_v5", "a10", 1, 36, 880),
    ("Standard_NV72ads_A10_v5", "a10", 2, 72, 880),
)

# Accelerators of users' own machines that are in no table above.
_OWNED = (
    *("a30", "a40", "l40", "l40s", "p4", "p100", "gtx_1050"),
    *(f"rtx_{model}" for model in (3050, 3060, 3070, 3080, 3090, 4060, 4070, 4080, 4090, 6000)),
    "rtx_a6000",
)


def lookup(name: str) -> InstanceType:
    """
    Return the instance type called `name`, by the vendor's name or ours (`v4-32`, `tpu-v4-32`).

    Raises:
        SpecError: There is none. The hint names the nearest type, or the sizes of its TPU version.
    """
    every = _by_name()
    try:
        return every[name]
    except KeyError:
        raise SpecError(
            f"instance_type: {name!r} is not an instance type known here", hint=_nearest(name)
        ) from None


def units_a_chip(accelerator: str) -> int:
    """Return how many units of a resource type one device has; more than 1 for some TPUs."""
    tpu = _TPUS.get(accelerator)
    return 1 if tpu is None else tpu.units_a_chip


def is_tpu(accelerator: str) -> bool:
    """Whether a resource type is a version of Google's TPUs."""
    return accelerator in _TPUS


def resource_types() -> tuple[str, ...]:
    """Return every resource type: accelerators by name, then `cpu` and `memory`."""
    sold = {accelerator for _, accelerator, *_ in (*_GCE, *_EC2, *_AZURE)}
    return (*sorted({*sold, *_TPUS, *_OWNED}), "cpu", "memory")


@cache
def _by_name() -> dict[str, InstanceType]:
    """Return every instance type by each of its names; built only once."""
    every = {row[0]: _machine(row, provider="gce") for row in _GCE}
    every |= {row[0]: _machine(row, provider="ec2") for row in _EC2}
    every |= {row[0]: _machine(row, provider="azure_vm") for row in _AZURE}
    for version, tpu in _TPUS.items():
        for topology in tpu.topologies.split():
            made = _slice(version, tpu, topology)
            size = made.resources[version]
            every |= {f"{name}-{size}": made for name in tpu.names}
    return every


def _machine(row: _Row, *, provider: Provider) -> InstanceType:
    name, accelerator, devices, cpu, gib = row
    return InstanceType(
        name=name,
        provider=provider,
        resources=Amounts({accelerator: devices}),
        chips=devices,
        cpu=cpu,
        memory_bytes=gib * _GIB,
    )


def _slice(version: str, tpu: _Tpu, topology: str) -> InstanceType:
    chips = _chips(topology)
    units = chips * tpu.units_a_chip
    hosts, cpu, gib = max(1, chips // _CHIPS_A_HOST), tpu.cpu, tpu.memory_gib
    for size, host_cpu, host_gib in tpu.one_host:
        if size == chips:
            hosts, cpu, gib = 1, host_cpu, host_gib
    return InstanceType(
        name=f"{tpu.names[0]}-{units}",
        provider="gcp_tpu",
        resources=Amounts({version: units}),
        chips=chips,
        hosts=hosts,
        topology=topology,
        cpu=cpu,
        memory_bytes=gib * _GIB,
    )


def _chips(topology: str) -> int:
    return prod(int(side) for side in topology.split("x"))


def _nearest(name: str) -> str:
    """Return the hint for an unknown name: the sizes of its TPU version, or similar names."""
    family = name.rpartition("-")[0]
    for tpu in _TPUS.values():
        if family in tpu.names:
            sizes = (_chips(each) * tpu.units_a_chip for each in tpu.topologies.split())
            return f"{family} comes in {' '.join(map(str, sizes))}"
    from difflib import get_close_matches

    alike = get_close_matches(name, _by_name(), n=3, cutoff=0.5)
    return (
        f"did you mean {' or '.join(alike)}?" if alike else "for example tpu-v4-32 or p5.48xlarge"
    )
