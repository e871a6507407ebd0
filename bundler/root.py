"""The root of a tree."""

from __future__ import annotations

import os
from pathlib import Path

from bundler.errors import BundleError

MARKERS = (".git", "pyproject.toml", "requirements.txt")
"""Files at the top of a tree of code; one of them is enough."""


def find_root(start: Path) -> Path:
    """
    Return the nearest folder from `start` upward that has a marker, or is the top of a job's code.

    Raises:
        BundleError: No folder up to `/` has one.
    """
    start = start.resolve()
    own = _code_of_this_job()
    for folder in (start, *start.parents):
        if folder == own or any((folder / marker).exists() for marker in MARKERS):
            return folder
    raise BundleError(
        f"no root of a tree of code at or above {start}: none holds {', '.join(MARKERS)}",
        hint="name its top: bastion bundle FOLDER, --code=FOLDER, LocalDir(FOLDER), of an image"
        " its context; or put a pyproject.toml there",
    )


def find_git_top(root: Path) -> Path | None:
    """Return the nearest top of a git working tree from `root` upward, or None."""
    own = _code_of_this_job()
    for folder in (root, *root.parents):
        if (folder / ".git").exists():
            return folder
        if folder == own:
            return None
    return None


def _code_of_this_job() -> Path | None:
    """
    Return the top of the code of the job that this process belongs to, if it is one's.

    A bundle has no `.git`, and a repository above is not the job's: a bastion that was tried beside
    some code has the folders of its machines in there.
    """
    marks = os.environ.get("BASTION_MARKS_DIR")
    return Path(marks, "code").resolve() if marks else None
