"""Hosts of booted VMs and slices: processes on this machine that run their start-up scripts."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType

from bastion.catalog import lookup
from tests.rigs.limits import PATIENCE_S, joined, on_thread
from tests.servers.aws.hosts import kill_host
from tests.servers.azure import ArmServer
from tests.servers.google.compute import Compute
from tests.servers.google.tpu import Slice, Tpu
from tests.servers.metadata import MetadataServer, metadata_server

_ATTRIBUTES = "attributes/"


@dataclass(frozen=True, kw_only=True)
class Host:
    """One running host."""

    name: str
    script: str
    says: Mapping[str, str] = field(default_factory=dict)
    """What its metadata server returns, by path below `instance/`."""


@contextmanager
def hosts(
    server: Compute | Tpu | ArmServer,
    folder: Path,
    env: Mapping[str, str] = MappingProxyType({}),
) -> Iterator[Mapping[str, MetadataServer]]:
    """
    Run the start-up script of each running host, and kill what remains of one that ended.

    `env` is what a host needs to reach its bucket. The facts of each host are yielded by its name.
    """
    told: dict[str, MetadataServer] = {}
    is_over = threading.Event()
    booted: set[str] = set()

    def tick(stack: ExitStack) -> None:
        with server.lock:
            running = {host.name: host for host in _running(server)}
        for name in running.keys() - booted:
            metadata = stack.enter_context(metadata_server())
            for path, text in running[name].says.items():
                metadata.says[f"/computeMetadata/v1/instance/{path}"] = text
            told[name] = metadata
            _boot(folder / name, running[name].script, metadata.host, env)
            booted.add(name)
        for name in booted - running.keys():
            kill_host(folder / name)

    def watch() -> None:
        with ExitStack() as stack:
            while not is_over.wait(0.2):
                tick(stack)

    thread = on_thread(watch)
    try:
        yield told
    finally:
        is_over.set()
        kill_host(folder)  # including a start-up script that the thread waits for
        try:
            joined(thread)
        finally:
            kill_host(folder)


def _running(server: Compute | Tpu | ArmServer) -> Iterator[Host]:
    if isinstance(server, ArmServer):
        for name, script in server.booted():
            yield Host(name=name, script=script)
        return
    if isinstance(server, Tpu):
        for each in server.ready():
            yield from _of_slice(each)
        return
    for vm in server.vms.values():
        if server.status(vm) == "RUNNING":
            items = {each["key"]: each["value"] for each in vm.fields["metadata"]["items"]}
            script = items.pop("startup-script")
            says = {"name": vm.name, "preempted": "FALSE"}
            says |= {f"{_ATTRIBUTES}{key}": text for key, text in items.items()}
            yield Host(name=vm.name, script=script, says=says)


def _of_slice(each: Slice) -> Iterator[Host]:
    """
    Yield the hosts of a slice, each with the facts that libtpu and JAX ask for.

    Source: the names of the attributes and the form of `tpu-env` are those that
    jax/_src/clusters/cloud_tpu_cluster.py and torch_xla/_internal/tpu.py read.
    """
    (spec,) = each.asked["tpu"]["nodeSpec"]
    node = spec["node"]
    known = lookup(node["acceleratorType"])
    for number in range(known.hosts):
        facts = {
            "ACCELERATOR_TYPE": node["acceleratorType"],
            "CHIPS_PER_HOST_BOUNDS": "2,2,1",
            "HOST_BOUNDS": f"1,1,{known.hosts}",
            "NODE_ID": spec["nodeId"],
            "TOPOLOGY": known.topology,
            "WORKER_ID": str(number),
            "ZONE": each.zone,
        }
        yield Host(
            name=f"{each.id}-w{number}",
            script=node["metadata"]["startup-script"],
            says={
                "name": f"t1v-n-0a1b2c3d-w-{number}",
                f"{_ATTRIBUTES}agent-worker-number": str(number),
                f"{_ATTRIBUTES}tpu-env": "".join(f"{k}: '{v}'\n" for k, v in facts.items()),
            },
        )


def _boot(home: Path, script: str, metadata: str, more: Mapping[str, str]) -> None:
    tools = home / "bin"
    tools.mkdir(parents=True)
    # An orphan halts its host, which is this one.
    (tools / "shutdown").write_text(f"#!/bin/sh\ntouch {home}/halted\n")
    (tools / "shutdown").chmod(0o755)
    (home / "startup-script").write_text(script)
    env = {
        **more,
        "PATH": f"{tools}:{Path(sys.executable).parent}:/usr/bin:/bin",
        "HOME": str(home),
        "GCE_METADATA_HOST": metadata,
        "AZURE_POD_IDENTITY_AUTHORITY_HOST": f"http://{metadata}",
        "BASTION_BOOT_DIR": str(home / "bastion"),
    }
    with (home / "serial-port").open("ab") as log:
        script_path = str(home / "startup-script")
        subprocess.Popen(["sh", script_path], env=env, stdout=log, stderr=log).wait(PATIENCE_S)
