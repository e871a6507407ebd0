"""
Git on the submitting machine: the resolved commit, and the difference from it.

A queued launch must run the commit that was meant at submission, so branches and short commits are
resolved to full hashes here. No repository is written to.
"""

from __future__ import annotations

import difflib
import os
import re
import tempfile
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path

from bundler.code import GitRef, GitRepo
from bundler.errors import BundleError
from bundler.repository.access import Access, refusal
from bundler.repository.command import Answer, run_git
from bundler.root import find_git_top
from bundler.suspect import looks_secret
from bundler.url import redacted

_COMMIT = re.compile(r"[0-9a-f]{40}(?:[0-9a-f]{24})?")
"""SHA-1 or SHA-256, in full."""
_LOCAL_S = 60.0
"""Timeout of calls that only use the local disk."""
_DIFF_BYTES = 2**20
"""A larger difference is cut here: the record is for people, and the bundle has everything."""
_DIFF_FILES = 200
"""Files in one call of `git diff`: their names are arguments of a command."""
_EMPTY_TREE = "4b825dc642cb6eb9a060e54bf8d69288fbee4904"
"""Git's hash of the empty tree (SHA-1 repositories)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkingCopy:
    """A working tree and its commit, for the record of a launch."""

    commit: str
    """The full hash; empty before the first commit."""
    branch: str
    """Empty if no branch is checked out."""
    url: str
    """The URL of the remote `origin`, without credentials; empty if there is none."""
    diff: str
    """
    The difference of the files from the commit, as git prints it; only names of deleted files.
    """
    diff_is_cut: bool
    changed: tuple[str, ...]
    """Files that differ from the commit, relative to the root of the tree."""
    left_out: tuple[str, ...]
    """The paths in `changed` whose content is not in `diff`, as it may be secret."""
    untracked: tuple[str, ...]
    """Files that git neither tracks nor ignores."""


def resolve(repo: GitRepo, *, access: Access) -> GitRef:
    """
    Return the commit that `repo` refers to now.

    Raises:
        BundleError: No such repository, branch or commit; a commit that is not on the branch or is
            ambiguous; a host or key that is refused (each its own text).
        UnreachableError: The repository did not answer.
    """
    commit = _find_commit(repo, access) if repo.commit else _find_tip(repo, access)
    return GitRef(
        url=repo.url, commit=commit, branch=repo.branch, submodules=repo.submodules, lfs=repo.lfs
    )


def dirty_diff(root: Path, *, told: Collection[str] | None = None) -> WorkingCopy | None:
    """
    Return the difference of the working tree at `root` from its commit; None without git.

    Files whose names suggest secrets, and files larger than the record may be, are only named.

    Args:
        root: The top of the tree, which may be below the repository's.
        told: Files whose content may be included; None: all.

    Raises:
        UnreachableError: Git exceeded its deadline.
        BundleError: Git is not installed, or does not trust the owner of the repository: its
            settings could start programs of that user's.
    """
    top = find_git_top(root)
    if top is None:
        return None
    answer = _local(root, "rev-parse", "--is-inside-work-tree")
    if "dubious ownership" in answer.errors:
        raise BundleError(
            f"{top} is another user's, which git does not trust",
            hint=f"git config --global --add safe.directory {top}",
        )
    if answer.code:
        return None
    commit = _text(_local(root, "rev-parse", "--verify", "--quiet", "HEAD"))
    since = commit or _EMPTY_TREE
    names = _local(
        root, "diff", "--name-only", "--no-renames", "--relative", "-z", since, "--", "."
    ).out
    changed = _paths(names)
    left_out = tuple(path for path in changed if not _may_be_told(root, path, told))
    diff = _diff(root, since, [path for path in changed if path not in left_out])
    others = _local(root, "ls-files", "-z", "--others", "--exclude-standard").out
    return WorkingCopy(
        commit=commit,
        branch=_text(_local(root, "symbolic-ref", "--quiet", "--short", "HEAD")),
        url=redacted(_text(_local(root, "remote", "get-url", "origin"))),
        diff=diff[:_DIFF_BYTES].decode(errors="replace"),
        diff_is_cut=len(diff) > _DIFF_BYTES,
        changed=changed,
        left_out=left_out,
        untracked=_paths(others),
    )


def _may_be_told(root: Path, path: str, told: Collection[str] | None) -> bool:
    if looks_secret(path.rpartition("/")[2]):
        return False
    try:
        size = (root / path).lstat().st_size
    except OSError:
        return True  # deleted: only its name is included
    return size <= _DIFF_BYTES and (told is None or path in told)


def _diff(root: Path, since: str, paths: Sequence[str]) -> bytes:
    """Return the difference of `paths`, cut to the limit of a record."""
    parts = bytearray()
    for first in range(0, len(paths), _DIFF_FILES):
        some = paths[first : first + _DIFF_FILES]
        parts += _local(
            root, "--literal-pathspecs", "diff", "--binary", "--no-renames", "--no-ext-diff",
            "--irreversible-delete", "--no-textconv", "--no-color", since, "--", *some,
        ).out  # fmt: skip
        if len(parts) > _DIFF_BYTES:
            break
    return bytes(parts)


def _paths(listed: bytes) -> tuple[str, ...]:
    return tuple(os.fsdecode(path) for path in listed.split(b"\0") if path)


def tracked_although_ignored(root: Path) -> tuple[str, ...]:
    """
    Return the paths below `root` that git tracks although a `.gitignore` matches them.

    Git's check of folder owners is disabled: otherwise a tree would have another digest inside a
    container. Listing names starts no program of the repository.

    Raises:
        UnreachableError: Git exceeded its deadline.
        BundleError: Git is not installed, or cannot read the repository.
    """
    answer = _local(
        root, "-c", "safe.directory=*",
        "ls-files", "-z", "--cached", "--ignored", "--exclude-per-directory=.gitignore",
    )  # fmt: skip
    if answer.code:
        raise BundleError(f"git cannot list {root}: {' '.join(answer.errors.split())[:300]}")
    return _paths(answer.out)


def _find_tip(repo: GitRepo, access: Access) -> str:
    wanted = (
        [f"refs/heads/{repo.branch}", f"refs/tags/{repo.branch}", f"refs/tags/{repo.branch}^{{}}"]
        if repo.branch
        else ["HEAD"]
    )
    answer = _remote(access, repo.url, "ls-remote", "--", repo.url, *wanted)
    if answer.code:
        raise refusal(answer, repo.url)
    tips = tips_in(answer.out)
    # A branch wins over a tag of the same name, and a signed tag's target over the tag.
    for name in (wanted[0], *reversed(wanted[1:])):
        if name in tips:
            return tips[name]
    if repo.branch:
        raise _no_branch(
            repo, _remote(access, repo.url, "ls-remote", "--heads", "--tags", "--", repo.url)
        )
    raise BundleError(f"{redacted(repo.url)} has no commit yet", hint="push one, or name a branch")


def tips_in(listed: bytes) -> dict[str, str]:
    """Return commits by name from the output of `git ls-remote`; malformed lines are skipped."""
    rows = (line.partition("\t") for line in listed.decode(errors="replace").splitlines())
    return {name: commit for commit, tab, name in rows if tab and _COMMIT.fullmatch(commit)}


def _no_branch(repo: GitRepo, listed: Answer) -> BundleError:
    """Return the error for a missing branch, with the nearest of the branches `listed`."""
    names = re.findall(r"\srefs/(?:heads|tags)/(\S+?)(?:\^\{\})?$", _text(listed), re.MULTILINE)
    near = difflib.get_close_matches(repo.branch, names, n=1)
    return BundleError(
        f"{redacted(repo.url)} has no branch or tag {repo.branch!r}",
        hint=f"did you mean {near[0]}?" if near else "push it first, or correct it",
    )


def _find_commit(repo: GitRepo, access: Access) -> str:
    with tempfile.TemporaryDirectory(prefix="bastion-git-") as folder:
        bare = Path(folder)
        is_full = len(repo.commit) in (40, 64)
        if is_full and not repo.branch and (commit := _fetch_one(repo, bare / "one", access)):
            return commit
        return _find_in_history(repo, bare / "all", access)


def _fetch_one(repo: GitRepo, bare: Path, access: Access) -> str:
    """Fetch the commit by its hash if the remote permits; some only serve tips."""
    _local(bare.parent, "init", "--quiet", "--bare", str(bare))
    answer = _remote(
        access, repo.url, "-C", str(bare), "fetch", "--quiet", "--depth=1", "--no-tags",
        "--filter=tree:0", "--", repo.url, repo.commit,
    )  # fmt: skip
    return "" if answer.code else _text(_local(bare, "rev-parse", "FETCH_HEAD^{commit}"))


def _find_in_history(repo: GitRepo, bare: Path, access: Access) -> str:
    """Search all commits, without fetching their files."""
    answer = _remote(
        access, repo.url, "clone", "--quiet", "--bare", "--filter=tree:0", "--", repo.url, str(bare)
    )
    if answer.code:
        raise refusal(answer, repo.url)
    shown = f"commit {repo.commit} of {redacted(repo.url)}"
    found = _local(bare, "rev-parse", "--verify", f"{repo.commit}^{{commit}}")
    if "ambiguous" in found.errors:
        raise BundleError(f"{shown} is ambiguous", hint="give more of its digits")
    if found.code:
        raise BundleError(f"{shown} does not exist", hint="push it first, or correct it")
    commit = _text(found)
    if repo.branch:
        tip = _text(_local(bare, "rev-parse", "--verify", "--quiet", f"{repo.branch}^{{commit}}"))
        if not tip:
            raise _no_branch(repo, _local(bare, "show-ref"))
        if _local(bare, "merge-base", "--is-ancestor", commit, tip).code:
            raise BundleError(
                f"{shown} is not on the branch {repo.branch!r}", hint="leave the branch out"
            )
    return commit


def _remote(access: Access, url: str, *arguments: str) -> Answer:
    return run_git(arguments, timeout_s=access.timeout_s, environment=access.environment(url))


def _local(folder: Path, *arguments: str) -> Answer:
    quiet = {"GIT_OPTIONAL_LOCKS": "0", "GIT_NO_LAZY_FETCH": "1"}
    return run_git(arguments, folder=folder, timeout_s=_LOCAL_S, environment=quiet)


def _text(answer: Answer) -> str:
    return "" if answer.code else answer.out.decode(errors="replace").strip()
