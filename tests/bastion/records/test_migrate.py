"""Older schemas are migrated step by step; newer ones are refused in plain words."""

from __future__ import annotations

import json

import pytest

from bastion.clock import VirtualClock
from bastion.errors import RecordError
from bastion.job import JobRecord
from bastion.machine import Machine
from bastion.records.coding import migrate
from bastion.records.coding.codec import plain
from bastion.records.coding.migrate import Plain, Schema
from bastion.records.root import Root, RootWriter, decode_root
from bastion.spec.request import Request
from bastion.store.memory import MemoryStore
from quota.amounts import Amounts


def _commits_became_seq(old: Plain) -> Plain:
    return {**{k: v for k, v in old.items() if k != "commits"}, "seq": old["commits"]}


def _now_became_seconds(old: Plain) -> Plain:
    return {**old, "now": old["now"] / 1000}


def _nothing_changed(old: Plain) -> Plain:
    return old


# Schemas that were never released: 1 counted commits in milliseconds, 2 in seconds.
SCHEMA = Schema(
    current=4, steps={1: _now_became_seconds, 2: _commits_became_seq, 3: _nothing_changed}
)


def test_an_older_root_is_brought_up_step_by_step() -> None:
    """A root two schemas old is read as the current one, one step after the other."""
    old = {"schema": 2, "epoch": 3, "commits": 9, "now": 5.0, "write_id": "w"}
    assert decode_root(json.dumps(old).encode(), schema=SCHEMA) == Root(
        epoch=3, seq=9, now=5.0, write_id="w"
    )
    older = {**old, "schema": 1, "now": 5000.0}
    assert decode_root(json.dumps(older).encode(), schema=SCHEMA).now == 5.0


def test_the_next_commit_writes_todays_schema() -> None:
    """Migrated records are written in the current schema, and need no further step."""
    old = {"schema": 2, "epoch": 3, "commits": 9, "now": 5.0, "write_id": "w"}
    root = decode_root(json.dumps(old).encode(), schema=SCHEMA)
    clock = VirtualClock()
    data = RootWriter(MemoryStore(clock.wall), clock).encoded(root)
    assert decode_root(data) == root


def test_a_newer_schema_is_refused_with_what_to_do() -> None:
    """The error has both schemas, and says to run the newer version."""
    with pytest.raises(RecordError, match=r"^state/root.json: is of schema 5, and Bastion") as told:
        decode_root(b'{"schema":5,"what":"nobody knows"}')
    assert str(told.value).endswith("knows schemas up to 4")
    assert told.value.hint == "a newer Bastion wrote it: run that version or a later one here"


def test_a_schema_below_the_first_step_is_refused() -> None:
    """If no step applies, the error names the oldest readable schema."""
    with pytest.raises(RecordError, match="knows schemas from 1 to 4"):
        SCHEMA.current_bytes(b'{"x": 1, "schema": -2}', key="state/root.json")


def test_the_steps_of_today_have_no_gap() -> None:
    """From the oldest on, every schema has a step to the next."""
    schema = migrate.ROOT
    oldest = min(schema.steps, default=schema.current)
    assert sorted(schema.steps) == list(range(oldest, schema.current))


def first_schema(**more: object) -> bytes:
    """Return a root in the first schema."""
    old = {"schema": 1, "epoch": 3, "seq": 9, "now": 5.0, "write_id": "w", **more}
    return json.dumps(old).encode()


def test_a_root_of_the_first_schema_without_machines_is_gone_on_with() -> None:
    """Waiting jobs keep waiting: only machines have names in the bucket that changed."""
    waiting = plain(
        JobRecord(
            id="j-1", project="p", user="u", launch="j-1", ulid="U", submitted_at=1.0,
            request=Request(per_replica=Amounts({"h100": 1})),
        )
    )  # fmt: skip
    root = decode_root(first_schema(jobs={"j-1": waiting}))
    assert (root.schema, list(root.jobs)) == (4, ["j-1"])


def test_a_root_of_the_second_schema_has_no_name_yet() -> None:
    """A root without the bucket's own name is read as it is, without a name."""
    root = decode_root(b'{"schema":2,"epoch":3,"seq":9,"now":5.0,"write_id":"w"}')
    assert (root.schema, root.seq, root.bucket) == (4, 9, "")


def test_machines_of_the_first_schema_are_never_taken_for_silent() -> None:
    """Such a root is refused, with how to end the machines with the older version."""
    machine = plain(Machine(name="gpu-1-0", pool="gpu"))
    job = {"id": "j-1", "attempt": {"number": 1}}
    for more in ({"machines": {"gpu-1-0": machine}}, {"jobs": {"j-1": job}}):
        with pytest.raises(RecordError, match=r"^state/root.json: has [01] machines and") as told:
            decode_root(first_schema(**more))
        assert "max_machines = 0" in told.value.hint


@pytest.mark.parametrize(
    "data",
    [
        b'{"schema":1,"epoch":',
        b'{"schema":1,"machines":[1]}',
        b'{"schema":1,"jobs":{"j":5}}',
        b'{"schema":%s}' % (b"9" * 5000),
        b'{"schema":1,"jobs":%s' % (b"[" * 100_000),
    ],
)
def test_a_damaged_older_root_is_a_record_that_cannot_be_read(data: bytes) -> None:
    """Cut, of odd shape, with absurd numbers or depth: each is refused as a record, none raises."""
    with pytest.raises(RecordError):
        decode_root(data)


@pytest.mark.parametrize("data", [b"", b"{}", b"[]", b'{"schema":"1"}', b'{"schema":true}'])
def test_what_names_no_schema_is_left_to_the_reader(data: bytes) -> None:
    """Bytes without a schema are unchanged: their problems are reported by field."""
    assert SCHEMA.current_bytes(data, key="k") == data
