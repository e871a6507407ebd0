"""Repositories behind ssh, against a real sshd: keys, and hosts that are checked strictly."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from bundler.code import GitRepo
from bundler.errors import BundleError
from bundler.repository.access import Access
from bundler.repository.clone import clone
from bundler.repository.git import resolve
from tests.rigs.git_repositories import commit, git
from tests.servers.sshd import Sshd, needs_sshd, sshd

pytestmark = [pytest.mark.end_to_end, needs_sshd]


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Sshd]:
    """Run an sshd that keeps its keys in `tmp_path`."""
    with sshd(tmp_path) as made:
        yield made


@pytest.fixture
def url(tmp_path: Path, server: Sshd) -> str:
    """Return a repository behind that sshd."""
    commit(tmp_path / "repo", {"a.py": "1"})
    (tmp_path / "known hosts").write_text(server.known_as("host"))
    return server.url(tmp_path / "repo")


def access(tmp_path: Path, key: str = "key", hosts: str = "known hosts") -> Access:
    """Return access with these files."""
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


def test_a_changed_host_key_is_refused(url: str, server: Sshd, tmp_path: Path) -> None:
    """A host with another key than the known one is refused with a specific message."""
    (tmp_path / "wrong").write_text(server.known_as("stranger"))
    with pytest.raises(BundleError, match="presents another key than the known one"):
        resolve(GitRepo(url), access=access(tmp_path, hosts="wrong"))


def test_a_key_that_is_not_let_in_is_told(url: str, tmp_path: Path) -> None:
    """The error says that the key was refused."""
    with pytest.raises(BundleError, match="refused our key"):
        resolve(GitRepo(url), access=access(tmp_path, key="stranger"))


def test_a_key_that_others_may_read_is_told(url: str, tmp_path: Path) -> None:
    """The message of ssh about a key's permissions reaches the user with the solution."""
    (tmp_path / "key").chmod(0o644)
    with pytest.raises(BundleError, match="others may read") as caught:
        resolve(GitRepo(url), access=access(tmp_path))
    assert "chmod 600" in caught.value.hint


def test_a_missing_key_is_told_where_only_a_submodule_needs_it(url: str, tmp_path: Path) -> None:
    """The repository itself is reached without a key."""
    top = tmp_path / "top"
    commit(top, {"b.py": ""})
    there = str(tmp_path / "repo")
    git(top, "submodule", "-q", "add", there, "lib", settings=("protocol.file.allow=always",))
    git(top, "config", "--file=.gitmodules", "submodule.lib.url", url)
    commit(top, {})
    keyless = access(tmp_path, key="gone")
    ref = resolve(GitRepo(top.as_uri(), submodules=True), access=keyless)
    with pytest.raises(BundleError, match="no key file for a host"):
        clone(ref, tmp_path / "job", access=keyless)
