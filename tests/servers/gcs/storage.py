"""
The state: buckets of objects, which are replaced as a whole, one at a time.

Generations are microseconds since 1970, like Google's, and always increase.
"""

from __future__ import annotations

import base64
import hashlib
import struct
import time
from bisect import bisect_left, insort
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import google_crc32c


@dataclass(frozen=True, kw_only=True)
class Blob:
    """One live object."""

    bucket: str
    name: str
    data: bytes
    generation: int
    created_us: int
    updated_us: int
    fields: Mapping[str, Any]
    """The fields that clients may set, as in the resource."""
    metageneration: int = 1
    components: int = 0
    """The number of objects it was composed of; 0 if it was not composed."""

    @property
    def md5(self) -> str:
        """Return Base64 of the MD5 of the data."""
        return base64.b64encode(hashlib.md5(self.data).digest()).decode()

    @property
    def etag(self) -> str:
        """
        Return a protobuf of generation and metageneration, in base64.

        Source: seen in answers of storage.googleapis.com.
        """
        packed = b"\x08" + _varint(self.generation) + b"\x10" + _varint(self.metageneration)
        return base64.b64encode(packed).decode()

    def patched(self, changes: Mapping[str, Any], now_us: int) -> Blob:
        """Return the same data with other fields; None removes one; metadata is merged by key."""
        fields = dict(self.fields)
        if isinstance(changes.get("metadata"), Mapping):
            merged = {**fields.get("metadata", {}), **changes["metadata"]}
            changes = {**changes, "metadata": _without_none(merged) or None}
        fields = _without_none({**fields, **changes})
        return replace(
            self, fields=fields, metageneration=self.metageneration + 1, updated_us=now_us
        )


def _without_none(fields: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in fields.items() if value is not None}


def _varint(number: int) -> bytes:
    packed = b""
    while number > 0x7F:
        packed += bytes([number & 0x7F | 0x80])
        number >>= 7
    return packed + bytes([number])


def crc32c(data: bytes) -> str:
    """Return Base64 of the big-endian CRC32C, as Google writes it."""
    return base64.b64encode(struct.pack(">I", google_crc32c.value(data))).decode()


@dataclass
class Bucket:
    """Live objects by name."""

    name: str
    created_us: int
    blobs: dict[str, Blob] = field(default_factory=dict)
    names: list[str] = field(default_factory=list)
    """Sorted."""
    mutated: dict[str, float] = field(default_factory=dict)
    """The time of each object's last write, on the monotonic clock."""

    def put(self, blob: Blob) -> None:
        """Make `blob` the live object of its name."""
        if blob.name not in self.blobs:
            insort(self.names, blob.name)
        self.blobs[blob.name] = blob

    def remove(self, name: str) -> None:
        """Delete the live object."""
        del self.blobs[name]
        del self.names[bisect_left(self.names, name)]

    def scan(self, start: str, prefix: str) -> Iterator[str]:
        """Yield the names with `prefix` from `start` on, sorted."""
        for at in range(bisect_left(self.names, max(start, prefix)), len(self.names)):
            if not self.names[at].startswith(prefix):
                return
            yield self.names[at]


class Ticks:
    """Microseconds since 1970 that never repeat."""

    def __init__(self) -> None:
        self._last = 0

    def next(self) -> int:
        """Return the current time, or a little later."""
        self._last = max(self._last + 1, time.time_ns() // 1000)
        return self._last
