"""
Parquet, written and read through DuckDB, in bounded memory.

Only this file and those above it in the folder import DuckDB, and only when they are used. The
bastion itself never does.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from bastion.errors import BastionError
from bastion.history.coverage import Span
from bastion.history.tables import Row, Table, json_line

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

MEMORY_MB = 256
"""Of one connection; what exceeds it goes to its temporary folder."""
THREADS = 2
ROWS_A_GROUP = 122_880
"""DuckDB's default: small enough to read one group in memory, large enough for its statistics."""


class MissingExtraError(BastionError):
    """DuckDB is not installed."""

    def __init__(self) -> None:
        super().__init__(
            "the record is read with DuckDB, which is not installed",
            hint="pip install 'bastion-orchestrator[history]'",
        )


def has_duckdb() -> bool:
    """Whether DuckDB is installed; this does not import it."""
    return importlib.util.find_spec("duckdb") is not None


def connect(
    folder: Path, *, memory_mb: int = MEMORY_MB, threads: int = THREADS
) -> DuckDBPyConnection:
    """
    Return a connection to an empty database in memory.

    Args:
        folder: For data that does not fit into memory.
        memory_mb: Limit of its memory.
        threads: Limit of its threads.

    Raises:
        MissingExtraError: DuckDB is not installed.
    """
    if not has_duckdb():
        raise MissingExtraError
    import duckdb

    connection = duckdb.connect(
        ":memory:",
        config={
            "memory_limit": f"{memory_mb}MB",
            "threads": threads,
            "temp_directory": str(folder / "spill"),
            "python_enable_replacements": "false",
            "autoinstall_known_extensions": "false",
            "autoload_known_extensions": "false",
        },
    )
    connection.execute("SET enable_progress_bar = false")  # it would be drawn on stdout
    # Times of the record have no time zone: `now()` would treat them as local.
    connection.execute("SET TimeZone = 'UTC'")
    return connection


def close(connection: DuckDBPyConnection, paths: Sequence[Path]) -> None:
    """Restrict `connection` to the files `paths`, without extensions or changes of its settings."""
    allowed = ", ".join(quoted(str(path)) for path in paths)
    connection.execute(f"SET allowed_paths = [{allowed}]")
    connection.execute("SET enable_external_access = false")
    connection.execute("SET lock_configuration = true")


def quoted(text: str) -> str:
    """Return `text` as an SQL literal."""
    return "'" + text.replace("'", "''") + "'"


def write_lines(
    path: Path, table: Table, rows: Iterable[Row], spoilt: Callable[[str, str], object]
) -> None:
    """
    Write `rows` as lines of JSON.

    A row that does not fit its columns is left out: `spoilt` is called with its place and fault.
    """
    with path.open("w", encoding="ascii") as file:
        for row in rows:
            try:
                line = json_line(table, row)
            except ValueError as error:
                event = row["event"]
                spoilt(f"event {event}" if event is not None else str(row["job"]), str(error))
            else:
                file.write(f"{line}\n")


def from_lines(table: Table, path: Path) -> str:
    """Return the SQL that reads lines of JSON as rows of `table`."""
    types = ", ".join(
        f"{column.name}: {quoted('BIGINT' if column.sql_type == 'TIMESTAMP' else column.sql_type)}"
        for column in table.columns
    )
    cells = ", ".join(
        f"make_timestamp({column.name}) AS {column.name}"
        if column.sql_type == "TIMESTAMP"
        else column.name
        for column in table.columns
    )
    return (
        f"SELECT {cells} FROM read_json({quoted(str(path))}, columns = {{{types}}},"
        " format = 'newline_delimited')"
    )


def from_files(table: Table, spans: Sequence[Span], paths: Sequence[Path]) -> str:
    """
    Return the SQL that reads `spans` of files as rows of `table`, each file at its path.

    A column that is missing in a file is null; one that this version does not know is read as well.
    """
    nothing = ", ".join(f"NULL::{column.sql_type} AS {column.name}" for column in table.columns)
    parts = [f"SELECT {nothing} WHERE false"]
    whole = [quoted(str(path)) for span, path in zip(spans, paths) if span.is_whole]
    if whole:
        parts.append(_read(", ".join(whole)))
    parts += [
        f"{_read(quoted(str(path)))} WHERE event >= {span.first} AND event < {span.after}"
        for span, path in zip(spans, paths)
        if not span.is_whole
    ]
    return " UNION ALL BY NAME ".join(parts)


def _read(paths: str) -> str:
    return f"SELECT * FROM read_parquet([{paths}], union_by_name = true, hive_partitioning = false)"


def copy(connection: DuckDBPyConnection, query: str, path: Path) -> None:
    """Write the rows of `query` to a Parquet file at `path`, in the order of their events."""
    connection.execute(
        f"COPY (SELECT * FROM ({query}) ORDER BY event) TO {quoted(str(path))}"
        f" (FORMAT parquet, COMPRESSION zstd, ROW_GROUP_SIZE {ROWS_A_GROUP})"
    )
