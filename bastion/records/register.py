"""
Write-once registers: the second of the two conditional writes (the other is `records.root`).

`win` writes a record that carries a `write_id`, and reads back before it concludes anything from a
failure: a conflict may be our own earlier write whose response was lost.
"""

from __future__ import annotations

from typing import Generic, Protocol, TypeVar

from bastion.errors import (
    BastionError,
    ConflictError,
    NotFoundError,
    OversizeError,
    StoreError,
    StoreRefusedError,
)
from bastion.records.coding.codec import decode, encode
from bastion.records.coding.limits import REGISTER_BYTES
from bastion.store import ObjectStore, Written
from bastion.value import value


class Register(Protocol):
    """A record with the id of its write."""

    @property
    def write_id(self) -> str:
        """Fresh for each writer and register."""
        ...


_R = TypeVar("_R", bound=Register)


@value
class Won(Generic[_R]):
    """The register holds our record."""

    record: _R


@value
class Lost(Generic[_R]):
    """The register permanently holds the record of another writer."""

    record: _R


def win(store: ObjectStore, key: str, record: _R) -> Won[_R] | Lost[_R]:
    """
    Write `record` at `key` unless a record is there, and return which of the two happened.

    Raises:
        StoreRefusedError: The store refuses the write, and nothing is there.
        StoreError: In doubt. The caller tries again with the identical record, never another.
        RecordError: As raised by `look`.
    """
    try:
        store.create(key, encode(record))
    except (ConflictError, StoreError) as failure:
        standing = look(store, key, type(record))
        if standing is None:
            raise _unwritten(key, failure) from failure
        return Won(record=record) if standing.write_id == record.write_id else Lost(record=standing)
    return Won(record=record)


def _unwritten(key: str, failure: BastionError) -> StoreError:
    """Return the error for a failed write of which nothing is there: a refusal is not in doubt."""
    if isinstance(failure, StoreRefusedError):
        return failure
    return StoreError(f"{key}: in doubt whether it was written: {failure}")


def look(store: ObjectStore, key: str, kind: type[_R]) -> _R | None:
    """
    Return the record of the register at `key`, or None if it is not written yet.

    Raises:
        StoreError: The bucket is out of reach.
        ForeignRecordError: Another version of Bastion wrote it. The register is won, and nothing
            else can be concluded here.
        RecordError: The object is not such a record.
    """
    try:
        found = store.read(key, limit_bytes=REGISTER_BYTES)
    except NotFoundError:
        return None
    assert found is not None
    return decode(kind, found.data, key=key)


def create_same(store: ObjectStore, key: str, data: bytes) -> Written | None:
    """
    Create `key` with `data`; return None if it exists with the same bytes.

    This is for objects that are a function of committed state: every bastion writes the same bytes.

    Raises:
        ConflictError: It exists with other bytes.
        StoreRefusedError: The store refuses the write, and nothing is there.
        StoreError: In doubt; try again.
    """
    try:
        return store.create(key, data)
    except (ConflictError, StoreError) as failure:
        try:
            found = store.read(key, limit_bytes=len(data))
        except NotFoundError:
            raise _unwritten(key, failure) from failure
        except OversizeError:
            raise ConflictError(f"{key} stands with more bytes than ours") from failure
        assert found is not None
        if found.data != data:
            raise ConflictError(f"{key} stands with other bytes than ours") from failure
        return None


def create_anew(store: ObjectStore, key: str, data: bytes) -> None:
    """
    Delete the object at `key`, whose bytes are kept elsewhere, and create it with `data`.

    It is never swapped: if a bucket's policy enforces that keys are create-only, not even the
    bastion can replace an object. If it is killed in between, the next writer creates the object.

    Raises:
        ConflictError: Another writer was faster, with other bytes.
        StoreError: Out of reach or in doubt; try again.
    """
    store.delete(key)
    create_same(store, key, data)
