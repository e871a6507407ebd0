"""
Which rows count: files name the events that their rows come from, and each event is read once.

The file of a day, a recent file and the sealed log may contain the same rows, because a compaction
was killed halfway, or two bastions ran it. A reader walks through the numbers of events: from its
position it takes the file that reaches furthest, and of that file only the rows from there on. So
no list of valid files is needed, and nothing has to be deleted for the record to be correct.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from bastion.records.keys import layout
from bastion.records.keys.layout import HistoryFile
from bastion.store import Entry, ObjectStore
from bastion.value import value

PAGE = 1000
NO_END = 1 << 62
"""Above the number of every event."""


@value
class StoredFile:
    """One file of the record in the bucket."""

    key: str
    name: HistoryFile
    size: int
    modified_at: float


@value
class Span:
    """The rows of `file` from events `[first, after)`."""

    file: StoredFile
    first: int
    after: int

    @property
    def is_whole(self) -> bool:
        """Whether all rows of the file count."""
        return (self.first, self.after) == (self.file.name.first, self.file.name.after)


def stored_files(store: ObjectStore) -> tuple[StoredFile, ...]:
    """
    Return every file of the record in the bucket.

    Raises:
        StoreError: Unreachable.
    """
    return tuple(
        StoredFile(key=entry.key, name=name, size=entry.size, modified_at=entry.modified_at)
        for entry in _entries(store)
        if (name := layout.parse_history(entry.key)) is not None and name.first < name.after
    )


def _entries(store: ObjectStore) -> Iterator[Entry]:
    start = ""
    while True:
        found = store.list(layout.HISTORY, start_after=start, limit=PAGE)
        yield from found
        if len(found) < PAGE:
            return
        start = found[-1].key


def spans(files: Iterable[StoredFile], table: str) -> tuple[Span, ...]:
    """Return the parts of the files of `table` that count, in the order of their events."""
    left = sorted(
        (each for each in files if each.name.table == table),
        key=lambda each: (each.name.first, -each.name.after, not each.name.date),
    )
    found: list[Span] = []
    position = 0
    while left:
        reaching = [each for each in left if each.name.first <= position < each.name.after]
        if not reaching:
            left = [each for each in left if each.name.first > position]
            if not left:
                break
            position = left[0].name.first
            continue
        best = max(reaching, key=lambda each: each.name.after)
        found.append(Span(file=best, first=position, after=best.name.after))
        position = best.name.after
        left = [each for each in left if each.name.after > position]
    return tuple(found)


def gaps(found: Iterable[Span]) -> tuple[tuple[int, int], ...]:
    """Return the ranges of events that are in none of these spans; the last one has no end."""
    left: list[tuple[int, int]] = []
    position = 0
    for span in found:
        if span.first > position:
            left.append((position, span.first))
        position = span.after
    return (*left, (position, NO_END))


def covered(files: Iterable[StoredFile], table: str, *, days: bool = False) -> int:
    """
    Return the number of the first event whose rows of `table` are in no file.

    Args:
        files: Those in the bucket.
        table: Its name.
        days: Consider only the files of whole days.
    """
    wanted = [each for each in files if each.name.date or not days]
    position = 0
    for span in spans(wanted, table):
        if span.first != position:
            break
        position = span.after
    return position
