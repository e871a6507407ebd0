"""
The SQL of a user over the record: it can read the tables, and nothing else on this machine.

Only a single SELECT is accepted: EXPLAIN ANALYZE would run what it explains, which could write to
the files of the record. In addition, DuckDB itself opens only these files, loads no extension and
has no network access, and its settings are locked before it sees the statement.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

from bastion.errors import SpecError
from bastion.history.interruption import interruptible
from bastion.history.record import Record
from bastion.history.tables import TABLES
from bastion.value import value

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection, Error

MOST_ROWS = 100_000
"""Of one answer: more rows need a program that reads the files."""
_NO_TABLE = re.compile(r"^Catalog Error: Table with name (\S+) does not exist")
_NO_ALIAS = re.compile(r'Referenced table "([^"]+)" not found')
_ALIASES = re.compile(r"Candidate tables: (.*)")
_NO_COLUMN = re.compile(
    r'Referenced column "([^"]+)" not found|does not have a column named "([^"]+)"'
    r'|Column "([^"]+)" (?:in \w+ list not found|does not exist on)'
)
_NO_FUNCTION = re.compile(r"(?:(Table) |\w+ )?Function with name (\S+) does not exist")
_NO_MATCH = re.compile(r"No function matches the given name and argument types '(.+?)'\.")
_NO_TYPE = re.compile(r"Type with name (\S+) does not exist")
_QUOTED = re.compile(r'"([^"]+)"')
_NEAREST = 3
"""Maximum number of suggested functions: there are hundreds."""
_KIND = re.compile(r"^(\w+ )+Error: ")
VIEWS = (*(table.name for table in TABLES), "running", "waiting")


@value
class Answer:
    """The rows of a query."""

    columns: tuple[str, ...]
    rows: tuple[tuple[object, ...], ...]
    is_cut: bool
    """Whether there were more than `MOST_ROWS`."""
    spoilt: tuple[str, ...] = ()
    """Places of records that could not be read."""


def query(record: Record, sql: str) -> Answer:
    """
    Run `sql`, one SELECT.

    Raises:
        SpecError: It is not such a statement, or it is wrong; the nearest table or column is named.
        MissingExtraError: DuckDB is not installed.
        StoreError: Unreachable.
        KeyboardInterrupt: Ctrl-C, which ends it immediately.
    """
    with (
        record.opened(is_closed=True, has_code=True) as connection,
        interruptible(connection),
    ):
        import duckdb

        try:
            statements = duckdb.extract_statements(sql)
        except duckdb.Error as error:
            raise _refusal(connection, error) from error
        kinds = [each.type.name for each in statements]
        if kinds != ["SELECT"]:
            found = f"{', '.join(kinds)} is not allowed" if kinds else "no statement was given"
            raise SpecError(
                f"query: {found}; one SELECT",
                hint=f"the tables are {', '.join(VIEWS)}; bastion query 'DESCRIBE attempts'",
            )
        try:
            asked = connection.execute(statements[0])
            rows = asked.fetchmany(MOST_ROWS + 1)
        except duckdb.Error as error:
            raise _refusal(connection, error) from error
        except OverflowError as error:
            raise SpecError(
                f"query: a value cannot be shown: {error}", hint="cast it, such as x::VARCHAR"
            ) from error
        columns = tuple(each[0] for each in asked.description or ())
        return Answer(
            columns=columns,
            rows=tuple(rows[:MOST_ROWS]),
            is_cut=len(rows) > MOST_ROWS,
            spoilt=tuple(record.spoilt),
        )


def _refusal(connection: DuckDBPyConnection, error: Error) -> SpecError:
    """Return DuckDB's complaint in our words, with a suggestion."""
    from quota.choice import choose

    text = str(error)
    if (table := _NO_TABLE.search(text)) is not None:
        name = table[1].strip('"')
        return SpecError(f"query: there is no table {name!r}; {choose(name, VIEWS)}")
    if (alias := _NO_ALIAS.search(text)) is not None:
        named = _ALIASES.search(text)
        known = _QUOTED.findall(named[1]) if named is not None else []
        return SpecError(
            f"query: {alias[1]!r} is not a table of this FROM; {choose(alias[1], known or VIEWS)}"
        )
    if (column := _NO_COLUMN.search(text)) is not None:
        name = next(filter(None, column.groups()))
        return SpecError(
            f"query: there is no column {name!r}; {choose(name, _columns(connection))}",
            hint="bastion query 'DESCRIBE attempts' lists them",
        )
    if (function := _NO_FUNCTION.search(text)) is not None:
        return _no_function(connection, function[2], is_table=function[1] is not None)
    if (match := _NO_MATCH.search(text)) is not None:
        return _no_match(match[1], text)
    if (kind := _NO_TYPE.search(text)) is not None:
        return SpecError(f"query: there is no type {kind[1]!r}; {choose(kind[1], _types())}")
    if "'pytz'" in text:
        return SpecError(
            "query: a time with a time zone cannot be shown",
            hint="cast it, such as now()::TIMESTAMP: the same time in UTC, like all times here",
        )
    if "disabled by configuration" in text or "disabled through configuration" in text:
        return SpecError(
            "query: it reads something other than the record, which is not allowed",
            hint=f"the tables are {', '.join(VIEWS)}",
        )
    first = _KIND.sub("", text.splitlines()[0])
    return SpecError(f"query: {first[:1].lower()}{first[1:]}")


def _no_function(connection: DuckDBPyConnection, name: str, *, is_table: bool) -> SpecError:
    import difflib

    kinds = "('table', 'table_macro')" if is_table else "('scalar', 'aggregate', 'macro')"
    found = connection.execute(
        f"SELECT DISTINCT function_name FROM duckdb_functions() WHERE function_type IN {kinds}"
    ).fetchall()
    words = sorted(word for (word,) in found if word.isidentifier())
    near = difflib.get_close_matches(name.lower(), words, n=_NEAREST)
    told = f"nearest {'is' if len(near) == 1 else 'are'} {', '.join(near)}" if near else ""
    what = "table function" if is_table else "function"
    return SpecError(
        "; ".join(filter(None, (f"query: there is no {what} {name!r}", told))),
        hint="" if near else "they are at duckdb.org/docs/stable/sql/functions/overview",
    )


def _no_match(call: str, text: str) -> SpecError:
    """Return the problem of an existing function that gets arguments of the wrong types."""
    takes = [line.strip() for line in text.splitlines() if line.startswith("\t")][1:]
    more = f", and {len(takes) - _NEAREST} more" if len(takes) > _NEAREST else ""
    return SpecError(
        f"query: there is no {call}; it takes {'; '.join(takes[:_NEAREST])}{more}",
    )


def _types() -> tuple[str, ...]:
    """Return the types that columns have, and those that they can be cast to."""
    own = {column.sql_type for table in TABLES for column in table.columns}
    return tuple(sorted(own | {"BOOLEAN", "DATE", "DECIMAL", "FLOAT", "INTEGER", "INTERVAL"}))


def _columns(connection: DuckDBPyConnection) -> Sequence[str]:
    found = connection.execute(
        "SELECT DISTINCT column_name FROM duckdb_columns() WHERE NOT internal"
    ).fetchall()
    return sorted(str(name) for (name,) in found)
