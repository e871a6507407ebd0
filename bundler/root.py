"""The root of a tree."""

from __future__ import annotations

from pathlib import Path

from bundler.errors import BundleError

MARKERS = (".git", "pyproject.toml", "requirements.txt")
"""Files at the top of a tree of code; one of them is enough."""


def find_root(start: Path) -> Path:
    """
    Return the nearest folder from `start` upward that has a marker.

    Raises:
        BundleError: No folder up to `/` has one.
    """
    start = start.resolve()
    for folder in (start, *start.parents):
        if any((folder / marker).exists() for marker in MARKERS):
            return folder
    raise BundleError(
        f"no root of a tree of code at or above {start}: none holds {', '.join(MARKERS)}",
        hint="name its top: bastion bundle FOLDER, --code=FOLDER, LocalDir(FOLDER), of an image"
        " its context; or put a pyproject.toml there",
    )


def find_git_top(root: Path) -> Path | None:
    """Return the nearest top of a git working tree from `root` upward, or None."""
    for folder in (root, *root.parents):
        if (folder / ".git").exists():
            return folder
    return None
