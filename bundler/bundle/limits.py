"""The limits of a bundle, and the refusal that names the largest files."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from bundler.errors import BundleError
from bundler.size import show_size

LARGE_BYTES = 100 << 20
"""A bundle that sends more is reported: it probably contains data that was not meant to be sent."""
MAX_ENTRIES = 1_000_000
"""Files, links and empty folders per bundle; reading such a manifest takes about 100 MB."""


def refuse_oversize(files: Sequence[tuple[str, int]], *, root: Path, limit_bytes: int) -> None:
    """
    Return if `files` (path and size in bytes) are within the limits.

    Raises:
        BundleError: They are too many or too large; the largest files and top folders are named.
    """
    if len(files) > MAX_ENTRIES:
        raise BundleError(
            f"{root} holds {len(files)} files, more than {MAX_ENTRIES}; {_fullest(files)}",
            hint="leave folders out by a line in .bastionignore",
        )
    total_bytes = sum(size for _, size in files)
    if total_bytes > limit_bytes:
        largest = sorted(files, key=lambda file: (-file[1], file[0]))[:5]
        shown = ", ".join(f"{path} ({show_size(size)})" for path, size in largest)
        raise BundleError(
            f"{root} holds {show_size(total_bytes)}, more than max_size {show_size(limit_bytes)}; "
            f"the largest files are {shown}; {_fullest(files)}",
            hint="leave data and results out by a line in .bastionignore, or raise max_size:"
            " --bundler_spec=max_size=2GiB, or LocalDir(max_size='2GiB')",
        )


def told_large(files: Sequence[tuple[str, int]], *, sent_bytes: int) -> str:
    """Return a warning that names the largest of `files`, which were sent."""
    largest = sorted(files, key=lambda file: (-file[1], file[0]))[:3]
    shown = ", ".join(f"{path} ({show_size(size)})" for path, size in largest)
    return (
        f"{show_size(sent_bytes)} of code was sent; the largest files are {shown}; to leave data"
        " out, name it in .bastionignore"
    )


def _fullest(files: Sequence[tuple[str, int]]) -> str:
    weights: Counter[str] = Counter()
    for path, size in files:
        if "/" in path:
            weights[path.split("/")[0] + "/"] += max(size, 1)
    shown = ", ".join(f"{name} ({show_size(size)})" for name, size in weights.most_common(3))
    return f"the largest folders are {shown}" if shown else "it has no folders"
