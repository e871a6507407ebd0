"""Bundles of a bucket, as the bundler asks for them."""

from __future__ import annotations

from bastion.errors import ConflictError, NotFoundError
from bastion.records import layout
from bastion.store.port import ObjectStore


class Bundles:
    """
    The part of a bucket that holds bundles: a `bundler.blobs.Blobs`.

    Args:
        store: The bucket; its errors reach the caller as they are.
    """

    def __init__(self, store: ObjectStore) -> None:
        self._store = store

    def read(self, key: str) -> bytes | None:
        """The bytes at `key`; None when there is nothing."""
        try:
            found = self._store.read(layout.BUNDLES + key)
        except NotFoundError:
            return None
        return None if found is None else found.data

    def create(self, key: str, data: bytes) -> bool:
        """Write `data` where nothing may be yet; False when something is there already."""
        try:
            self._store.create(layout.BUNDLES + key, data)
        except ConflictError:
            return False
        return True

    def exists(self, key: str) -> bool:
        """Whether there is an object at `key`."""
        name = layout.BUNDLES + key
        return any(entry.key == name for entry in self._store.list(name, limit=1))
