"""
The record of one bucket, as tables for SQL.

Rows of older days are in Parquet, those of the last hour in sealed segments, and the newest in
root. `attempts`, `shares` and `events` contain every row once, from any of these places. `running`
has a row for each attempt that has not ended and, on request, `waiting` one for each job in the
queue: as of the last commit, with the columns of `attempts`.

A file that is not Parquet is reported and skipped: the log has its rows. So is a row that no file
could hold.
"""

from __future__ import annotations

import os
import tomllib
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import UTC, datetime
from hashlib import sha256
from heapq import merge
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn
from urllib.parse import unquote, urlsplit

from bastion.errors import NotFoundError, SpecError
from bastion.history.attempt_row import COLUMNS, AttemptRow, row_of
from bastion.history.coverage import NO_END, Span, StoredFile, gaps, spans, stored_files
from bastion.history.ended_attempt import Hardware, queued_array, queued_job, standing_attempt
from bastion.history.interruption import temporary_folder
from bastion.history.launched_code import with_code
from bastion.history.parquet import close, connect, from_files, from_lines, has_duckdb, write_lines
from bastion.history.prices import own_price
from bastion.history.sealed_log import read_segment, sealed_segments
from bastion.history.tables import ATTEMPTS, TABLES, Row, Table
from bastion.job import Phase
from bastion.machine import Pool
from bastion.records.keys import layout
from bastion.records.root import Event, Root, decode_root
from bastion.store import ObjectStore
from bastion.store.port import Version
from bastion.value import replace, value
from quota.amounts import NOTHING

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

READERS = 8
"""Files that are fetched at the same time."""
_ENDS = b"PAR1"
_number = attrgetter("n")


@value
class _Fresh:
    """What is not in a file yet, and how it is read."""

    root: Root | None
    folder: Path
    since: float | None
    has_code: bool


