"""
The port to the store of bundles: three methods, independent of where keys live.

Keys are relative (`manifests/<digest>`, `packs/<digest>`); the caller adds its own prefix. Methods
are called from several threads at once. The bundler passes an adapter's own errors on.
"""

from __future__ import annotations

from typing import Protocol


class Blobs(Protocol):
    """Create-only storage of named bytes."""

    def read(self, key: str) -> bytes | None:
        """Return the bytes at `key`, or None if there is no object."""
        ...

    def create(self, key: str, data: bytes) -> bool:
        """
        Write `data` if there is no object at `key`; return False if there is one.

        The adapter may repeat a write in doubt: keys name their content, so both writes are equal.
        """
        ...

    def exists(self, key: str) -> bool:
        """Whether there is an object at `key`."""
        ...


def manifest_key(digest: str) -> str:
    """Return the key of the manifest of the tree `digest`."""
    return f"manifests/{digest}"


def pack_key(digest: str) -> str:
    """Return the key of the pack with this digest."""
    return f"packs/{digest}"
