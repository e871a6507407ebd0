"""
Clone a commit into a working directory, on the machine that runs it.

The directory appears by one rename, at exactly the requested commit. Hooks are never run, and only
the commit's own files, its submodules and its large files are fetched.
"""

from __future__ import annotations

import hashlib
import json
import shutil
from pathlib import Path

from bundler.code import GitRef
from bundler.copies.kept import kept_tree
from bundler.errors import BundleError
from bundler.repository.access import Access, refusal
from bundler.repository.command import Answer, run_git
from bundler.url import redacted


def clone(ref: GitRef, directory: Path, *, access: Access) -> None:
    """
    Clone the files of `ref` into `directory`, with a `.git` that knows the commit.

    The remains of a killed attempt are replaced.

    Raises:
        BundleError: `directory` exists; the commit does not exist; a host, key, submodule or large
            file is refused.
        UnreachableError: The repository did not answer.
    """
    directory.parent.mkdir(parents=True, exist_ok=True)
    if directory.exists() and (not directory.is_dir() or any(directory.iterdir())):
        raise BundleError(
            f"{str(directory)!r} exists and is not an empty folder",
            hint="name a folder that does not exist yet",
        )
    new = directory.parent / f".new-{directory.name}"
    shutil.rmtree(new, ignore_errors=True)
    try:
        _Clone(ref, new, access).make()
        new.rename(directory)
    finally:
        shutil.rmtree(new, ignore_errors=True)


def fetch_commit(ref: GitRef, cache: Path, *, access: Access) -> Path:
    """
    Return the folder in `cache` with the files of `ref`; clone it if it is missing.

    A clone from before the last boot is repeated: git has no cheap way to check one.

    Raises:
        BundleError: As for `clone`.
        UnreachableError: The repository did not answer.
    """
    words = [ref.url, ref.commit, ref.submodules, ref.lfs]
    name = hashlib.sha256(json.dumps(words).encode()).hexdigest()

    def make(top: Path) -> None:
        clone(ref, top, access=access)

    return kept_tree(cache, name, make=make, is_whole=lambda _: False)


class _Clone:
    """One clone: folder, url and key of all its calls."""

    def __init__(self, ref: GitRef, folder: Path, access: Access) -> None:
        self._ref = ref
        self._folder = folder
        self._access = access
        # Git forbids file:// for submodules, because a repository could read the disk of the
        # machine that clones it. A repository that is itself named by file:// may use it.
        local = ref.url.startswith("file://")
        self._settings = ["-c", "protocol.file.allow=always"] if local else []

    def make(self) -> None:
        """Fetch the commit and write its files."""
        self._folder.mkdir()
        self._must("init", "--quiet")
        self._must("remote", "add", "origin", self._ref.url)
        self._fetch()
        self._must("checkout", "--quiet", "--detach", self._ref.commit)
        if self._ref.submodules:
            self._must("submodule", "update", "--init", "--recursive", "--depth=1", "--quiet")
        if self._ref.lfs:
            self._fetch_large_files()

    def _fetch(self) -> None:
        """Fetch the commit alone if the remote permits; else fetch everything and look it up."""
        alone = self._git("fetch", "--quiet", "--depth=1", "--no-tags", "origin", self._ref.commit)
        if not alone.code:
            return
        self._must("fetch", "--quiet", "origin", "+refs/heads/*:refs/remotes/origin/*", "--tags")
        if self._git("cat-file", "-e", f"{self._ref.commit}^{{commit}}").code:
            raise BundleError(
                f"commit {self._ref.commit} of {redacted(self._ref.url)} does not exist",
                hint="it was there when the launch was submitted; has the branch been rewritten?",
            )

    def _fetch_large_files(self) -> None:
        if self._git("lfs", "version").code:
            raise BundleError("no git-lfs on this machine", hint="install it, or say lfs=False")
        self._must("lfs", "install", "--local", "--skip-repo")
        self._must("lfs", "pull")

    def _must(self, *arguments: str) -> None:
        answer = self._git(*arguments)
        if answer.code:
            raise refusal(answer, self._ref.url)

    def _git(self, *arguments: str) -> Answer:
        return run_git(
            [*self._settings, *arguments],
            folder=self._folder,
            timeout_s=self._access.timeout_s,
            environment=self._access.environment(self._ref.url),
        )
