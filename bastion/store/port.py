"""
The port to the object store: five operations that every supported store has.

Every adapter follows these rules, and `tests/contracts/` checks them:

* A key is relative, `/`-separated, without `.`, `..`, empty parts or control characters.
* No key is both an object and a folder of others (`a` and `a/b`): our layout needs no such keys.
  Folders and the memory refuse them with `StoreRefusedError`; buckets cannot.
* An object is complete or missing; a reader sees the old bytes or the new, never a mix.
* `create` and `swap` succeed for one contender only. They are tried once: no adapter retries.
* `ConflictError` says only that the precondition failed. An earlier try of the same write may have
  landed and caused that, so only `bastion.records` may draw conclusions, after reading back.
* `StoreError` says nothing about the result: the write may have landed, or may land later. Its
  `retry_after_s` is how long the store asks to wait.
* A read receives at most `limit_bytes`, even if a list or a header gives another size.
* A list shows everything written before it started, and omits names that are not keys.
* `modified_at` is the store's own clock, the only time that two machines may compare.
"""

from __future__ import annotations

from typing import NewType, Protocol

from bastion.errors import NotFoundError, OversizeError, StoreError
from bastion.value import value

Version = NewType("Version", str)
"""Opaque name of one state of one object, to be compared for equality only."""


READ_LIMIT_BYTES = 256 << 20
"""Limit of a read that names none: above every object that Bastion itself writes."""


@value
class Entry:
    """One object in a list."""

    key: str
    version: Version
    size: int
    """Bytes."""
    modified_at: float
    """Seconds since 1970 on the store's clock."""


@value
class Object:
    """The bytes of an object and their version."""

    data: bytes
    version: Version
    modified_at: float
    """Seconds since 1970 on the store's clock."""


@value
class Written:
    """The result of a successful write."""

    version: Version
    modified_at: float
    """Seconds since 1970 on the store's clock."""


class ObjectStore(Protocol):
    """A bucket, or a folder that behaves like one."""

    def read(
        self, key: str, *, unless: Version | None = None, limit_bytes: int = READ_LIMIT_BYTES
    ) -> Object | None:
        """
        Read the object at `key`; None if its version is still `unless`.

        Raises:
            NotFoundError: There is no such object.
            OversizeError: It is larger than `limit_bytes`; the rest is not received.
            StoreError: The store is unreachable.
        """
        ...

    def create(self, key: str, data: bytes) -> Written:
        """
        Write `data` at `key` if there is no object yet.

        Raises:
            ConflictError: There is an object at `key`.
            StoreError: The store is unreachable, or the result is in doubt.
        """
        ...

    def swap(self, key: str, data: bytes, *, if_version: Version) -> Written:
        """
        Replace the object at `key` if it is still at `if_version`.

        Raises:
            ConflictError: It is at another version, or gone.
            StoreError: The store is unreachable, or the result is in doubt.
        """
        ...

    def delete(self, key: str) -> None:
        """
        Remove the object at `key`; a missing object is no error.

        Raises:
            StoreError: The store is unreachable, or the result is in doubt.
        """
        ...

    def list(self, prefix: str, *, start_after: str = "", limit: int = 1000) -> tuple[Entry, ...]:
        """
        Return the first `limit` objects whose key starts with `prefix` and sorts after
        `start_after`.

        Keys are sorted by their UTF-8 bytes. Fewer than `limit` entries mean that there are no
        more.

        Raises:
            StoreError: The store is unreachable.
        """
        ...


def stands(store: ObjectStore, key: str) -> bool:
    """Whether there certainly is an object at `key`, whose bytes are not received."""
    try:
        store.read(key, limit_bytes=0)
    except OversizeError:
        return True
    except (NotFoundError, StoreError):
        return False
    return True
