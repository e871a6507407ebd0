"""What VMs become when they boot: processes here that run their start-up scripts."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from tests.servers.aws.hosts import kill_host
from tests.servers.canned import canned
from tests.servers.google.compute import Compute


@contextmanager
def hosts(server: Compute, folder: Path) -> Iterator[None]:
    """Run the start-up script of each VM that runs, and kill what is left of one that ended."""
    is_over = threading.Event()
    booted: set[str] = set()

    def tick(stack: ExitStack) -> None:
        with server.lock:
            running = {vm.name: vm for vm in server.vms.values() if server.status(vm) == "RUNNING"}
        for name in running.keys() - booted:
            (item,) = running[name].fields["metadata"]["items"]
            _boot(folder / name, item["value"], stack.enter_context(_metadata(name)))
            booted.add(name)
        for name in booted - running.keys():
            kill_host(folder / name)

    def watch() -> None:
        with ExitStack() as stack:
            while not is_over.wait(0.2):
                tick(stack)

    thread = threading.Thread(target=watch)
    thread.start()
    try:
        yield
    finally:
        is_over.set()
        thread.join()
        for name in booted:
            kill_host(folder / name)


@contextmanager
def _metadata(name: str) -> Iterator[str]:
    """A metadata server that knows the name of its VM, and of no preemption."""
    answer = f"HTTP/1.1 200 OK\r\nContent-Length: {len(name)}\r\n\r\n{name}".encode()
    with canned(answer) as url:
        yield url.removeprefix("http://")


def _boot(home: Path, script: str, metadata: str) -> None:
    tools = home / "bin"
    tools.mkdir(parents=True)
    # An orphan halts its host, which is this one.
    (tools / "shutdown").write_text(f"#!/bin/sh\ntouch {home}/halted\n")
    (tools / "shutdown").chmod(0o755)
    (home / "startup-script").write_text(script)
    env = {
        "PATH": f"{tools}:{Path(sys.executable).parent}:/usr/bin:/bin",
        "HOME": str(home),
        "GCE_METADATA_HOST": metadata,
        "BASTION_BOOT_DIR": str(home / "bastion"),
    }
    with (home / "serial-port").open("ab") as log:
        script_path = str(home / "startup-script")
        subprocess.Popen(["sh", script_path], env=env, stdout=log, stderr=log).wait()
