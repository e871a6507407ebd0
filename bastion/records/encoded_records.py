"""
The encoded bytes of root's many records, kept from one commit to the next.

A commit changes about ten of ten thousand records. Only these are encoded; the bytes of the others
are kept and joined again.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from itertools import compress, count, islice
from operator import is_not
from typing import Any

from bastion.changes import changes
from bastion.records.coding.codec import encode


class EncodedMap:
    """
    The bytes of a map of records by name, in its order. A map is never changed in place.

    Args:
        kept: Which part of a record is encoded; all of it by default.
    """

    def __init__(self, kept: Callable[[Any], object] | None = None) -> None:
        self._kept = kept
        self._records: Mapping[str, object] = {}
        self._texts: dict[str, bytes] = {}
        self._joined = b"{}"

    def of(self, records: Mapping[str, object]) -> bytes:
        """Return `records` as one JSON object, each record on its own line."""
        if records is not self._records:
            self._take_in(records)
            self._joined = b"{%s}" % b",\n".join(self._texts.values())
        return self._joined

    def _take_in(self, records: Mapping[str, object]) -> None:
        gone, come, same = changes(self._records, records)
        # A record that cannot be encoded raises here, before anything is changed.
        kept = self._kept or (lambda record: record)
        new = {name: _line(name, kept(records[name])) for name in come}
        texts = self._texts
        for name in gone:
            if name not in new:
                del texts[name]
        texts.update(new)
        if list(islice(texts, same, None)) != list(islice(records, same, None)):
            self._texts = {name: texts[name] for name in records}
        self._records = records


def _line(name: str, record: object) -> bytes:
    return b"%s:%s" % (json.dumps(name).encode(), encode(record))


class EncodedList:
    """The bytes of consecutive records, to which more are added at the end."""

    def __init__(self) -> None:
        self._records: tuple[object, ...] = ()
        self._texts: list[bytes] = []

    def of(self, records: tuple[object, ...]) -> bytes:
        """Return `records` as one JSON array."""
        both = map(is_not, self._records, records)
        shortest = min(len(self._records), len(records))
        same = next(compress(count(), both), shortest)
        self._texts[same:] = map(encode, records[same:])
        self._records = records
        return b"[%s]" % b",".join(self._texts)
