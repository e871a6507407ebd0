"""The catalog describes instance types with the vendor's own figures."""

from __future__ import annotations

import gzip
import json
from math import prod
from pathlib import Path

import pytest

from bastion import catalog
from bastion.errors import SpecError
from quota.amounts import Amounts

GIB = 1024**3


@pytest.mark.parametrize(
    ("name", "units", "chips", "hosts", "topology"),
    [
        ("tpu-v2-8", {"v2": 8}, 4, 1, "2x2"),
        ("tpu-v3-32", {"v3": 32}, 16, 4, "4x4"),
        ("tpu-v4-8", {"v4": 8}, 4, 1, "2x2x1"),
        ("tpu-v4-32", {"v4": 32}, 16, 4, "2x2x4"),
        ("tpu-v4-1024", {"v4": 1024}, 512, 128, "8x8x8"),
        ("tpu-v5p-128", {"v5p": 128}, 64, 16, "4x4x4"),
        ("tpu-v5p-12288", {"v5p": 12288}, 6144, 1536, "16x16x24"),
        ("tpu-v5e-1", {"v5e": 1}, 1, 1, "1x1"),
        ("tpu-v5e-8", {"v5e": 8}, 8, 1, "2x4"),
        ("v5litepod-16", {"v5e": 16}, 16, 4, "4x4"),
        ("tpu-v6e-256", {"v6e": 256}, 256, 64, "16x16"),
    ],
)
def test_tpu_slices_count_as_their_name_does(
    name: str, units: dict[str, int], chips: int, hosts: int, topology: str
) -> None:
    """A slice holds the units in its name: cores up to v4 and for v5p, chips for v5e and v6e."""
    found = catalog.lookup(name)
    assert found.resources == Amounts(units)
    assert (found.chips, found.hosts, found.topology) == (chips, hosts, topology)


@pytest.mark.parametrize(
    ("name", "accelerator", "cpu", "gib"),
    [
        ("a3-highgpu-8g", {"h100": 8}, 208, 1872),
        ("a3-ultragpu-8g", {"h200": 8}, 224, 2952),
        ("a2-ultragpu-8g", {"a100_80gb": 8}, 96, 1360),
        ("g2-standard-32", {"l4": 1}, 32, 128),
        ("n1-standard-8-v100-1", {"v100": 1}, 8, 30),
    ],
)
def test_google_machines_have_googles_figures(
    name: str, accelerator: dict[str, int], cpu: int, gib: int
) -> None:
    """A machine type has the devices, cores and memory on Google's page."""
    found = catalog.lookup(name)
    assert found.host == Amounts({**accelerator, "cpu": cpu, "memory": gib * GIB})


def test_amazons_figures_are_amazons() -> None:
    """Every EC2 type in AWS's own list has the same devices, cores and memory here."""
    import moto.ec2

    stored = Path(moto.ec2.__file__).parent / "resources" / "instance_types.json.gz"
    described = json.loads(gzip.decompress(stored.read_bytes()))
    compared = 0
    for name, *_ in catalog._EC2:
        if name not in described:
            continue  # p3 has left AWS's list, not yet its data centres
        compared += 1
        theirs, ours = described[name], catalog.lookup(name)
        devices = theirs.get("GpuInfo", {}).get("Gpus") or theirs["NeuronInfo"]["NeuronDevices"]
        assert ours.cpu == theirs["VCpuInfo"]["DefaultVCpus"], name
        assert ours.memory_bytes == theirs["MemoryInfo"]["SizeInMiB"] * 1024**2, name
        assert ours.chips == sum(each["Count"] for each in devices), name
        assert devices[0]["Name"].lower() in str(ours.resources), name
    assert compared >= 25


def test_every_type_is_whole() -> None:
    """Hosts divide chips and units evenly, topologies cover all chips, and names are unique."""
    rows = [*catalog._GCE, *catalog._EC2, *catalog._AZURE]
    assert len({row[0] for row in rows}) == len(rows)
    for each in {id(found): found for found in catalog._by_name().values()}.values():
        (units,) = [units for _, units in each.resources.items()]
        assert units % each.hosts == 0 and each.chips % each.hosts == 0, each.name
        assert each.cpu > 0 and each.memory_bytes > 8 * GIB, each.name
        if each.topology:
            assert prod(int(side) for side in each.topology.split("x")) == each.chips, each.name
            assert each.name.endswith(f"-{units}")


def test_no_two_topologies_of_a_version_have_one_size() -> None:
    """A TPU name means one topology."""
    for version, tpu in catalog._TPUS.items():
        sizes = [prod(int(side) for side in each.split("x")) for each in tpu.topologies.split()]
        assert sizes == sorted(set(sizes)), version


@pytest.mark.parametrize("name", ["v5litepod-16", "tpu-v5litepod-16", "v5e-16"])
def test_a_slice_answers_to_all_its_names(name: str) -> None:
    """The vendor's name and ours find the same type, which prints only one name."""
    assert catalog.lookup(name) is catalog.lookup("tpu-v5e-16")
    assert catalog.lookup(name).name == "tpu-v5e-16"


def test_a_host_offers_its_share_of_the_slice() -> None:
    """One host of a slice offers its own cores, memory and part of the accelerators."""
    offered = catalog.lookup("tpu-v4-32").host
    assert offered == Amounts({"v4": 8, "cpu": 240, "memory": 407 * GIB})


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("tpu-v4-48", "tpu-v4 comes in 8 16 32 64 128 256 512 1024 1536 2048 4096"),
        ("a3-higpu-8g", "did you mean a3-highgpu-8g"),
        ("p5.48xlrage", "did you mean p5.48xlarge"),
        ("Standard_ND96isr_H100_v4", "did you mean Standard_ND96isr_H100_v5"),
        ("?", "for example tpu-v4-32 or p5.48xlarge"),
    ],
)
def test_an_unknown_name_gets_the_nearest_as_hint(name: str, hint: str) -> None:
    """An unknown instance type is refused with its value and a suggestion."""
    with pytest.raises(SpecError) as caught:
        catalog.lookup(name)
    assert caught.value.message == f"instance_type: {name!r} is not an instance type known here"
    assert caught.value.hint.startswith(hint)


def test_resource_types_are_every_type_of_the_catalog() -> None:
    """Every accelerator of an instance type can be requested, and so can cpu and memory."""
    known = catalog.resource_types()
    held = {name for each in catalog._by_name().values() for name, _ in each.resources.items()}
    assert held < set(known)
    assert {"v2", "v3", "v4", "v5e", "v5p", "v6e", "h100", "h200", "a100"} < set(known)
    assert known[-2:] == ("cpu", "memory")
    assert all(name.isidentifier() for name in known)
