"""Commits are resolved at submission and cloned at the start, with git's own servers."""

from __future__ import annotations

import os
import socket
import subprocess
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from bundler.code import GitRef, GitRepo
from bundler.copies.checkout import checkout
from bundler.errors import BundleError, UnreachableError
from bundler.repository.access import Access
from bundler.repository.clone import clone, fetch_commit
from bundler.repository.command import run_git
from bundler.repository.git import dirty_diff, resolve
from tests.rigs import trees
from tests.rigs.git_repositories import commit, git, served_by_http

ACCESS = Access(timeout_s=60)


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """Return a repository with two commits on `main`, one on `side`, and a signed-style tag."""
    top = tmp_path / "repo"
    commit(top, {"a.py": "1"})
    git(top, "tag", "-a", "v1", "-m", "one")
    git(top, "checkout", "-q", "-b", "side")
    commit(top, {"side.py": "s"})
    git(top, "checkout", "-q", "main")
    commit(top, {"a.py": "2", "run.sh": "#!"})
    return top


@pytest.fixture(params=["file", "http", "old http"])
def url(request: pytest.FixtureRequest, repository: Path) -> Iterator[str]:
    """Provide the repository's url for each transport that needs no key."""
    if request.param == "file":
        yield f"file://{repository}"
    else:
        with served_by_http(repository.parent, speaks_v2=request.param == "http") as base:
            yield f"{base}/repo/.git"


def test_branches_tags_and_commits_become_full_commits(url: str, repository: Path) -> None:
    """The default branch, a branch, a tag, a short and a full commit all give one full commit."""
    main, side, first = (git(repository, "rev-parse", r) for r in ("main", "side", "main~1"))
    assert resolve(GitRepo(url), access=ACCESS).commit == main
    assert resolve(GitRepo(url, branch="side"), access=ACCESS).commit == side
    assert resolve(GitRepo(url, branch="v1"), access=ACCESS).commit == first
    assert resolve(GitRepo(url, commit=first[:8]), access=ACCESS).commit == first
    assert resolve(GitRepo(url, commit=first), access=ACCESS).commit == first
    both = resolve(GitRepo(url, commit=side[:9], branch="side", lfs=True), access=ACCESS)
    assert both == GitRef(url=url, commit=side, branch="side", lfs=True)


def test_what_does_not_exist_is_told(url: str) -> None:
    """A missing branch, short commit and full commit are each reported by name."""
    with pytest.raises(BundleError, match="no branch or tag 'mian'") as caught:
        resolve(GitRepo(url, branch="mian"), access=ACCESS)
    assert caught.value.hint == "did you mean main?"
    with pytest.raises(BundleError, match=r"commit 1234567 of .* does not exist"):
        resolve(GitRepo(url, commit="1234567"), access=ACCESS)
    with pytest.raises(BundleError, match=r"commit 1{40} of .* does not exist"):
        resolve(GitRepo(url, commit="1" * 40), access=ACCESS)
    with pytest.raises(BundleError, match="there is no repository at"):
        resolve(GitRepo(url.replace("repo", "nowhere")), access=ACCESS)


def test_a_commit_of_another_branch_is_refused(url: str, repository: Path) -> None:
    """Branch and commit together mean a commit on that branch."""
    side = git(repository, "rev-parse", "side")
    with pytest.raises(BundleError, match="is not on the branch 'main'"):
        resolve(GitRepo(url, branch="main", commit=side), access=ACCESS)


def test_any_commit_is_cloned(url: str, repository: Path, tmp_path: Path) -> None:
    """A commit that is not a tip is checked out exactly and completely."""
    first = git(repository, "rev-parse", "main~1")
    clone(GitRef(url=url, commit=first), tmp_path / "job", access=ACCESS)
    assert (tmp_path / "job/a.py").read_text() == "1"
    assert not (tmp_path / "job/run.sh").exists()
    assert git(tmp_path / "job", "rev-parse", "HEAD") == first


def test_a_commit_that_is_gone_is_told(url: str, tmp_path: Path) -> None:
    """A commit that has disappeared since submission is an error, and leaves nothing."""
    with pytest.raises(BundleError, match="has the branch been rewritten") as caught:
        try:
            clone(GitRef(url=url, commit="1" * 40), tmp_path / "job", access=ACCESS)
        except BundleError as error:
            raise BundleError(f"{error} {error.hint}") from error
    assert "does not exist" in str(caught.value)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["repo"]


def test_a_directory_in_use_is_refused(url: str, repository: Path, tmp_path: Path) -> None:
    """A clone never writes to existing files; debris of a killed one is replaced."""
    ref = GitRef(url=url, commit=git(repository, "rev-parse", "main"))
    trees.write(tmp_path, {"used/x": "", ".new-job/half": ""})
    with pytest.raises(BundleError, match="not an empty folder"):
        clone(ref, tmp_path / "used", access=ACCESS)
    clone(ref, tmp_path / "job", access=ACCESS)
    assert not (tmp_path / "job/half").exists()


def test_a_commit_is_cloned_once(repository: Path, tmp_path: Path) -> None:
    """A machine does not fetch a commit again; with submodules, it is another tree."""
    full = git(repository, "rev-parse", "main")
    ref = GitRef(url=f"file://{repository}", commit=full)
    first = fetch_commit(ref, tmp_path / "cache", access=ACCESS)
    checkout(first, tmp_path / "job")
    repository.rename(tmp_path / "gone")
    assert fetch_commit(ref, tmp_path / "cache", access=ACCESS) == first
    assert (tmp_path / "job/a.py").read_text() == "2"
    with pytest.raises(BundleError, match="there is no repository"):
        fetch_commit(replace(ref, submodules=True), tmp_path / "cache", access=ACCESS)


