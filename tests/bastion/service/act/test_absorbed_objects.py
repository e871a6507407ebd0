"""The end of objects in the inbox, under a bucket that refuses."""

from __future__ import annotations

import pytest

from bastion.clock import VirtualClock
from bastion.errors import StoreError, StoreRefusedError
from bastion.records.keys import layout
from bastion.records.requests.inbox import Misplaced
from bastion.service.act.absorbed_objects import DELETE_AGAIN_S, AbsorbedObjects
from bastion.store import Object, Version, Written
from bastion.store.memory import MemoryStore
from bastion.store.port import READ_LIMIT_BYTES
from tests.rigs.wrapped import Wrapped

KEY = "inbox/blue/ann/odd"


class Refusing(Wrapped):
    """A store that refuses one operation while `refused` names it."""

    refused = ""

    def read(
        self, key: str, *, unless: Version | None = None, limit_bytes: int = READ_LIMIT_BYTES
    ) -> Object | None:
        """See the port."""
        if self.refused == "read" and key == KEY:
            raise StoreRefusedError(f"{key} was not read: forbidden")
        return super().read(key, unless=unless, limit_bytes=limit_bytes)

    def create(self, key: str, data: bytes) -> Written:
        """See the port."""
        if self.refused == "create":
            raise StoreRefusedError(f"{key} was not written: forbidden")
        return super().create(key, data)


@pytest.mark.parametrize(
    ("refused", "kept"),
    [
        ("create", b"what a user wrote"),
        ("read", f"{KEY}: 17 bytes, not readable: {KEY} was not read: forbidden\n".encode()),
    ],
)
def test_only_an_object_that_is_not_returned_is_set_aside_without_its_bytes(
    refused: str, kept: bytes
) -> None:
    """If the bastion may not write under `state/aside/` for a while, the object stays."""
    clock = VirtualClock()
    store = Refusing(MemoryStore(clock.wall))
    store.create(KEY, b"what a user wrote")
    absorbed = AbsorbedObjects(store, clock)
    (entry,) = store.list(KEY)
    absorbed.add((), (), [Misplaced(entry=entry, why="no request")])
    store.refused = refused
    for turn in range(10):
        store.refused = refused if turn < 8 else ""
        for key, work in list(absorbed.works(())):
            try:
                work()
            except StoreError as error:
                absorbed.failed(key, error)
            else:
                absorbed.deleted(key)
        clock.advance(DELETE_AGAIN_S[1])
    found = store.read(layout.aside(KEY))
    assert found is not None
    assert found.data == kept
    assert store.list(KEY) == ()
