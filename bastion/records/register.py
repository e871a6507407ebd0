"""
Write-once registers: the second of the two conditional writes (the other is `records.root`).

`win` writes a record that carries a `write_id`, and reads back before it concludes anything from a
failure: a conflict may be our own earlier write, whose answer was lost.
"""

from __future__ import annotations

from typing import Generic, Protocol, TypeVar

from bastion.errors import ConflictError, NotFoundError, OversizeError, StoreError
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
    """The register holds the record of another writer, for ever."""

    record: _R


def win(store: ObjectStore, key: str, record: _R) -> Won[_R] | Lost[_R]:
    """
    Write `record` at `key` unless a record is there, and return which of the two it is.

    Raises:
        StoreError: In doubt. The caller tries again with the identical record, never another.
        RecordError: As by `look`.
    """
    try:
        store.create(key, encode(record))
    except (ConflictError, StoreError) as failure:
        standing = look(store, key, type(record))
        if standing is None:
            raise StoreError(f"{key}: in doubt whether it was written: {failure}") from failure
        return Won(record=record) if standing.write_id == record.write_id else Lost(record=standing)
    return Won(record=record)


def look(store: ObjectStore, key: str, kind: type[_R]) -> _R | None:
    """
    Return the record of the register at `key`, or None while it is not written.

    Raises:
        StoreError: Out of reach.
        ForeignRecordError: Another version of Bastion wrote it. It is won, and nothing more may be
            concluded here.
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
        StoreError: In doubt; try again.
    """
    try:
        return store.create(key, data)
    except (ConflictError, StoreError) as failure:
        try:
            found = store.read(key, limit_bytes=len(data))
        except NotFoundError:
            raise StoreError(f"{key}: in doubt whether it was written: {failure}") from failure
        except OversizeError:
            raise ConflictError(f"{key} stands with more bytes than ours") from failure
        assert found is not None
        if found.data != data:
            raise ConflictError(f"{key} stands with other bytes than ours") from failure
        return None


def create_anew(store: ObjectStore, key: str, data: bytes) -> None:
    """
    Delete what stands at `key`, whose bytes are kept elsewhere, and create it with `data`.

    It is never swapped: where a bucket's policy enforces that keys are create-only, not even the
    bastion may replace an object. Killed in between, it is created by the next that writes it.

    Raises:
        ConflictError: Another writer was faster, with other bytes.
        StoreError: Out of reach or in doubt; try again.
    """
    store.delete(key)
    create_same(store, key, data)
