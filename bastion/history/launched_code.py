"""
The code of a launch: the reference in its spec, and the commit that a bundle is based on.

Specs and origins are read as plain JSON, a few at a time. Only two of their fields matter here, and
checking all others would take most of the time of a compaction.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from typing import Any

from bastion.errors import NotFoundError, OversizeError
from bastion.history.tables import Row
from bastion.records.coding.limits import RECORD_BYTES
from bastion.records.keys import layout
from bastion.store import ObjectStore
from bastion.value import value

READERS = 16
"""Objects that are read at the same time: a cloud answers each in 30 ms."""
MAX_CHARACTERS = 4_096
"""Maximum length of one text about code: every row of its launch repeats it."""
ROWS = 5_000
"""Rows that are held in memory while the code of their launches is read."""


@value
class LaunchedCode:
    """The code of a launch."""

    code: str | None = None
    commit: str | None = None


def with_code(store: ObjectStore, rows: Iterable[Row], *, readers: int = READERS) -> Iterator[Row]:
    """
    Yield `rows` of the table `attempts`, each with the code of its launch.

    The event of an end does not contain it: root would have to hold it for every job.

    Raises:
        StoreError: Unreachable.
    """
    waiting = iter(rows)
    while some := list(islice(waiting, ROWS)):
        codes = launched_code(store, (_launch(row) for row in some), readers=readers)
        for row in some:
            found = codes[_launch(row)]
            yield {**row, "code": found.code, "code_commit": found.commit}


def _launch(row: Row) -> tuple[str, str]:
    return str(row["project"]), str(row["launch"])


def launched_code(
    store: ObjectStore, launches: Iterable[tuple[str, str]], *, readers: int = READERS
) -> Mapping[tuple[str, str], LaunchedCode]:
    """
    Return the code of `launches`, each given as a project and the ID of a launch.

    A spec that is missing or malformed has no code: its row is kept without code.

    Raises:
        StoreError: Unreachable.
    """
    wanted = sorted(set(launches))
    found = dict(zip(wanted, _read_all(store, [layout.spec(*each) for each in wanted], readers)))
    digests = sorted({_text(spec, "origin") or "" for spec in found.values()} - {""})
    read = _read_all(store, [layout.origin(each) for each in digests], readers)
    origins = dict(zip(digests, read))
    return {name: _code(spec, origins) for name, spec in found.items()}


def _code(spec: Mapping[str, Any], origins: Mapping[str, Mapping[str, Any]]) -> LaunchedCode:
    code = _table(_table(spec, "launch"), "code")
    commit = _text(code, "commit")
    name = _text(code, "digest") or _text(code, "ref")
    if commit and not name:
        name = f"{_text(code, 'url') or ''}@{commit}"
    if not commit:
        tree = _table(origins.get(_text(spec, "origin") or "", {}), "tree")
        commit = _text(tree, "commit")
    return LaunchedCode(code=name, commit=commit)


def _read_all(store: ObjectStore, keys: Sequence[str], readers: int) -> list[Mapping[str, Any]]:
    """Return the objects at `keys`; a single reader uses the caller's thread."""
    if readers == 1:
        return [_read(store, key) for key in keys]
    with ThreadPoolExecutor(readers) as pool:
        return list(pool.map(lambda key: _read(store, key), keys))


def _read(store: ObjectStore, key: str) -> Mapping[str, Any]:
    try:
        found = store.read(key, limit_bytes=RECORD_BYTES)
        assert found is not None
        record = json.loads(found.data)
    except (NotFoundError, OversizeError, ValueError, RecursionError):
        return {}
    return record if isinstance(record, dict) else {}


def _table(record: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    found = record.get(name)
    return found if isinstance(found, dict) else {}


def _text(record: Mapping[str, Any], name: str) -> str | None:
    """Return a text that a row can hold: users write origins, and JSON has texts that are none."""
    found = record.get(name)
    is_fit = isinstance(found, str) and 0 < len(found) <= MAX_CHARACTERS and found.isprintable()
    return found if is_fit else None
