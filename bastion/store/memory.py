"""
`MemoryStore`: a store in a dictionary; `FaultyStore`: any store with injected faults.

Tests and the simulation use it. It follows every rule of the port, and one more of folders: no key
is both an object and a folder of others, so a layout that a local store could not hold fails here
too.
"""

from __future__ import annotations

import threading
from bisect import bisect_left, bisect_right, insort
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from enum import Enum
from typing import Literal, TypeAlias

from bastion.errors import (
    BastionError,
    ConflictError,
    NotFoundError,
    OversizeError,
    StoreError,
    StoreRefusedError,
)
from bastion.store.keys import checked, checked_prefix
from bastion.store.port import READ_LIMIT_BYTES, Entry, Object, ObjectStore, Version, Written


class MemoryStore:
    """
    Objects in this process's memory, for many threads.

    Args:
        now: The store's clock, in seconds since 1970. The store never lets it go back.
    """

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self._lock = threading.Lock()
        self._objects: dict[str, Object] = {}
        self._keys: list[str] = []
        self._writes = 0
        self._latest = 0.0

    def read(
        self, key: str, *, unless: Version | None = None, limit_bytes: int = READ_LIMIT_BYTES
    ) -> Object | None:
        """See the port."""
        with self._lock:
            found = self._objects.get(checked(key))
        if found is None:
            raise NotFoundError(f"no object at {key!r}")
        if found.version == unless:
            return None
        if len(found.data) > limit_bytes:
            raise OversizeError(key, limit_bytes=limit_bytes)
        return found

    def date(self) -> float | None:
        """See `bastion.store.date.Dated`."""
        return self._now()

    def create(self, key: str, data: bytes) -> Written:
        """See the port; refuses a key that is a folder of others, or lies inside an object."""
        with self._lock:
            if checked(key) in self._objects:
                raise ConflictError(f"there is an object at {key!r}")
            self._refuse_nesting(key)
            insort(self._keys, key)
            return self._put(key, data)

    def swap(self, key: str, data: bytes, *, if_version: Version) -> Written:
        """See the port."""
        with self._lock:
            found = self._objects.get(checked(key))
            if found is None or found.version != if_version:
                raise ConflictError(f"the object at {key!r} is no longer at version {if_version}")
            return self._put(key, data)

    def delete(self, key: str) -> None:
        """See the port."""
        with self._lock:
            if self._objects.pop(checked(key), None) is not None:
                del self._keys[bisect_left(self._keys, key)]

    def list(self, prefix: str, *, start_after: str = "", limit: int = 1000) -> tuple[Entry, ...]:
        """See the port."""
        checked_prefix(prefix)
        found: list[Entry] = []
        with self._lock:
            at = max(bisect_left(self._keys, prefix), bisect_right(self._keys, start_after))
            while len(found) < limit and at < len(self._keys):
                key = self._keys[at]
                if not key.startswith(prefix):
                    break
                found.append(_entry(key, self._objects[key]))
                at += 1
        return tuple(found)

    def _put(self, key: str, data: bytes) -> Written:
        self._writes += 1
        self._latest = max(self._latest, self._now())
        version = Version(str(self._writes))
        self._objects[key] = Object(data=bytes(data), version=version, modified_at=self._latest)
        return Written(version=version, modified_at=self._latest)

    def _refuse_nesting(self, key: str) -> None:
        at = bisect_left(self._keys, key + "/")
        nested = [other for other in self._keys[at : at + 1] if other.startswith(key + "/")]
        parts = key.split("/")
        above = ("/".join(parts[:n]) for n in range(1, len(parts)))
        nested += [other for other in above if other in self._objects]
        if nested:
            raise StoreRefusedError(
                f"{key!r} cannot be written beside {nested[0]!r}: no key may be both an object and "
                "a folder of others"
            )


def _entry(key: str, found: Object) -> Entry:
    return Entry(
        key=key, version=found.version, size=len(found.data), modified_at=found.modified_at
    )


Operation: TypeAlias = Literal["read", "create", "swap", "delete", "list"]
"""The five operations of a store."""


class Fault(Enum):
    """The faults that an operation can have."""

    BEFORE = "nothing is done, and the caller is told that it is in doubt"
    AFTER = "it is done, but the answer is lost"


class FaultyStore:
    """
    Another store with injected faults; it counts all operations, faulty ones included.

    A fault is always a `StoreError`: no store invents a conflict, so this one does not either.

    Args:
        store: The store that does the work.
        faults: Called once per operation with its name and its key or prefix; returns the fault.
    """

    def __init__(
        self, store: ObjectStore, faults: Callable[[Operation, str], Fault | None]
    ) -> None:
        self._store = store
        self._faults = faults
        self.counts: Counter[Operation] = Counter()

    def read(
        self, key: str, *, unless: Version | None = None, limit_bytes: int = READ_LIMIT_BYTES
    ) -> Object | None:
        """See the port."""
        with self._asked("read", key):
            return self._store.read(key, unless=unless, limit_bytes=limit_bytes)

    def create(self, key: str, data: bytes) -> Written:
        """See the port."""
        with self._asked("create", key):
            return self._store.create(key, data)

    def swap(self, key: str, data: bytes, *, if_version: Version) -> Written:
        """See the port."""
        with self._asked("swap", key):
            return self._store.swap(key, data, if_version=if_version)

    def delete(self, key: str) -> None:
        """See the port."""
        with self._asked("delete", key):
            self._store.delete(key)

    def list(self, prefix: str, *, start_after: str = "", limit: int = 1000) -> tuple[Entry, ...]:
        """See the port."""
        with self._asked("list", prefix):
            return self._store.list(prefix, start_after=start_after, limit=limit)

    @contextmanager
    def _asked(self, operation: Operation, key: str) -> Iterator[None]:
        self.counts[operation] += 1
        fault = self._faults(operation, key)
        unanswered = StoreError(f"{operation} of {key!r} was never answered")
        if fault is Fault.BEFORE:
            raise unanswered
        try:
            yield
        except BastionError:
            if fault is Fault.AFTER:
                raise unanswered from None
            raise
        if fault is Fault.AFTER:
            raise unanswered
