"""How a Google machine learns its own name, from a metadata server on loopback."""

from __future__ import annotations

import subprocess

import pytest

from bastion.machine import Machine
from bastion.provider.gcp.script import host_name, vm_name
from bastion.provider.vm_names import Names
from tests.servers.canned import canned


def told(command: str, metadata: str, heard: list[bytes]) -> str:
    """Return the output of a start-up script's command if the metadata server has `metadata`."""
    answer = f"HTTP/1.1 200 OK\r\nContent-Length: {len(metadata)}\r\n\r\n{metadata}".encode()
    with canned(answer, heard=heard) as url:
        return subprocess.run(
            ["sh", "-c", command],
            env={"GCE_METADATA_HOST": url.removeprefix("http://"), "PATH": "/usr/bin:/bin"},
            capture_output=True,
            check=True,
            timeout=30,
            text=True,
        ).stdout


@pytest.mark.parametrize("pool", ["gpus", "GPU_pool.v2@lab", "gpu-2-3", "x" * 60])
def test_a_vm_learns_its_name(pool: str) -> None:
    """Google's name of a VM determines the name of its machine."""
    machine = Machine(name=f"{pool}-12-0", pool=pool)
    heard: list[bytes] = []
    called = Names(bucket="0a1b2c3d4e5f", pool=pool).cloud(machine.name)
    assert told(vm_name(pool), called, heard) == machine.name
    assert heard[0].startswith(b"GET /computeMetadata/v1/instance/name ")
    assert b"Metadata-Flavor: Google" in heard[0]


def test_a_host_of_a_slice_learns_its_number() -> None:
    """All hosts of a slice have the same script, which finds out the number of its host."""
    heard: list[bytes] = []
    assert told(host_name("tpus-12-0", hosts=4), "3", heard) == "tpus-12-0-h3"
    assert heard[0].startswith(b"GET /computeMetadata/v1/instance/attributes/agent-worker-number ")


def test_a_slice_of_one_host_asks_nothing() -> None:
    """The only host of a slice has the name of its slice."""
    heard: list[bytes] = []
    assert told(host_name("tpus-12-0", hosts=1), "", heard) == "tpus-12-0"
    assert heard == []
