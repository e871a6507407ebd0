"""The part of a bucket that holds bundles, behind the bundler's port."""

from __future__ import annotations

from bastion.errors import ConflictError, NotFoundError
from bastion.records.keys import layout
from bastion.store.port import ObjectStore


class Bundles:
    """
    A `bundler.bundle.blobs.Blobs` on the bundles in a bucket.

    Args:
        store: The bucket; its errors are passed on.
    """

    def __init__(self, store: ObjectStore) -> None:
        self._store = store

    def read(self, key: str) -> bytes | None:
        """Return the bytes at `key`, or None if there is no object."""
        try:
            found = self._store.read(layout.BUNDLES + key)
        except NotFoundError:
            return None
        return None if found is None else found.data

    def create(self, key: str, data: bytes) -> bool:
        """Write `data` if there is no object at `key`; return False if there is one."""
        try:
            self._store.create(layout.BUNDLES + key, data)
        except ConflictError:
            return False
        return True

    def exists(self, key: str) -> bool:
        """Whether there is an object at `key`."""
        name = layout.BUNDLES + key
        return any(entry.key == name for entry in self._store.list(name, limit=1))