class Record:
    """
    The record of one bucket.

    Args:
        store: The bucket.
        url: Its URL. Files of a folder are read in place; those of a cloud are fetched once and
            kept in the user's cache, since they never change. Empty: they are not kept.
    """

    def __init__(self, store: ObjectStore, url: str = "") -> None:
        self._store = store
        parts = urlsplit(url)
        self._root = Path(unquote(parts.path)) if parts.scheme == "file" else None
        self._cache = _cache(url) if url and self._root is None else None
        self._known_root: tuple[Version, Root] | None = None
        self.spoilt: dict[str, str] = {}
        """What could not be read in the last `opened`, by its place."""

    def __repr__(self) -> str:
        return "<the record of all that ended: query(record, 'SELECT ...') asks it>"

    if not TYPE_CHECKING:  # for a type checker a record is not callable

        def __call__(self, *given: object, **_: object) -> NoReturn:
            """Raise the error for a call."""
            raise _not_called(given)

    @contextmanager
    def opened(
        self,
        *,
        since: float | None = None,
        tables: Sequence[Table] = TABLES,
        is_closed: bool = False,
        has_code: bool = False,
    ) -> Iterator[DuckDBPyConnection]:
        """
        Open a connection with one view for each of `tables`, and `running`.

        Args:
            since: Leave out rows of earlier days, if that avoids reading files.
            tables: The required tables.
            is_closed: Let SQL access only these views, and `waiting`: for a user's SQL.
            has_code: Also fill `code` and `code_commit` of rows that are in no file yet, which
                reads the spec of each of their launches.

        Raises:
            MissingExtraError: DuckDB is not installed.
            StoreError: Unreachable.
            KeyboardInterrupt: Ctrl-C while DuckDB works.
        """
        self.spoilt = {}
        with temporary_folder("bastion-history-") as folder:
            connection = connect(folder)
            try:
                root = self._read_root()
                found = self._checked(stored_files(self._store))
                fresh = _Fresh(root=root, folder=folder, since=since, has_code=has_code)
                self._add_running(connection, fresh)
                if is_closed:
                    self._add_waiting(connection, fresh)
                paths: list[Path] = []
                for table in tables:
                    paths += self._add(connection, table, found, fresh)
                if is_closed:
                    close(connection, paths)
                yield connection
            except RuntimeError as error:
                if type(error) is RuntimeError and str(error) == "Query interrupted":
                    raise KeyboardInterrupt from None  # DuckDB's way to report Ctrl-C
                raise
            finally:
                connection.close()

    def attempts(
        self, *, since: float | None = None, until: float | None = None
    ) -> Iterator[AttemptRow]:
        """
        Yield the rows of attempts that ended in `[since, until)`, in the order of their ends.

        Raises:
            StoreError: Unreachable.
        """
        if not has_duckdb():
            yield from self._from_log(since, until)
            return
        cells = ", ".join(
            f"epoch({column.name})" if column.sql_type == "TIMESTAMP" else column.name
            for column in COLUMNS
        )
        with self.opened(since=since, tables=[ATTEMPTS], has_code=True) as connection:
            asked = connection.execute(
                f"SELECT {cells} FROM attempts WHERE epoch(ended_at) >= ? AND epoch(ended_at) < ?"
                " ORDER BY event",
                [since or 0.0, float("inf") if until is None else until],
            )
            while rows := asked.fetchmany(1000):
                for row in rows:
                    named = dict(zip((column.name for column in COLUMNS), row))
                    yield AttemptRow(**{**named, "machines": tuple(named["machines"] or ())})

    def _from_log(self, since: float | None, until: float | None) -> Iterator[AttemptRow]:
        """Yield the same rows from the log only."""
        ended = (
            event
            for event in self._events([(0, NO_END)], self._read_root(), since)
            if event.at >= (since or 0.0) and (until is None or event.at < until)
        )
        rows = (row for event in ended for row in ATTEMPTS.rows_of(event))
        for row in with_code(self._store, rows):
            yield AttemptRow(**row)  # type: ignore[arg-type]

    def _read_root(self) -> Root | None:
        """Read root before the log: events that leave root in the meantime are then in the log."""
        known = self._known_root
        try:
            found = self._store.read(layout.ROOT, unless=known[0] if known else None)
        except NotFoundError:
            return None
        if found is None:
            assert known is not None
            return known[1]
        root = decode_root(found.data)
        self._known_root = found.version, root
        return root

    def _add(
        self,
        connection: DuckDBPyConnection,
        table: Table,
        found: Sequence[StoredFile],
        fresh: _Fresh,
    ) -> list[Path]:
        """Create the view of `table`; return the files that it reads."""
        known = self._spans(found, table.name)
        since = None if fresh.since is None else fresh.since - table.before_s
        events = self._events(gaps(known), fresh.root, since)
        rows = (row for event in events for row in table.rows_of(event))
        self._load(connection, f"fresh_{table.name}", table, rows, fresh)
        wanted = [each for each in known if _may_hold(each, since)]
        with ThreadPoolExecutor(READERS) as readers:
            paths = list(readers.map(lambda each: self._fetched(each.file, fresh.folder), wanted))
        stored = from_files(table, wanted, paths)
        connection.execute(
            f"CREATE VIEW {table.name} AS {stored} UNION ALL BY NAME FROM fresh_{table.name}"
        )
        return paths

    def _spans(self, files: Sequence[StoredFile], table: str) -> tuple[Span, ...]:
        return spans(files, table)

    def _add_running(self, connection: DuckDBPyConnection, fresh: _Fresh) -> None:
        rows = running_rows(fresh.root) if fresh.root is not None else ()
        self._load(connection, "running", ATTEMPTS, rows, fresh)

    def _add_waiting(self, connection: DuckDBPyConnection, fresh: _Fresh) -> None:
        rows = waiting_rows(fresh.root) if fresh.root is not None else ()
        # The code of each is in its own spec, and there may be 30,000.
        self._load(connection, "waiting", ATTEMPTS, rows, replace(fresh, has_code=False))

    def _load(
        self,
        connection: DuckDBPyConnection,
        name: str,
        table: Table,
        rows: Iterable[Row],
        fresh: _Fresh,
    ) -> None:
        """Create the table `name` from `rows`, which have the columns of `table`."""
        if table is ATTEMPTS and fresh.has_code:
            rows = with_code(self._store, rows)
        path = fresh.folder / f"{name}.json"
        write_lines(path, table, rows, self._spoil)
        connection.execute(f"CREATE TABLE {name} AS {from_lines(table, path)}")

    def _events(
        self, ranges: Sequence[tuple[int, int]], root: Root | None, since: float | None
    ) -> Iterator[Event]:
        """Yield each event of `ranges` once, from the log and from `root`."""
        for first, after in ranges:
            position = first
            # A segment that root still holds may be missing among later ones of the log.
            found = merge(self._logged(first, after, since), _unsealed(root), key=_number)
            for event in found:
                if position <= event.n < after:
                    position = event.n + 1
                    yield event

    def _logged(self, first: int, after: int, since: float | None) -> Iterator[Event]:
        """Yield the events of the segments that may contain `[first, after)`."""
        for segment in sealed_segments(self._store, after=first):
            if segment.first >= after:
                return
            # An event is older than the segment it was written in, by the same clock.
            if since is None or segment.modified_at >= since:
                yield from read_segment(self._store, segment, self._spoil)

    def _spoil(self, place: str, fault: str) -> None:
        self.spoilt[place] = fault

    def _checked(self, files: Sequence[StoredFile]) -> list[StoredFile]:
        """Return `files` without those of a folder that are not Parquet."""
        good = []
        for each in files:
            if self._root is None or _is_parquet_file(self._root / each.key):
                good.append(each)
            else:
                self.spoilt[each.key] = "it is not a Parquet file; its rows are read from the log"
        return good

    def _fetched(self, file: StoredFile, folder: Path) -> Path:
        """Return the path at which `file` can be read."""
        if self._root is not None:
            return self._root / file.key
        path = (self._cache or folder) / file.key
        if path.exists() and path.stat().st_size == file.size and _is_parquet_file(path):
            return path
        found = self._store.read(file.key)
        assert found is not None
        path.parent.mkdir(parents=True, exist_ok=True)
        part = path.with_suffix(f".{os.getpid()}.part")
        part.write_bytes(found.data)
        part.replace(path)
        return path


