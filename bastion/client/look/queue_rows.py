"""
The rows of the published queue, parsed only as needed.

The queue is its own index: each row is on its own line, and a line break inside a JSON string is
escaped. So the rows that may be of a job are found by searching the bytes for its name, and ten
thousand others are not parsed. It is one object, so index and rows cannot contradict each other. A
queue in another format, written by an older bastion, is parsed as a whole.
"""

from __future__ import annotations

import json
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from typing import Any

from bastion.client.look.array_views import array_of_row
from bastion.client.look.job_line import JobLine, whole
from bastion.client.look.views import JobView, name_of

_HEAD_END = b'"jobs":['
_ARRAYS = b'],"arrays":['
_ADMITTED = ("stopping", "running", "starting", "draining")
_MANY = 64
"""Queries that are answered from the bytes; after that, all rows are parsed once and indexed."""


class QueueRows:
    """
    The queue as it was published once.

    Args:
        data: The bytes of `view/queue.json`.

    Raises:
        ValueError: They are not JSON.
    """

    def __init__(self, data: bytes) -> None:
        head, line_break, _ = data.partition(b"\n")
        self._data = data
        self._is_lined = bool(line_break) and head.endswith(_HEAD_END)
        self._whole: Any = None if self._is_lined else json.loads(data)
        self.head: Any = json.loads(head + b"]}") if self._is_lined else self._whole
        """The queue's header: its schema, time and commit."""
        self._asked = 0
        self._every: tuple[JobView, ...] | None = None
        self._index: tuple[dict[str, list[JobView]], list[str]] | None = None

    def every(self) -> tuple[JobView, ...]:
        """
        Return all rows: running jobs first, then in the order of the queue.

        Raises:
            ValueError: They are not JSON.
        """
        if self._every is None:
            self._every = tuple(map(whole, self.lines()))
        return self._every

    def lines(self) -> Sequence[JobView | JobLine]:
        """
        Return the same rows, parsed as far as a list needs them.

        Raises:
            ValueError: They are not JSON.
        """
        if self._whole is None:
            self._whole = json.loads(self._data)
        return self._read(self._whole["jobs"], self._whole.get("arrays") or ())

    def like(self, text: str) -> tuple[JobView, ...]:
        """
        Return the rows of which `text` may be the id, its beginning, the name or the launch.

        The result may include others; the order is that of `every`.

        Raises:
            ValueError: A row is not JSON.
        """
        self._asked += 1
        if self._every is None and self._is_lined and text and self._asked <= _MANY:
            return tuple(map(whole, self._read(*self._lines_like(text))))
        return self._indexed(text)

    def of(self, ids: set[str]) -> dict[str, JobView]:
        """
        Return the rows with these ids; ids without a row are left out.

        Raises:
            ValueError: A row is not JSON.
        """
        found = (row for each in ids for row in self.like(each) if row.id == each)
        return {row.id: row for row in found}

    def _read(self, jobs: Any, arrays: Any) -> Sequence[JobView | JobLine]:
        as_of = self.head["now"]
        rows: list[JobView | JobLine] = [JobLine(row, as_of) for row in jobs]
        rows += [array_of_row(row, as_of=as_of) for row in arrays]
        if arrays or self._has_arrays():
            rows.sort(key=lambda row: row.phase not in _ADMITTED)
        return rows

    def _has_arrays(self) -> bool:
        """Whether the rows include arrays: then running jobs must be moved to the front."""
        border = self._data.rfind(b"\n" + _ARRAYS)
        return border >= 0 and self._data.find(b"{", border) >= 0

    def _lines_like(self, text: str) -> tuple[list[Any], list[Any]]:
        """Parse the lines of jobs and of arrays that contain a string starting with `text`."""
        jobs: list[Any] = []
        arrays: list[Any] = []
        border = self._data.rfind(b"\n" + _ARRAYS)
        # Text that is not valid UTF-8 is no name here.
        needle = json.dumps(text, ensure_ascii=False)[:-1].encode(errors="surrogatepass")
        for start, line in self._lines(needle):
            (jobs if start < border or border < 0 else arrays).append(json.loads(line))
        return jobs, arrays

    def _lines(self, needle: bytes) -> Iterator[tuple[int, bytes]]:
        at = self._data.find(b"\n")
        while (at := self._data.find(needle, at)) >= 0:
            start = self._data.rfind(b"\n", 0, at) + 1
            end = self._data.find(b"\n", at)
            at = end if end >= 0 else len(self._data)
            line = self._data[start:at].rstrip(b",")
            if line.startswith(b"{"):  # not the border between jobs and arrays
                yield start, line

    def _indexed(self, text: str) -> tuple[JobView, ...]:
        rows = self.every()
        if not text:
            return rows
        if self._index is None:
            self._index = _index_of(rows)
        named, ids = self._index
        found = {row.id: row for row in named.get(text, ())}
        for at in range(bisect_left(ids, text), len(ids)):
            if not ids[at].startswith(text):
                break
            found |= {row.id: row for row in named[ids[at]] if row.id == ids[at]}
        if len(found) < 2:
            return tuple(found.values())
        return tuple(row for row in rows if row.id in found)


def _index_of(rows: tuple[JobView, ...]) -> tuple[dict[str, list[JobView]], list[str]]:
    """Return the rows by each of their names, and all ids in order."""
    named: dict[str, list[JobView]] = {}
    for row in rows:
        for name in {row.id, row.name, name_of(row.id), row.launch, name_of(row.launch)}:
            named.setdefault(name, []).append(row)
    return named, sorted(row.id for row in rows)
