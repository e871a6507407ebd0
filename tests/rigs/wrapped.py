"""A store that behaves like another one: the basis of mutants and faults."""

from __future__ import annotations

from bastion.store.port import READ_LIMIT_BYTES, Entry, Object, ObjectStore, Version, Written


class Wrapped:
    """Passes everything to another store; subclasses spoil one operation."""

    def __init__(self, store: ObjectStore) -> None:
        self._store = store

    def read(
        self, key: str, *, unless: Version | None = None, limit_bytes: int = READ_LIMIT_BYTES
    ) -> Object | None:
        """See the port."""
        return self._store.read(key, unless=unless, limit_bytes=limit_bytes)

    def create(self, key: str, data: bytes) -> Written:
        """See the port."""
        return self._store.create(key, data)

    def swap(self, key: str, data: bytes, *, if_version: Version) -> Written:
        """See the port."""
        return self._store.swap(key, data, if_version=if_version)

    def delete(self, key: str) -> None:
        """See the port."""
        self._store.delete(key)

    def list(self, prefix: str, *, start_after: str = "", limit: int = 1000) -> tuple[Entry, ...]:
        """See the port."""
        return self._store.list(prefix, start_after=start_after, limit=limit)