def ended_attempts(
    store: ObjectStore, *, since: float | None = None, until: float | None = None, url: str = ""
) -> Iterator[AttemptRow]:
    """
    Yield the rows of attempts that ended in `[since, until)`, in the order of their ends.

    Args:
        store: The bucket.
        since: Seconds since 1970; None: from the beginning.
        until: None: up to now.
        url: The bucket's URL, so that its files are read in place or kept in the user's cache.

    Raises:
        StoreError: Unreachable.
    """
    return Record(store, url).attempts(since=since, until=until)


def recorded_events(store: ObjectStore, *, since: float | None = None) -> Iterator[Event]:
    """
    Yield every event of the log and of root once, in order, including some older than `since`.

    Raises:
        StoreError: Unreachable.
    """
    record = Record(store)
    return record._events([(0, NO_END)], record._read_root(), since)


def running_rows(root: Root) -> Iterator[Row]:
    """Yield a row for each attempt of `root` that has not ended, as of its commit."""
    hardware = Hardware(machines=root.machines, pools=_pools(root.config_text))
    for job in root.jobs.values():
        if job.attempt is None:
            continue
        standing = standing_attempt(job, root.now, hardware)
        event = Event(n=0, at=root.now, job=job.id, project=job.project, what=job.phase.value)
        row = row_of(standing, event)
        yield {column.name: getattr(row, column.name) for column in COLUMNS} | {"event": None}


def waiting_rows(root: Root) -> Iterator[Row]:
    """Yield a row for each job and array of `root` that waits in the queue, as of its commit."""
    arrays = (array for array in root.arrays.values() if array.waiting)
    waiting = [(job, queued_job(job)) for job in root.jobs.values() if job.phase is Phase.QUEUED]
    waiting += [(array.each, queued_array(array)) for array in arrays]
    for job, queued in waiting:
        event = Event(n=0, at=root.now, job=job.id, project=job.project, what=job.phase.value)
        row = row_of(queued, event)
        yield {column.name: getattr(row, column.name) for column in COLUMNS} | {"event": None}


def _pools(text: str) -> dict[str, Pool]:
    """Return the pools of a valid `config/bastion.toml`, with the fields that a row needs."""
    tables = tomllib.loads(text) if text else {}
    prices = tables.get("prices", {})
    return {
        name: Pool(
            name=name,
            provider=pool["provider"],
            resources=NOTHING,
            max_machines=0,
            instance_type=(kind := pool.get("instance_type", "")),
            terms=(terms := pool.get("terms", "on_demand")),
            price_per_hour=pool.get("price") or own_price(prices, kind, terms),
        )
        for name, pool in tables.get("pools", {}).items()
    }


def _unsealed(root: Root | None) -> Iterator[Event]:
    if root is not None:
        yield from (event for segment in root.sealed for event in segment.events)
        yield from root.events


def _may_hold(span: Span, since: float | None) -> bool:
    """Whether rows of `since` or later may be in this span: no row is later than its day."""
    if since is None or not span.file.name.date:
        return True
    return span.file.name.date >= datetime.fromtimestamp(since, UTC).strftime("%Y-%m-%d")


def _not_called(given: tuple[object, ...]) -> SpecError:
    """Return the error for a record that is called, which mostly happens with the name of a job."""
    job = f"client.job({given[0]!r}) tells of that job; " if given else ""
    return SpecError(
        "record: it is the record of all that ended, not a function",
        hint=f"{job}query(client.record, 'SELECT ...') of bastion.history.ask.query queries it",
    )


def _is_parquet_file(path: Path) -> bool:
    try:
        with path.open("rb") as file:
            first = file.read(4)
            file.seek(-4, os.SEEK_END)
            return first == _ENDS and file.read(4) == _ENDS
    except OSError:
        return False


def _cache(url: str) -> Path:
    """Return the local folder for the files of this bucket."""
    home = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return home / "bastion" / "history" / sha256(url.encode()).hexdigest()[:16]
