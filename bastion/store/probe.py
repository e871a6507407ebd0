"""
`probe`: check that a store enforces preconditions, before anything depends on it.

The whole protocol relies on two preconditions: of several creators one wins, and a swap from a
stale version fails. Some stores accept the headers and ignore them.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable
from contextlib import suppress

from bastion.errors import ConflictError, NotFoundError, StoreError, StoreRefusedError
from bastion.store.port import ObjectStore, Version, Written

_FOLDER = "state/probe/"
"""Under `state/`, where only the bastion may write: the probe checks the needed permissions."""
_OTHER = (
    "use a store with conditional writes: Google Cloud Storage, Amazon S3, Azure Blob Storage or a"
    " folder"
)
_BARE = "if it is an S3 server that wants bare ETags, as Ceph's, add ?etags=bare to the root's URL"


def probe(store: ObjectStore, pause: Callable[[], None] = lambda: None) -> None:
    """
    Check that `store` enforces preconditions; leaves no object behind.

    Args:
        store: The store to check.
        pause: Waits as long as the store requires between two writes of one object.

    Raises:
        StoreRefusedError: It ignores a precondition, which the message names, or refuses access.
        StoreError: It is unreachable.
    """
    key = f"{_FOLDER}{secrets.token_hex(8)}"
    try:
        _probe(store, key, pause)
    except BaseException:
        with suppress(StoreError):
            store.delete(key)
        raise


def _probe(store: ObjectStore, key: str, pause: Callable[[], None]) -> None:
    first = _written(store, key, b"first", lambda: store.create(key, b"first"))
    if first is None:
        raise _ignores("that a name is free", "a create of a new name failed")
    if not _conflicts_on_create(store, key):
        raise _ignores("that a name is free", "a second create of one name succeeded")
    pause()
    second = _written(store, key, b"second", lambda: store.swap(key, b"second", if_version=first))
    if second is None:
        raise _ignores("versions", "a swap from the current version failed", hint=_BARE)
    if not _conflicts_on_swap(store, key, first):
        raise _ignores("versions", "a swap from a stale version succeeded")
    found = store.read(key)
    if found is None or (found.data, found.version) != (b"second", second):
        raise _ignores("what was written", "a read did not return the last write")
    pause()
    store.delete(key)
    if not _conflicts_on_swap(store, key, second):
        raise _ignores("versions", "a swap of a deleted object succeeded")


def _written(
    store: ObjectStore, key: str, data: bytes, write: Callable[[], Written]
) -> Version | None:
    """
    Return the version that `write` created at `key`, or None if the store refused it.

    A conflict is read back: if the network repeats a request, the second copy of our own write is
    refused, and the answer to the first may be lost. No other program uses this key.
    """
    try:
        return write().version
    except ConflictError:
        pass
    try:
        found = store.read(key)
    except NotFoundError:
        return None
    return found.version if found is not None and found.data == data else None


def _conflicts_on_create(store: ObjectStore, key: str) -> bool:
    try:
        store.create(key, b"second creator")
    except ConflictError:
        return True
    return False


def _conflicts_on_swap(store: ObjectStore, key: str, stale: Version) -> bool:
    try:
        store.swap(key, b"stale", if_version=stale)
    except ConflictError:
        return True
    return False


def _ignores(what: str, seen: str, *, hint: str = _OTHER) -> StoreRefusedError:
    return StoreRefusedError(
        f"the store does not keep the precondition on {what}: {seen}", hint=hint
    )
