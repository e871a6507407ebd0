"""Hosts of booted instances: processes on this machine that do what cloud-init does."""

from __future__ import annotations

import email
import os
import signal
import subprocess
import sys
import time
from contextlib import ExitStack, suppress
from itertools import product
from pathlib import Path
from typing import Any

from tests.rigs.limits import PATIENCE_S
from tests.servers.aws.ec2 import Ec2World, parsed_user_data
from tests.servers.aws.metadata import Metadata, metadata_of


class Hosts:
    """
    One host for each running instance: its user data is run, and killed when the instance ends.

    Args:
        world: The region.
        folder: The place of their files, with one folder for each instance.
    """

    def __init__(self, world: Ec2World, folder: Path) -> None:
        self._folder = folder
        self._stack = ExitStack()
        self.metadata: dict[str, Metadata] = {}
        """What each instance can read about itself."""
        world.on_boot, world.on_end = self.boot, self.end

    def boot(self, instance: Any) -> None:
        """Run the shell scripts of an instance's user data, as at each boot."""
        home = self._folder / instance.id
        tools = home / "bin"
        tools.mkdir(parents=True, exist_ok=True)
        # An orphan halts its host, which is this one.
        (tools / "shutdown").write_text(f"#!/bin/sh\ntouch {home}/halted\n")
        (tools / "shutdown").chmod(0o755)
        metadata = self._stack.enter_context(metadata_of(instance))
        self.metadata[instance.id] = metadata
        env = {
            "PATH": f"{tools}:{Path(sys.executable).parent}:/usr/bin:/bin",
            "HOME": str(home),
            "AWS_EC2_METADATA_SERVICE_ENDPOINT": metadata.endpoint,
            "BASTION_BOOT_DIR": str(home / "bastion"),
        }
        for at, part in enumerate(email.message_from_bytes(parsed_user_data(instance)).walk()):
            if part.get_content_type() == "text/x-shellscript":
                script = home / f"part-{at}"
                script.write_bytes(part.get_payload(decode=True))
                with (home / "cloud-init.log").open("ab") as log:
                    subprocess.Popen(["sh", script], env=env, stdout=log, stderr=log).wait(
                        PATIENCE_S
                    )

    def end(self, instance: Any) -> None:
        """Kill everything on the host of an instance."""
        kill_host(self._folder / instance.id)

    def close(self) -> None:
        """Stop the metadata services, and kill everything on every host."""
        self._stack.close()
        kill_host(self._folder)


def kill_host(folder: Path) -> None:
    """
    Kill everything that names a file below `folder` in its environment or command line.

    None of it sees another's end first, as when a machine is switched off or a kernel ends a
    container.
    """
    home = f"{folder}/".encode()
    until = time.monotonic() + PATIENCE_S
    while found := [pid for pid in _pids() if _has(pid, home)]:
        assert time.monotonic() < until, f"{found} cannot be killed"
        for number, pid in product((signal.SIGSTOP, signal.SIGKILL), found):
            with suppress(ProcessLookupError):
                os.kill(pid, number)


def _pids() -> list[int]:
    return [int(entry.name) for entry in Path("/proc").glob("[0-9]*")]


def _has(pid: int, home: bytes) -> bool:
    """Whether a living process belongs to a host."""
    with suppress(OSError):
        process = Path(f"/proc/{pid}")
        if process.joinpath("stat").read_text().rpartition(")")[2].split()[0] == "Z":
            return False
        said = (process.joinpath(each).read_bytes() + b"\0" for each in ("environ", "cmdline"))
        return any(home in each.replace(b"\0", b"/\0") for each in said)
    return False
