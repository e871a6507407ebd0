"""
Compaction: sealed events become files of the record.

Two kinds of work are each repeated until nothing is due:

1. Events that are in no file become one file per table below `history/recent/`, once they span
   an hour or number 50,000 (`Spacing`). Segments are written in parallel, so one that root still
   holds may be missing among later ones: events from there on wait.
2. A day that is over becomes one file per table in `history/<table>/dt=<day>/`, from the files
   below `history/recent/`. A day is over at the first event of a later day, so every compaction
   finds the same events. Its file is written once.

Files are created, never replaced, and their names say which events they cover. Work that was done
before a crash can therefore be repeated with the same result, and readers count each event once
(`coverage`). Files below `history/recent/` are deleted one day after the files of their days exist.

All times are of events or of the store, never of this machine.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import field
from pathlib import Path

from bastion.errors import ConflictError, NotFoundError, StoreError
from bastion.history.coverage import NO_END, Span, StoredFile, covered, spans, stored_files
from bastion.history.interruption import temporary_folder
from bastion.history.launched_code import READERS, with_code
from bastion.history.parquet import connect, copy, from_files, from_lines, write_lines
from bastion.history.sealed_log import read_segment, sealed_segments
from bastion.history.tables import ATTEMPTS, EVENTS, TABLES, Row, Table
from bastion.records.keys import layout
from bastion.records.register import create_anew
from bastion.records.root import Event, decode_root
from bastion.store import ObjectStore
from bastion.value import value

DAY_S = 86400.0


@value
class Spacing:
    """When files are due; that of a simulation is shorter."""

    recent_s: float = 3600.0
    """Events that span less are left in the log: a reader reads one hour of the log in a second."""
    most_events: int = 50_000
    """Of one file below `history/recent/`, and of one step in memory: about 30 MB."""
    day_s: float = DAY_S
    keep_s: float = DAY_S
    """
    How long a file below `history/recent/` is kept for readers after the file of its day exists.
    """


USUAL = Spacing()


class _SpoiltError(Exception):
    """A file of the record cannot be read and was set aside."""


@value
class Compacted:
    """The result of a compaction."""

    events: int = 0
    """Number of events that became rows."""
    files: tuple[str, ...] = ()
    """The keys that it created."""
    deleted: tuple[str, ...] = ()
    spoilt: Mapping[str, str] = field(default_factory=dict)
    """
    What could not be read, by its place: it is copied to `state/aside/`, and the rest is kept.
    """


class Compactor:
    """
    Compacts the record of one bucket.

    Args:
        store: The bucket.
        folder: A folder for files that nothing else uses.
        spacing: When files are due.
        readers: Threads that read specs; 1: only the caller's thread.
    """

    def __init__(
        self,
        store: ObjectStore,
        folder: Path,
        *,
        spacing: Spacing = USUAL,
        readers: int = READERS,
    ) -> None:
        self._spacing = spacing
        self._readers = readers
        self._store = store
        self._folder = folder
        self._connection = connect(folder)
        self._until = NO_END
        self._events = 0
        self._created: list[str] = []
        self._deleted: list[str] = []
        self._spoilt: dict[str, str] = {}

    def compact(self) -> Compacted:
        """
        Do everything that is due, and return what was done.

        Raises:
            RecordError: Root cannot be decoded.
            StoreError: Unreachable; repeat it later.
        """
        self._until = _first_unwritten(self._store)
        for step in (self._add_recent, self._close_day):
            while self._is_moved_by(step):
                pass
        self._delete_old()
        self._connection.close()
        return Compacted(
            events=self._events,
            files=tuple(self._created),
            deleted=tuple(self._deleted),
            spoilt=self._spoilt,
        )

    def _is_moved_by(self, step: Callable[[], bool]) -> bool:
        """Take one step; True if another may be due. A spoilt file is skipped."""
        try:
            return step()
        except _SpoiltError:
            while self._add_recent():
                pass
            return True

    def _add_recent(self) -> bool:
        """Write the next file below `history/recent/` of each table; False if none is due."""
        files = stored_files(self._store)
        first = self._reach(files)
        events = list(self._next_events(first))
        if not events:
            return False
        spacing = self._spacing
        if len(events) < spacing.most_events and events[-1].at - events[0].at < spacing.recent_s:
            return False
        after = events[-1].n + 1
        for table in TABLES:
            path = self._folder / "rows.json"
            write_lines(path, table, self._rows(table, events), self._spoilt.__setitem__)
            key = layout.recent_file(table.name, first, after)
            self._write(key, from_lines(table, path))
        self._events += len(events)
        return True

    def _reach(self, files: Sequence[StoredFile], *, days: bool = False) -> int:
        """Return the first event whose rows a table lacks: tables are written one by one."""
        return min(covered(files, table.name, days=days) for table in TABLES)

    def _next_events(self, first: int) -> Iterator[Event]:
        """Yield the next events from number `first` on, at most those of a file and a segment."""
        count = 0
        for segment in sealed_segments(self._store, after=first):
            if segment.first >= self._until:
                return
            for event in read_segment(self._store, segment, self._set_aside):
                if first + count <= event.n < self._until:
                    count = event.n + 1 - first
                    yield event
            if count >= self._spacing.most_events:
                return

    def _rows(self, table: Table, events: Iterable[Event]) -> Iterator[Row]:
        rows = (row for event in events for row in table.rows_of(event))
        if table is ATTEMPTS:
            return with_code(self._store, rows, readers=self._readers)
        return rows

    def _close_day(self) -> bool:
        """Write the files of the oldest day that is over; False if there is none."""
        files = stored_files(self._store)
        first, known = self._reach(files, days=True), self._reach(files)
        if known <= first:
            return False
        events = self._query(EVENTS, files, first, known)
        found = self._connection.execute(
            f"SELECT epoch(arg_min(occurred_at, event)) FROM ({events})"
        ).fetchone()
        if found is None or found[0] is None:
            return False
        end_s = found[0] - found[0] % self._spacing.day_s + self._spacing.day_s
        after = self._connection.execute(
            f"SELECT min(event) FROM ({events}) WHERE epoch(occurred_at) >= {end_s}"
        ).fetchone()
        if after is None or after[0] is None:
            return False
        date = time.strftime("%Y-%m-%d", time.gmtime(found[0]))
        for table in TABLES:
            key = layout.day_file(table.name, date, first, after[0])
            self._write(key, self._query(table, files, first, after[0]))
        return True

    def _query(self, table: Table, files: Iterable[StoredFile], first: int, after: int) -> str:
        """Return the SQL of the rows of `table` from events `[first, after)`."""
        wanted = [
            Span(file=each.file, first=max(first, each.first), after=min(after, each.after))
            for each in spans(files, table.name)
            if each.first < after and each.after > first
        ]
        return from_files(table, wanted, [self._fetched(each.file) for each in wanted])

    def _fetched(self, file: StoredFile) -> Path:
        """Return the local path of the bytes of `file`."""
        path = self._folder / file.key.replace("/", "!")
        if not path.exists():
            found = self._store.read(file.key)
            assert found is not None
            if not is_parquet(found.data):
                # The log still has its rows, so the next step writes them again.
                self._spoilt[file.key] = "it is not a Parquet file; it is made again from the log"
                with suppress(ConflictError):
                    self._store.create(layout.aside(file.key), found.data)
                self._store.delete(file.key)
                raise _SpoiltError
            path.write_bytes(found.data)
        return path

    def _write(self, key: str, query: str) -> None:
        """Create the file of `query`, unless an earlier compaction has done so."""
        path = self._folder / "made.parquet"
        copy(self._connection, query, path)
        data = path.read_bytes()
        if create_file(self._store, key, data):
            self._created.append(key)

    def _set_aside(self, place: str, fault: str) -> None:
        """Keep a copy of what cannot be read, and note its name."""
        self._spoilt[place] = fault
        key, _, line = place.rpartition(":")
        try:
            found = self._store.read(key)
            assert found is not None
            data = found.data.splitlines()[int(line) - 1]
            self._store.create(layout.aside(place), data)
        except (ConflictError, NotFoundError, ValueError, IndexError):
            return

    def _delete_old(self) -> None:
        """Delete files below `history/recent/` whose rows have long been in the files of days."""
        files = stored_files(self._store)
        until = self._reach(files, days=True)
        days = [each for each in files if each.name.date]
        newest_at = max((each.modified_at for each in days), default=0.0)
        for each in files:
            if each.name.date or each.name.after > until:
                continue
            # Its last row is also in the file of a day, so it is not needed.
            since = [
                day.modified_at
                for day in days
                if day.name.table == each.name.table and day.name.after >= each.name.after
            ]
            if since and newest_at - min(since) >= self._spacing.keep_s:
                self._store.delete(each.key)
                self._deleted.append(each.key)


def _first_unwritten(store: ObjectStore) -> int:
    """Return the first event that the log may lack, from the root read before the listing."""
    try:
        found = store.read(layout.ROOT)
    except NotFoundError:
        return NO_END
    assert found is not None
    return decode_root(found.data).first_unwritten


def create_file(store: ObjectStore, key: str, data: bytes) -> bool:
    """
    Create a file of the record; False if it existed. A file that is not Parquet is replaced.

    Raises:
        StoreError: Unreachable or in doubt; retry.
    """
    try:
        store.create(key, data)
        return True
    except ConflictError:
        pass
    found = store.read(key)
    assert found is not None
    if is_parquet(found.data):
        return False
    try:
        create_anew(store, key, data)
    except ConflictError as error:
        raise StoreError(f"{key}: it was changed meanwhile") from error
    return True


def is_parquet(data: bytes) -> bool:
    """Whether `data` begins and ends as a complete Parquet file does."""
    return len(data) > len(_MAGIC) * 3 and data.startswith(_MAGIC) and data.endswith(_MAGIC)


_MAGIC = b"PAR1"
"""Source: the file format of Apache Parquet; the last bytes of a truncated file differ."""


def compact(store: ObjectStore) -> Compacted:
    """
    Compact the record of a bucket, in its own temporary folder.

    Raises:
        MissingExtraError: DuckDB is not installed.
        RecordError: Root cannot be decoded.
        StoreError: Unreachable; repeat it later.
    """
    with temporary_folder("bastion-history-") as folder:
        return Compactor(store, folder).compact()
