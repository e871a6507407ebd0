"""Mutants of what guards against the outside: roots that vanish, objects that cannot be read."""

from __future__ import annotations

from bastion.errors import StoreError, StoreRefusedError
from bastion.records import layout
from bastion.store.memory import MemoryStore
from bastion.store.port import READ_LIMIT_BYTES, Entry, Object, ObjectStore, Version, Written
from tests.simulation.away import AwayError
from tests.simulation.processes import Parts
from tests.simulation.wrapped import Wrapped


class MakesAnew(Wrapped):
    """Where the folder of the bucket is gone, another one is made, and is the bucket meanwhile."""

    def __init__(self, store: ObjectStore) -> None:
        super().__init__(store)
        self._anew = MemoryStore(lambda: 0.0)

    def read(
        self, key: str, *, unless: Version | None = None, limit_bytes: int = READ_LIMIT_BYTES
    ) -> Object | None:
        """See the port."""
        try:
            return super().read(key, unless=unless, limit_bytes=limit_bytes)
        except AwayError:
            return self._anew.read(key, unless=unless, limit_bytes=limit_bytes)

    def create(self, key: str, data: bytes) -> Written:
        """See the port."""
        try:
            return super().create(key, data)
        except AwayError:
            return self._anew.create(key, data)

    def list(self, prefix: str, *, start_after: str = "", limit: int = 1000) -> tuple[Entry, ...]:
        """See the port."""
        try:
            return super().list(prefix, start_after=start_after, limit=limit)
        except AwayError:
            return self._anew.list(prefix, start_after=start_after, limit=limit)


class SaysWritten(Wrapped):
    """What was to be created while the folder of the bucket is gone is said to be."""

    def create(self, key: str, data: bytes) -> Written:
        """See the port."""
        try:
            return super().create(key, data)
        except AwayError:
            return Written(version=Version("none"), modified_at=0.0)


class RefusalIsOutage(Wrapped):
    """That the store does not give an object is taken for an outage, which passes."""

    def read(
        self, key: str, *, unless: Version | None = None, limit_bytes: int = READ_LIMIT_BYTES
    ) -> Object | None:
        """See the port."""
        try:
            return super().read(key, unless=unless, limit_bytes=limit_bytes)
        except StoreRefusedError as error:
            raise StoreError(error.message) from error


class OneForAll(Wrapped):
    """After an object that cannot be read, the store is held to be out of reach."""

    def __init__(self, store: ObjectStore) -> None:
        super().__init__(store)
        self._is_refused = False

    def read(
        self, key: str, *, unless: Version | None = None, limit_bytes: int = READ_LIMIT_BYTES
    ) -> Object | None:
        """See the port."""
        if self._is_refused and key == layout.QUOTA:
            self._is_refused = False
            raise StoreError("the store is out of reach")
        try:
            return super().read(key, unless=unless, limit_bytes=limit_bytes)
        except StoreRefusedError:
            self._is_refused = True
            raise


OUTSIDE: dict[str, Parts] = {
    "a missing root is made anew": Parts(agent_store=MakesAnew),
    "what a missing root was told is taken for written": Parts(agent_store=SaysWritten),
    "a refusal passes for an outage": Parts(bastion_store=RefusalIsOutage),
    "one unreadable object stands for the store": Parts(bastion_store=OneForAll),
}
"""By what is missing."""
