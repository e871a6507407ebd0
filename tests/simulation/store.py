"""`SimStore`: the bucket as one actor reaches it, and the notification of each write."""

from __future__ import annotations

from collections.abc import Callable

from bastion.errors import StoreError
from bastion.service.access.grants import Right
from bastion.store.port import READ_LIMIT_BYTES, Entry, Object, ObjectStore, Version, Written
from tests.simulation.baton import Baton
from tests.simulation.fates import Fates
from tests.simulation.port import Port
from tests.simulation.rights import Rights


class SimStore:
    """
    Wraps a store: every call is a step of the running actor.

    Args:
        rights: Which user may do what; None: everything.
        wrote: Called with the operation, key and bytes of every write when it lands.
    """

    def __init__(
        self,
        store: ObjectStore,
        baton: Baton,
        fates: Fates,
        wrote: Callable[[str, str, bytes], None],
        rights: Rights | None = None,
    ) -> None:
        self._store = store
        self._port = Port(baton, fates, StoreError)
        self._wrote = wrote
        self._rights = rights

    def read(
        self, key: str, *, unless: Version | None = None, limit_bytes: int = READ_LIMIT_BYTES
    ) -> Object | None:
        """See the port."""
        self._check(Right.READ, key)

        def work() -> Object | None:
            return self._store.read(key, unless=unless, limit_bytes=limit_bytes)

        return self._port.call("read", key, work)

    def create(self, key: str, data: bytes) -> Written:
        """See the port."""
        self._check(Right.CREATE, key)

        def work() -> Written:
            written = self._store.create(key, data)
            self._wrote("create", key, data)
            return written

        def spoil() -> None:
            self._store.create(key, b"")

        return self._port.call("create", key, work, writes=True, spoil=spoil)

    def swap(self, key: str, data: bytes, *, if_version: Version) -> Written:
        """See the port."""
        self._check(Right.WRITE, key)

        def work() -> Written:
            written = self._store.swap(key, data, if_version=if_version)
            self._wrote("swap", key, data)
            return written

        return self._port.call("swap", key, work, writes=True)

    def delete(self, key: str) -> None:
        """See the port."""
        self._check(Right.WRITE, key)

        def work() -> None:
            self._store.delete(key)
            self._wrote("delete", key, b"")

        self._port.call("delete", key, work, writes=True)

    def list(self, prefix: str, *, start_after: str = "", limit: int = 1000) -> tuple[Entry, ...]:
        """See the port."""
        self._check(Right.READ, prefix)
        return self._port.call(
            "list",
            prefix,
            lambda: self._store.list(prefix, start_after=start_after, limit=limit),
        )

    def _check(self, right: Right, key: str) -> None:
        if self._rights is not None:
            self._rights.check(right, key)
