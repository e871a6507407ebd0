"""The mark of a key: the name of a temporary file, which shows the folders of its object."""

from __future__ import annotations

import zlib

DEPTH = 3
"""Folders of a key that its mark covers, such as `instructions/<pool>/<machine>`."""
NAME_CHARACTERS = 20
"""Characters of the first folder in a mark: file names have a limit."""


def mark_of(key: str) -> str:
    """Return the part of the temporary file's name for `key` that shows its folders."""
    parts = key.split("/")[:-1][:DEPTH]
    first = parts[0][:NAME_CHARACTERS] if parts else ""
    return f"{first}-{zlib.crc32('/'.join(parts).encode()):08x}"
