"""How a machine of Google's learns its own name, from a metadata server on loopback."""

from __future__ import annotations

import subprocess

import pytest

from bastion.machine import Machine
from bastion.provider.gcp.names import Names
from bastion.provider.gcp.script import host_name, vm_name
from tests.servers.canned import canned


def told(command: str, metadata: str, heard: list[bytes]) -> str:
    """What a command of a start-up script prints where the metadata server says `metadata`."""
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
    """The name of a VM, as Google has it, gives the name of its machine."""
    machine = Machine(name=f"{pool}-12-0", pool=pool)
    heard: list[bytes] = []
    called = Names(bucket="0a1b2c3d4e5f", pool=pool).cloud(machine.name)
    assert told(vm_name(pool), called, heard) == machine.name
    assert heard[0].startswith(b"GET /computeMetadata/v1/instance/name ")
    assert b"Metadata-Flavor: Google" in heard[0]


def test_a_host_of_a_slice_learns_its_number() -> None:
    """Each host of a slice has the same script, and asks which host it is."""
    heard: list[bytes] = []
    assert told(host_name("tpus-12-0", hosts=4), "3", heard) == "tpus-12-0-h3"
    assert heard[0].startswith(b"GET /computeMetadata/v1/instance/attributes/agent-worker-number ")


def test_a_slice_of_one_host_asks_nothing() -> None:
    """The only host of a slice has the name of its slice."""
    heard: list[bytes] = []
    assert told(host_name("tpus-12-0", hosts=1), "", heard) == "tpus-12-0"
    assert heard == []
