"""Where a tree begins."""

from __future__ import annotations

from pathlib import Path

from bundler.errors import BundleError

MARKERS = (".git", "pyproject.toml", "requirements.txt")
"""What lies at the top of a tree of code; any of them will do."""


def find_root(start: Path) -> Path:
    """
    The nearest folder, from `start` upward, in which a marker lies.

    Raises:
        BundleError: There is none up to `/`.
    """
    start = start.resolve()
    for folder in (start, *start.parents):
        if any((folder / marker).exists() for marker in MARKERS):
            return folder
    raise BundleError(
        f"no root of a tree of code at or above {start}: none holds {', '.join(MARKERS)}",
        hint="name its top (root, or the context of an image), or put a pyproject.toml there",
    )


def find_git_top(root: Path) -> Path | None:
    """The nearest folder, from `root` upward, that is the top of a git working tree."""
    for folder in (root, *root.parents):
        if (folder / ".git").exists():
            return folder
    return None
