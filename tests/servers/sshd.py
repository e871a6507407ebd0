"""A real sshd on loopback that accepts one key."""

from __future__ import annotations

import getpass
import shutil
import socket
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from bastion.provider.own_hosts.claim import CLAIMS
from tests.rigs.limits import killed, line_in

_SSHD = shutil.which("sshd", path="/usr/sbin:/usr/bin:/usr/local/sbin")

needs_sshd = pytest.mark.skipif(
    _SSHD is None, reason="sshd is not installed (Debian: openssh-server)"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Sshd:
    """A running sshd; `folder` has the key pairs `key`, which it accepts, and `stranger`."""

    folder: Path
    port: int

    def url(self, path: Path) -> str:
        """Return git's URL of the repository at `path`."""
        return f"ssh://{getpass.getuser()}@127.0.0.1:{self.port}{path}"

    def known_as(self, key: str) -> str:
        """Return the line of a known_hosts file that binds this host to `key`."""
        kind, public, *_ = (self.folder / f"{key}.pub").read_text().split()
        return f"[127.0.0.1]:{self.port} {kind} {public}\n"


@contextmanager
def sshd(folder: Path, *settings: str) -> Iterator[Sshd]:
    """Run an sshd with its keys and settings in the existing `folder`; `settings` are lines."""
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
        + "".join(f"{line}\n" for line in settings)
    )
    Path("/run/sshd").mkdir(exist_ok=True)  # The directory for sshd's privilege separation.
    command = [str(_SSHD), "-D", "-e", "-f", str(folder / "sshd_config")]
    # A file and no pipe: each connection is a process of its own that has it open, and may stay.
    log = folder / "sshd.log"
    with log.open("wb") as out:
        server = subprocess.Popen(command, stderr=out)
    try:
        line_in(log, "listening on", server)
        yield Sshd(folder=folder, port=port)
    finally:
        killed(server)


@contextmanager
def hosts(folder: Path, *names: str) -> Iterator[Path]:
    """Hosts that each are an sshd with a home of its own; yields the ssh_config that names them."""
    config = folder / "ssh_config"
    lines = [f"UserKnownHostsFile {folder}/known_hosts"]
    with ExitStack() as stack:
        for name in names:
            home = folder / name
            home.mkdir()
            own = f"SetEnv HOME={home} {CLAIMS}={home}"
            server = stack.enter_context(sshd(home, own))
            with (folder / "known_hosts").open("a") as known:
                known.write(server.known_as("host"))
            lines += [f"Host {name}", "HostName 127.0.0.1", f"Port {server.port}"]
            lines += [f"IdentityFile {home}/key", "IdentitiesOnly yes"]
        config.write_text("\n".join(lines) + "\n")
        yield config


def _keygen(path: Path) -> None:
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(path)], check=True)