def test_submodules_come_when_asked_for(repository: Path, tmp_path: Path) -> None:
    """Submodules are fetched, recursively, only with `submodules=True`."""
    commit(tmp_path / "lib", {"lib.py": "l"})
    git(repository, "submodule", "--quiet", "add", f"file://{tmp_path}/lib", "lib",
        settings=("protocol.file.allow=always",))  # fmt: skip
    full = commit(repository, {})
    url = f"file://{repository}"
    clone(GitRef(url=url, commit=full), tmp_path / "without", access=ACCESS)
    clone(GitRef(url=url, commit=full, submodules=True), tmp_path / "with", access=ACCESS)
    assert not (tmp_path / "without/lib/lib.py").exists()
    assert (tmp_path / "with/lib/lib.py").read_text() == "l"


@pytest.mark.skipif(
    subprocess.run(["git", "lfs", "version"], capture_output=True).returncode != 0,
    reason="git-lfs is not installed (apt-get install git-lfs)",
)
def test_large_files_come_when_asked_for(repository: Path, tmp_path: Path) -> None:
    """Large files are pointers without `lfs=True`, and complete with it."""
    git(repository, "lfs", "install", "--local")
    full = commit(repository, {".gitattributes": "*.bin filter=lfs -text\n", "w.bin": b"weights"})
    url = f"file://{repository}"
    clone(GitRef(url=url, commit=full), tmp_path / "without", access=ACCESS)
    clone(GitRef(url=url, commit=full, lfs=True), tmp_path / "with", access=ACCESS)
    assert (tmp_path / "without/w.bin").read_text().startswith("version https://git-lfs")
    assert (tmp_path / "with/w.bin").read_bytes() == b"weights"


def test_a_repository_that_wants_a_login_is_told(tmp_path: Path) -> None:
    """No password prompt appears: it is an error with a solution."""
    with served_by_http(tmp_path) as base, pytest.raises(BundleError, match="requires a login"):
        resolve(GitRepo(f"{base}/private/x.git"), access=ACCESS)


def test_an_unreachable_host_is_told() -> None:
    """A refused connection is an error that suggests another try."""
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        port = unused.getsockname()[1]
    with pytest.raises(UnreachableError, match="cannot be reached"):
        resolve(GitRepo(f"http://127.0.0.1:{port}/x.git"), access=ACCESS)


def test_a_host_that_says_nothing_is_given_up() -> None:
    """Every call has a deadline, and its processes end with it."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        before = threading.active_count()
        with pytest.raises(UnreachableError, match=r"did not end within 0\.5 s"):
            resolve(GitRepo(f"http://127.0.0.1:{port}/x.git"), access=Access(timeout_s=0.5))
        assert threading.active_count() == before


def test_missing_key_files_are_told(repository: Path, tmp_path: Path) -> None:
    """A missing key or known_hosts file is named immediately, where it would be needed."""
    for name in ("key_file", "known_hosts_file"):
        access = Access(**{name: tmp_path / "none"})  # type: ignore[arg-type]
        for url in ("git@example.org:x.git", "ssh://example.org/x.git"):
            with pytest.raises(BundleError, match=r"no (key|known hosts) file for git at .*/none"):
                resolve(GitRepo(url), access=access)
        assert resolve(GitRepo(repository.as_uri()), access=access).commit


def test_the_callers_git_settings_do_not_leak(
    repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A `GIT_DIR` left by a hook changes nothing."""
    monkeypatch.setenv("GIT_DIR", str(tmp_path / "nowhere"))
    assert run_git(["rev-parse", "HEAD"], folder=repository, timeout_s=10).code == 0


def test_the_difference_is_recorded(repository: Path) -> None:
    """The record holds commit, branch, diff and new files, and applying the diff gives the tree."""
    git(repository, "remote", "add", "origin", "https://user:secret@example.org/x.git")
    trees.write(repository, {"a.py": "3\n", "new.py": "n", ".gitignore": "*.log\n", "x.log": ""})
    record = dirty_diff(repository)
    assert record
    assert (record.commit, record.branch) == (git(repository, "rev-parse", "main"), "main")
    assert record.url == "https://***@example.org/x.git"
    assert record.untracked == (".gitignore", "new.py")
    assert not record.diff_is_cut
    git(repository, "checkout", "-q", ".")
    subprocess.run(["git", "apply"], cwd=repository, input=record.diff.encode(), check=True)
    assert (repository / "a.py").read_text() == "3\n"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a folder away")
def test_a_repository_of_another_user_is_told(repository: Path) -> None:
    """As in a container: the launch's record is incomplete, and a message says what to do."""
    os.chown(repository, 65534, 65534)
    with pytest.raises(BundleError, match="is another user's, which git does not trust") as caught:
        dirty_diff(repository)
    assert caught.value.hint.endswith(f"--add safe.directory {repository}")


def test_trees_without_git_and_without_commits(tmp_path: Path) -> None:
    """Without a repository there is no record; one without a commit has no difference."""
    assert dirty_diff(tmp_path) is None
    git(tmp_path, "init", "-q")
    trees.write(tmp_path, {"a": "x"})
    git(tmp_path, "add", "a")
    record = dirty_diff(tmp_path)
    assert record
    assert record.commit == ""
    assert "+x" in record.diff
