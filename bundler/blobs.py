"""
The port to whatever holds bundles: three methods, and no opinion on where keys live.

Keys are relative (`manifests/<digest>`, `packs/<digest>`); the caller puts its own prefix before
them. Methods are called from several threads at once. An adapter's own errors pass through the
bundler untouched, so that a caller meets the errors of the store it handed in.
"""

from __future__ import annotations

from typing import Protocol


class Blobs(Protocol):
    """Create-only storage of named bytes."""

    def read(self, key: str) -> bytes | None:
        """The bytes at `key`; None when there is nothing."""
        ...

    def create(self, key: str, data: bytes) -> bool:
        """
        Write `data` at `key` where nothing may be yet; False when something is there already.

        An answer in doubt may be tried again by the adapter: keys name their content, so a write
        that landed twice has written the same.
        """
        ...

    def exists(self, key: str) -> bool:
        """Whether there is an object at `key`."""
        ...


def manifest_key(digest: str) -> str:
    """Where the manifest of the tree `digest` lies."""
    return f"manifests/{digest}"


def pack_key(digest: str) -> str:
    """Where the pack whose bytes hash to `digest` lies."""
    return f"packs/{digest}"
