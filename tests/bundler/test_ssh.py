"""Repositories behind ssh, against a real sshd: keys, and hosts that are checked strictly."""

from __future__ import annotations

import shutil
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from bundler.access import Access
from bundler.clone import clone
from bundler.code import GitRepo
from bundler.errors import BundleError
from bundler.git import resolve
from tests.bundler.repositories import commit

_SSHD = shutil.which("sshd", path="/usr/sbin:/usr/bin:/usr/local/sbin")
pytestmark = [
    pytest.mark.end_to_end,
    pytest.mark.skipif(_SSHD is None, reason="sshd is not installed (openssh-server)"),
]


@pytest.fixture
def port(tmp_path: Path) -> Iterator[int]:
    """A real sshd on loopback that lets in `tmp_path / 'key'`; its port."""
    for name in ("host", "key", "stranger"):
        _keygen(tmp_path / name)
    shutil.copy(tmp_path / "key.pub", tmp_path / "authorized")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        number = int(free.getsockname()[1])
    (tmp_path / "sshd_config").write_text(
        f"Port {number}\nListenAddress 127.0.0.1\nHostKey {tmp_path}/host\nUsePAM no\n"
        f"AuthorizedKeysFile {tmp_path}/authorized\nStrictModes no\nPidFile none\n"
        "PasswordAuthentication no\nKbdInteractiveAuthentication no\nPermitRootLogin yes\n"
    )
    Path("/run/sshd").mkdir(exist_ok=True)  # The folder that sshd gives up its rights in.
    command = [str(_SSHD), "-D", "-e", "-f", str(tmp_path / "sshd_config")]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as server:
        assert server.stderr
        try:
            assert any("listening on" in line for line in server.stderr), "sshd did not start"
            yield number
        finally:
            server.terminate()


@pytest.fixture
def url(tmp_path: Path, port: int) -> str:
    """A repository behind that sshd."""
    commit(tmp_path / "repo", {"a.py": "1"})
    host = (tmp_path / "host.pub").read_text().split()
    (tmp_path / "known hosts").write_text(f"[127.0.0.1]:{port} {host[0]} {host[1]}\n")
    return f"ssh://root@127.0.0.1:{port}{tmp_path}/repo"


def access(tmp_path: Path, key: str = "key", hosts: str = "known hosts") -> Access:
    """With these files."""
    return Access(key_file=tmp_path / key, known_hosts_file=tmp_path / hosts, timeout_s=60)


def test_a_known_host_and_our_key(url: str, tmp_path: Path) -> None:
    """With the right key and the known host, a branch is resolved and cloned."""
    ref = resolve(GitRepo(url, branch="main"), access=access(tmp_path))
    clone(ref, tmp_path / "job", access=access(tmp_path))
    assert (tmp_path / "job/a.py").read_text() == "1"


def test_an_unknown_host_is_refused(url: str, tmp_path: Path) -> None:
    """A host that is not in known_hosts is refused, and never added to it."""
    (tmp_path / "none").write_text("")
    with pytest.raises(BundleError, match="not among the known hosts"):
        resolve(GitRepo(url), access=access(tmp_path, hosts="none"))
    assert (tmp_path / "none").read_text() == ""


def test_a_changed_host_key_is_refused(url: str, port: int, tmp_path: Path) -> None:
    """A host that shows another key than the known one is refused with its own text."""
    other = (tmp_path / "stranger.pub").read_text().split()
    (tmp_path / "wrong").write_text(f"[127.0.0.1]:{port} {other[0]} {other[1]}\n")
    with pytest.raises(BundleError, match="shows another key than the known one"):
        resolve(GitRepo(url), access=access(tmp_path, hosts="wrong"))


def test_a_key_that_is_not_let_in_is_told(url: str, tmp_path: Path) -> None:
    """A refused key is told as such."""
    with pytest.raises(BundleError, match="refused our key"):
        resolve(GitRepo(url), access=access(tmp_path, key="stranger"))


def test_a_key_that_others_may_read_is_told(url: str, tmp_path: Path) -> None:
    """What ssh says about a key's permissions reaches the user with the way out."""
    (tmp_path / "key").chmod(0o644)
    with pytest.raises(BundleError, match="others may read") as caught:
        resolve(GitRepo(url), access=access(tmp_path))
    assert "chmod 600" in caught.value.hint


def _keygen(path: Path) -> None:
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(path)], check=True)
