"""
The port to the object store: five operations, and nothing that only one store can do.

Rules every adapter keeps, and `tests/contracts/` holds them to:

* A key is relative, `/`-separated, without `.`, `..`, empty parts or control characters.
* No key is both an object and a folder of others (`a` and `a/b`): no layout of ours needs it.
  Stores that see it, folders and the memory, refuse it with `StoreRefusedError`; buckets cannot.
* An object is whole or not there; a reader sees the old bytes or the new, never a mix.
* `create` and `swap` succeed for one contender only. They are tried once: no adapter retries.
* `ConflictError` says only that the precondition was seen to fail. It may have failed because an
  earlier try of the same write landed: only `bastion.records` may conclude anything from it, after
  reading back.
* `StoreError` says nothing about what happened: the write may have landed, or may land later. Its
  `retry_after_s` says how long the store wants to be left alone.
* A read receives at most `limit_bytes`, whatever a list or a header says of its size:
  a store may send more than it lists.
* A list shows everything written before it began, and leaves out what has no key's name.
* `modified_at` is the store's own clock; it is the only time that two machines may compare.
"""

from __future__ import annotations

from typing import NewType, Protocol

from bastion.value import value

Version = NewType("Version", str)
"""Opaque name of one state of one object; only equality means anything."""


READ_LIMIT_BYTES = 256 << 20
"""Most bytes of a read that names no limit: above every object that Bastion itself writes."""


@value
class Entry:
    """One object, as a list shows it."""

    key: str
    version: Version
    size: int
    """Bytes."""
    modified_at: float
    """Seconds since 1970 on the store's clock."""


@value
class Object:
    """One object's bytes and the version they are of."""

    data: bytes
    version: Version
    modified_at: float
    """Seconds since 1970 on the store's clock."""


@value
class Written:
    """What a successful write tells."""

    version: Version
    modified_at: float
    """Seconds since 1970 on the store's clock."""


class ObjectStore(Protocol):
    """A bucket, or a folder that behaves like one."""

    def read(
        self, key: str, *, unless: Version | None = None, limit_bytes: int = READ_LIMIT_BYTES
    ) -> Object | None:
        """
        Read the object at `key`; None when its version is still `unless`.

        Raises:
            NotFoundError: There is no such object.
            OversizeError: It holds more than `limit_bytes`; the rest is not received.
            StoreError: Out of reach.
        """
        ...

    def create(self, key: str, data: bytes) -> Written:
        """
        Write `data` at `key`, where nothing may be yet.

        Raises:
            ConflictError: There is an object at `key`.
            StoreError: Out of reach, or in doubt.
        """
        ...

    def swap(self, key: str, data: bytes, *, if_version: Version) -> Written:
        """
        Replace the object at `key`, which must still be at `if_version`.

        Raises:
            ConflictError: It is at another version, or gone.
            StoreError: Out of reach, or in doubt.
        """
        ...

    def delete(self, key: str) -> None:
        """
        Remove the object at `key`; it is no error when there is none.

        Raises:
            StoreError: Out of reach, or in doubt.
        """
        ...

    def list(self, prefix: str, *, start_after: str = "", limit: int = 1000) -> tuple[Entry, ...]:
        """
        The first `limit` objects whose key begins with `prefix` and sorts after `start_after`.

        Keys are sorted by their UTF-8 bytes. Fewer than `limit` entries mean there are no more.

        Raises:
            StoreError: Out of reach.
        """
        ...
