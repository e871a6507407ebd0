"""Schemas: older records are brought up step by step, newer ones are refused in plain words."""

from __future__ import annotations

import json

import pytest

from bastion.clock import VirtualClock
from bastion.errors import RecordError
from bastion.records import migrate
from bastion.records.migrate import Plain, Schema
from bastion.records.root import Root, RootWriter, decode_root
from bastion.store.memory import MemoryStore


def _commits_became_seq(old: Plain) -> Plain:
    return {**{k: v for k, v in old.items() if k != "commits"}, "seq": old["commits"]}


def _now_became_seconds(old: Plain) -> Plain:
    return {**old, "now": old["now"] / 1000}


# Schemas that were never released: -1 counted commits in milliseconds, 0 in seconds.
SCHEMA = Schema(current=1, steps={-1: _now_became_seconds, 0: _commits_became_seq})


def test_an_older_root_is_brought_up_step_by_step() -> None:
    """A root two schemas old is read as today's, each step seeing what the one before made."""
    old = {"schema": 0, "epoch": 3, "commits": 9, "now": 5.0, "write_id": "w"}
    assert decode_root(json.dumps(old).encode(), schema=SCHEMA) == Root(
        epoch=3, seq=9, now=5.0, write_id="w"
    )
    older = {**old, "schema": -1, "now": 5000.0}
    assert decode_root(json.dumps(older).encode(), schema=SCHEMA).now == 5.0


def test_the_next_commit_writes_todays_schema() -> None:
    """What was migrated is written as today's, and reads without a step."""
    old = {"schema": 0, "epoch": 3, "commits": 9, "now": 5.0, "write_id": "w"}
    root = decode_root(json.dumps(old).encode(), schema=SCHEMA)
    clock = VirtualClock()
    data = RootWriter(MemoryStore(clock.wall), clock).encoded(root)
    assert decode_root(data) == root


def test_a_newer_schema_is_refused_with_what_to_do() -> None:
    """Both schemas are named, and the way out is to run the newer version."""
    with pytest.raises(RecordError, match=r"^state/root.json: is of schema 2, and Bastion") as told:
        decode_root(b'{"schema":2,"what":"nobody knows"}')
    assert str(told.value).endswith("knows schemas up to 1")
    assert told.value.hint == "a newer Bastion wrote it: run that version or a later one here"


def test_a_schema_below_the_first_step_is_refused() -> None:
    """What nothing leads up from is told with the oldest schema that can be read."""
    with pytest.raises(RecordError, match="knows schemas from -1 to 1"):
        SCHEMA.current_bytes(b'{"x": 1, "schema": -2}', key="state/root.json")


def test_the_steps_of_today_have_no_gap() -> None:
    """From the oldest step on, every schema has one that leads to the next."""
    schema = migrate.ROOT
    oldest = min(schema.steps, default=schema.current)
    assert sorted(schema.steps) == list(range(oldest, schema.current))


@pytest.mark.parametrize("data", [b"", b"{}", b"[]", b'{"schema":"1"}', b'{"schema":true}'])
def test_what_names_no_schema_is_left_to_the_reader(data: bytes) -> None:
    """Bytes without a schema pass untouched: what is wrong with them is told by field."""
    assert SCHEMA.current_bytes(data, key="k") == data
