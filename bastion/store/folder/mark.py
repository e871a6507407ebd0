"""The mark of a key: what the name of a temporary file tells of the folders of its object."""

from __future__ import annotations

import zlib

DEPTH = 3
"""Folders of a key that its mark tells, as `instructions/<pool>/<machine>`."""
NAME_CHARACTERS = 20
"""Of the first folder that a mark shows: the name of a file has a limit."""


def mark_of(key: str) -> str:
    """Return what the name of the temporary file for `key` tells of its folders."""
    parts = key.split("/")[:-1][:DEPTH]
    first = parts[0][:NAME_CHARACTERS] if parts else ""
    return f"{first}-{zlib.crc32('/'.join(parts).encode()):08x}"
