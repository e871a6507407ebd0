"""
The segments of a process's log: create-only, named by the offset of their first byte.

    <prefix>000000000000.log      the first bytes
    <prefix>000000000113.log      the bytes after the first 113

Gaps and overlaps are visible in the names. The next name is always known, so following a log means
reading the next name. The bytes between two offsets never change, so every writer of a segment
writes the same bytes. An existing segment, longer or shorter than ours, is compared and counts as
written.

This module must not know jobs or keys: it gets a prefix.
"""

from __future__ import annotations

from bastion.errors import BastionError, ConflictError, OversizeError
from bastion.store.port import ObjectStore

SEGMENT_BYTES = 1 << 20
"""Largest segment: a flood of output is sent in pieces that need little memory."""

_DIGITS = 12
_SUFFIX = ".log"


class LogMismatchError(BastionError):
    """A segment with different bytes exists, so nothing more may be written."""


def segment_key(prefix: str, offset: int) -> str:
    """Return the key of the segment that begins at `offset`."""
    return f"{prefix}{offset:0{_DIGITS}d}{_SUFFIX}"


def offset_of(key: str) -> int | None:
    """Return the offset in a segment's key, or None if `key` is not a segment's."""
    name = key.rpartition("/")[2]
    digits = name.removesuffix(_SUFFIX)
    return int(digits) if name.endswith(_SUFFIX) and digits.isdecimal() else None


def write_segment(store: ObjectStore, prefix: str, offset: int, data: bytes) -> int:
    """
    Write `data` at `offset` of the log, and return the offset up to which the log is stored.

    That is not always `offset + len(data)`: if an earlier writer's segment exists, it is the end of
    that segment, which may be shorter or longer.

    Raises:
        LogMismatchError: A segment with other bytes exists.
        StoreError: The outcome is unknown; retry.
    """
    key = segment_key(prefix, offset)
    try:
        store.create(key, data)
    except ConflictError:
        try:
            existing = store.read(key, limit_bytes=2 * SEGMENT_BYTES)
        except OversizeError as error:
            raise LogMismatchError(f"{key}: exists with bytes that are not this log's") from error
        assert existing is not None
        common = min(len(existing.data), len(data))
        if not existing.data or existing.data[:common] != data[:common]:
            raise LogMismatchError(
                f"{key}: exists with {len(existing.data)} bytes that are not this log's"
            ) from None
        return offset + len(existing.data)
    return offset + len(data)


def shipped_bytes(store: ObjectStore, prefix: str) -> int:
    """
    Return the size of the log at `prefix` up to its first gap.

    Raises:
        StoreError: Unreachable.
    """
    end, last = 0, ""
    while entries := store.list(prefix, start_after=last):
        for entry in entries:
            if offset_of(entry.key) != end:
                return end
            end += entry.size
        last = entries[-1].key
    return end
