"""
Writing a process's log: create-only segments, named by the offset of their first byte.

    <prefix>000000000000.log      the first bytes
    <prefix>000000000113.log      what came after the first 113

A gap or an overlap cannot hide, and the next name is always known: following is reading it.
The bytes between two offsets never change, so whoever writes a segment writes the same; one that
stands already, longer or shorter than ours, is compared and counts as written.

This file must not know jobs or keys: it is handed a prefix.
"""

from __future__ import annotations

from bastion.errors import BastionError, ConflictError, OversizeError
from bastion.store.port import ObjectStore

SEGMENT_BYTES = 1 << 20
"""The most one segment holds: a flood is sent in pieces that need little memory."""

_DIGITS = 12
_SUFFIX = ".log"


class LogMismatchError(BastionError):
    """A segment stands that holds other bytes than this log: nothing more may be written to it."""


def segment_key(prefix: str, offset: int) -> str:
    """The name of the segment that begins at `offset`."""
    return f"{prefix}{offset:0{_DIGITS}d}{_SUFFIX}"


def offset_of(key: str) -> int | None:
    """The offset in a segment's name, or None when `key` is no segment's."""
    name = key.rpartition("/")[2]
    digits = name.removesuffix(_SUFFIX)
    return int(digits) if name.endswith(_SUFFIX) and digits.isdecimal() else None


def write_segment(store: ObjectStore, prefix: str, offset: int, data: bytes) -> int:
    """
    Write `data`, which stands at `offset` of the log, and return the offset up to which it stands.

    That is not always `offset + len(data)`: where an earlier writer's segment stands, it is the
    end of that one, which may be shorter or longer.

    Raises:
        LogMismatchError: Another log's bytes stand there.
        StoreError: In doubt; try again.
    """
    key = segment_key(prefix, offset)
    try:
        store.create(key, data)
    except ConflictError:
        try:
            standing = store.read(key, limit_bytes=2 * SEGMENT_BYTES)
        except OversizeError as error:
            raise LogMismatchError(f"{key}: stands with bytes that are not this log's") from error
        assert standing is not None
        common = min(len(standing.data), len(data))
        if not standing.data or standing.data[:common] != data[:common]:
            raise LogMismatchError(
                f"{key}: stands with {len(standing.data)} bytes that are not this log's"
            ) from None
        return offset + len(standing.data)
    return offset + len(data)


def shipped_bytes(store: ObjectStore, prefix: str) -> int:
    """
    Up to where the log at `prefix` stands without a gap.

    Raises:
        StoreError: Out of reach.
    """
    end, last = 0, ""
    while entries := store.list(prefix, start_after=last):
        for entry in entries:
            if offset_of(entry.key) != end:
                return end
            end += entry.size
        last = entries[-1].key
    return end
