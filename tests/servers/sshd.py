"""A real sshd on loopback that accepts one key."""

from __future__ import annotations

import getpass
import shutil
import socket
import subprocess
from collections.abc import Iterator, Mapping, Sequence
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
    address: str = "127.0.0.1"

    def url(self, path: Path) -> str:
        """Return git's URL of the repository at `path`."""
        return f"ssh://{getpass.getuser()}@127.0.0.1:{self.port}{path}"

    def known_as(self, key: str) -> str:
        """Return the line of a known_hosts file that binds this host to `key`."""
        kind, public, *_ = (self.folder / f"{key}.pub").read_text().split()
        return f"[{self.address}]:{self.port} {kind} {public}\n"


@contextmanager
def sshd(
    folder: Path,
    *settings: str,
    address: str = "127.0.0.1",
    inside: Sequence[str] = (),
) -> Iterator[Sshd]:
    """
    Run an sshd.

    Args:
        folder: Exists; it gets the keys and settings.
        settings: More lines of its configuration.
        address: Where it listens.
        inside: The beginning of its command, for example to run in a network namespace.
    """
    for name in ("host", "key", "stranger"):
        _keygen(folder / name)
    shutil.copy(folder / "key.pub", folder / "authorized")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = int(free.getsockname()[1])
    (folder / "sshd_config").write_text(
        f"Port {port}\nListenAddress {address}\nHostKey {folder}/host\nUsePAM no\n"
        f"AuthorizedKeysFile {folder}/authorized\nStrictModes no\nPidFile none\n"
        "PasswordAuthentication no\nKbdInteractiveAuthentication no\nPermitRootLogin yes\n"
        + "".join(f"{line}\n" for line in settings)
    )
    Path("/run/sshd").mkdir(exist_ok=True)  # The directory for sshd's privilege separation.
    command = [*inside, str(_SSHD), "-D", "-e", "-f", str(folder / "sshd_config")]
    # A file instead of a pipe: each connection is a separate process that has it open, and may
    # stay.
    log = folder / "sshd.log"
    with log.open("wb") as out:
        server = subprocess.Popen(command, stderr=out)
    try:
        line_in(log, "listening on", server)
        yield Sshd(folder=folder, port=port, address=address)
    finally:
        killed(server)


@contextmanager
def hosts(folder: Path, *names: str) -> Iterator[Path]:
    """Run several hosts, each an sshd with its own home; yield the ssh_config that names them."""
    config = OwnHosts(folder)
    with ExitStack() as stack:
        for name in names:
            stack.enter_context(config.add(name))
        yield config.path


class OwnHosts:
    """Hosts that each have a home below `folder`, and the ssh_config that names them."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "ssh_config"
        self.known = folder / "known_hosts"
        self._folder = folder
        self.path.write_text(f"UserKnownHostsFile {self.known}\n")

    @contextmanager
    def add(
        self,
        name: str,
        *,
        over: str = "",
        address: str = "127.0.0.1",
        inside: Sequence[str] = (),
        env: Mapping[str, str] | None = None,
    ) -> Iterator[Sshd]:
        """
        Add a host.

        Args:
            name: Its name in the ssh_config; its home is the folder of that name.
            over: A line about the route to it.
            address: Where it listens.
            inside: The beginning of the command of its sshd.
            env: Variables of the programs that run there.
        """
        home = self._folder / name
        home.mkdir()
        variables = {"HOME": str(home), CLAIMS: str(home), **(env or {})}
        own = "SetEnv " + " ".join(f"{key}={text}" for key, text in variables.items())
        with sshd(home, own, address=address, inside=inside) as server:
            with self.known.open("a") as known:
                known.write(server.known_as("host"))
            lines = [f"Host {name}", f"HostName {address}", f"Port {server.port}"]
            lines += [f"IdentityFile {home}/key", "IdentitiesOnly yes", *([over] if over else [])]
            with self.path.open("a") as config:
                config.write("\n".join(lines) + "\n")
            yield server


def _keygen(path: Path) -> None:
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(path)], check=True)
