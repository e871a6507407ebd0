"""Actors that cannot reach the store for a while, each independently."""

from __future__ import annotations

from bastion.errors import StoreError
from bastion.store.port import READ_LIMIT_BYTES, Entry, Object, ObjectStore, Version, Written
from tests.rigs.wrapped import Wrapped
from tests.simulation.baton import Baton


class CutOff:
    """
    The actors that cannot reach the store now.

    Args:
        why: The error of their calls.
    """

    def __init__(self, baton: Baton, why: str) -> None:
        self._baton = baton
        self._why = why
        self.actors: set[str] = set()

    def of(self, store: ObjectStore) -> ObjectStore:
        """Return `store` as the running actor reaches it."""
        return _Reached(store, self)

    def check(self) -> None:
        """
        Raise unless the running actor can reach the store.

        Raises:
            StoreError: It cannot.
        """
        if self._baton.actor in self.actors:
            raise StoreError(f"the store is out of reach: {self._why}")


class _Reached(Wrapped):
    def __init__(self, store: ObjectStore, cut: CutOff) -> None:
        super().__init__(store)
        self._cut = cut

    def read(
        self, key: str, *, unless: Version | None = None, limit_bytes: int = READ_LIMIT_BYTES
    ) -> Object | None:
        """See the port."""
        self._cut.check()
        return super().read(key, unless=unless, limit_bytes=limit_bytes)

    def create(self, key: str, data: bytes) -> Written:
        """See the port."""
        self._cut.check()
        return super().create(key, data)

    def list(self, prefix: str, *, start_after: str = "", limit: int = 1000) -> tuple[Entry, ...]:
        """See the port."""
        self._cut.check()
        return super().list(prefix, start_after=start_after, limit=limit)
