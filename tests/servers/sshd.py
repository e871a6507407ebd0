"""A real sshd on loopback, that lets in one key."""

from __future__ import annotations

import getpass
import shutil
import socket
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

_SSHD = shutil.which("sshd", path="/usr/sbin:/usr/bin:/usr/local/sbin")

needs_sshd = pytest.mark.skipif(
    _SSHD is None, reason="sshd is not installed (Debian: openssh-server)"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Sshd:
    """One that listens; in `folder` lie `key`, which it lets in, `stranger`, and their publics."""

    folder: Path
    port: int

    def url(self, path: Path) -> str:
        """What git calls the repository at `path`."""
        return f"ssh://{getpass.getuser()}@127.0.0.1:{self.port}{path}"

    def known_as(self, key: str) -> str:
        """The line of a known_hosts file that says that this host shows `key`."""
        kind, public, *_ = (self.folder / f"{key}.pub").read_text().split()
        return f"[127.0.0.1]:{self.port} {kind} {public}\n"


@contextmanager
def sshd(folder: Path) -> Iterator[Sshd]:
    """One that keeps its keys and settings in `folder`, which is there."""
    for name in ("host", "key", "stranger"):
        _keygen(folder / name)
    shutil.copy(folder / "key.pub", folder / "authorized")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = int(free.getsockname()[1])
    (folder / "sshd_config").write_text(
        f"Port {port}\nListenAddress 127.0.0.1\nHostKey {folder}/host\nUsePAM no\n"
        f"AuthorizedKeysFile {folder}/authorized\nStrictModes no\nPidFile none\n"
        "PasswordAuthentication no\nKbdInteractiveAuthentication no\nPermitRootLogin yes\n"
    )
    Path("/run/sshd").mkdir(exist_ok=True)  # The folder that sshd gives up its rights in.
    command = [str(_SSHD), "-D", "-e", "-f", str(folder / "sshd_config")]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as server:
        assert server.stderr
        try:
            assert any("listening on" in line for line in server.stderr), "sshd did not start"
            threading.Thread(target=server.stderr.read, daemon=True).start()
            yield Sshd(folder=folder, port=port)
        finally:
            server.terminate()


def _keygen(path: Path) -> None:
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(path)], check=True)
