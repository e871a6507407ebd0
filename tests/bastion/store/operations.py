"""The five operations of a store, and the error of each."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from bastion.errors import (
    StoreError,
)
from bastion.store.port import ObjectStore, Version

OPERATIONS: tuple[Callable[[ObjectStore], object], ...] = (
    lambda store: store.create("a", b"1"),
    lambda store: store.swap("a", b"1", if_version=Version("1")),
    lambda store: store.read("a"),
    lambda store: store.delete("a"),
    lambda store: store.list(""),
)


def failures(store: ObjectStore) -> list[StoreError]:
    """Return the error that each operation raises."""
    found = []
    for operation in OPERATIONS:
        with pytest.raises(StoreError) as caught:
            operation(store)
        found.append(caught.value)
    return found
