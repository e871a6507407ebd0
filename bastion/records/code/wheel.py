"""The wheel of a build in the bucket, from which new machines install it."""

from __future__ import annotations

from contextlib import suppress

from bastion.errors import ConflictError
from bastion.records.keys import layout
from bastion.store.port import ObjectStore


def ensure_wheel(store: ObjectStore, digest: str, name: str, data: bytes) -> str:
    """
    Return the key of a wheel once it is in the bucket; it is named by its digest.

    Raises:
        StoreError: The bucket is out of reach, or did not accept the wheel; call it again.
    """
    key = layout.wheel(digest, name)
    if not any(entry.key == key for entry in store.list(layout.folder_of(key), limit=1)):
        with suppress(ConflictError):  # another program of this build wrote the same bytes
            store.create(key, data)
    return key
