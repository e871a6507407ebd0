"""A docker daemon and a registry only for the tests, and a small image that needs no download."""

from __future__ import annotations

import io
import os
import shutil
import socket
import subprocess
import tarfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.rigs.limits import line_in

_ENDS_S = 60.0

IMAGE = "bench/shell:1"
"""An image of a shell and its tools; its working directory is /work."""

APPLETS = "sh cat echo env head id kill ls mkdir mv ps pwd rm setsid sleep stat test touch yes"

needs_dockerd = [
    pytest.mark.prove,
    pytest.mark.skipif(
        not (shutil.which("dockerd") and shutil.which("docker-registry") and os.geteuid() == 0),
        reason="needs root, dockerd and docker-registry (Debian: docker.io, docker-registry)",
    ),
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Dockerd:
    """The addresses of a daemon and a registry."""

    daemon: str
    registry: str

    @property
    def socket(self) -> Path:
        """Return the daemon's socket."""
        return Path(self.daemon.removeprefix("unix://"))

    def docker(self, *arguments: str, data: bytes | None = None) -> str:
        """Run docker's own client, and return its output."""
        command = ["docker", "-H", self.daemon, *arguments]
        done = subprocess.run(command, input=data, capture_output=True, check=True)
        return done.stdout.decode().strip()

    def load_image(self) -> None:
        """Load `IMAGE` into the daemon."""
        changes = ("--change", "WORKDIR /work", "--change", "ENV OF_IMAGE=yes")
        self.docker("import", *changes, "-", IMAGE, data=shell_files())


def has_shell() -> bool:
    """Whether this machine has a statically linked shell (Debian: busybox-static)."""
    found = shutil.which("busybox")
    if not found:
        return False
    said = subprocess.run(["ldd", found], capture_output=True, text=True)
    return "not a dynamic executable" in said.stderr


def shell_files() -> bytes:
    """Return the files of `IMAGE`, as a tar archive."""
    found = io.BytesIO()
    with tarfile.open(fileobj=found, mode="w") as tar:
        for name in ("bin", "tmp", "work", "etc"):
            folder = tarfile.TarInfo(name)
            folder.type, folder.mode = tarfile.DIRTYPE, 0o1777
            tar.addfile(folder)
        busybox = Path(shutil.which("busybox") or "").read_bytes()
        program = tarfile.TarInfo("bin/busybox")
        program.size, program.mode = len(busybox), 0o755
        tar.addfile(program, io.BytesIO(busybox))
        for name in APPLETS.split():
            link = tarfile.TarInfo(f"bin/{name}")
            link.type, link.linkname = tarfile.SYMTYPE, "busybox"
            tar.addfile(link)
    return found.getvalue()


@contextmanager
def dockerd(top: Path) -> Iterator[Dockerd]:
    """Run a daemon without a network, and a registry on loopback; their files are below `top`."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = int(free.getsockname()[1])
    (top / "registry.yml").write_text(
        f"version: 0.1\nstorage: {{filesystem: {{rootdirectory: {top}/images}}}}\n"
        f"http: {{addr: 127.0.0.1:{port}}}\n"
    )
    daemon = [
        "dockerd", "--data-root", f"{top}/data", "--exec-root", f"{top}/exec",
        "-H", f"unix://{top}/docker.sock", "-p", f"{top}/pid", "--iptables=false",
        "--ip6tables=false", "--bridge=none", "--ip-forward=false", "--ip-masq=false",
    ]  # fmt: skip
    registry = ["docker-registry", "serve", f"{top}/registry.yml"]
    logs = (top / "dockerd.log", top / "registry.log")
    servers = []
    for command, log in zip((daemon, registry), logs, strict=True):
        with log.open("wb") as out:
            servers.append(subprocess.Popen(command, stderr=out, stdout=subprocess.DEVNULL))
    try:
        line_in(logs[0], "API listen on", servers[0])
        line_in(logs[1], "listening on", servers[1])
        yield Dockerd(daemon=f"unix://{top}/docker.sock", registry=f"127.0.0.1:{port}")
    finally:
        for server in servers:
            server.terminate()
        for server in servers:
            server.wait(timeout=_ENDS_S)
        # Containers in the host's network leave this mounted, and the folder could not be deleted.
        subprocess.run(["umount", "-q", f"{top}/exec/netns/default"], capture_output=True)
