"""Segments: a log cut anywhere, by any writer, is the same log."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bastion.errors import StoreError
from bastion.logs.pace import CLOUD, LOCAL, Pace, due_at
from bastion.logs.segments import (
    LogMismatchError,
    offset_of,
    segment_key,
    shipped_bytes,
    write_segment,
)
from bastion.store.memory import Fault, FaultyStore, MemoryStore

PREFIX = "logs/p/j/a1/r0/h0/p0/"


def new_store() -> MemoryStore:
    """Return an empty bucket."""
    return MemoryStore(lambda: 0.0)


def stored(store: MemoryStore) -> bytes:
    """Return the log, read by names alone."""
    whole = b""
    for entry in store.list(PREFIX):
        assert offset_of(entry.key) == len(whole)
        found = store.read(entry.key)
        assert found is not None
        whole += found.data
    return whole


@settings(max_examples=60)
@given(
    st.binary(min_size=1, max_size=300),
    st.lists(st.tuples(st.integers(1, 80), st.booleans()), max_size=30),
)
def test_writers_that_die_and_restart_leave_one_log(
    log: bytes, tries: list[tuple[int, bool]]
) -> None:
    """A writer that continues from the listing or its own offset leaves no gap or overlap."""
    store = new_store()
    believed = 0
    for size, begins_anew in tries:
        if begins_anew:
            believed = shipped_bytes(store, PREFIX)
        data = log[believed : believed + size]
        if data:
            write_segment(store, PREFIX, believed, data)
            # A writer whose answer was lost still believes the old offset.
    end = shipped_bytes(store, PREFIX)
    while end < len(log):
        end = write_segment(store, PREFIX, end, log[end : end + 50])
    assert stored(store) == log


@pytest.mark.parametrize(
    ("standing", "ours"), [(b"abc", b"abc"), (b"ab", b"abc"), (b"abcd", b"abc")]
)
def test_an_existing_segment_counts(standing: bytes, ours: bytes) -> None:
    """An earlier writer's segment of the same log, shorter or longer, counts as written."""
    store = new_store()
    write_segment(store, PREFIX, 7, standing)
    assert write_segment(store, PREFIX, 7, ours) == 7 + len(standing)


@pytest.mark.parametrize("standing", [b"", b"xbc", b"abx"])
def test_foreign_bytes_are_an_error(standing: bytes) -> None:
    """A segment with other bytes than ours is an error, never hidden."""
    store = new_store()
    store.create(segment_key(PREFIX, 0), standing)
    with pytest.raises(LogMismatchError, match="not this log's"):
        write_segment(store, PREFIX, 0, b"abc")


def test_a_lost_answer_is_recognised() -> None:
    """The write that landed without an answer is recognised at the next try."""
    faults = iter([Fault.AFTER])
    store = FaultyStore(new_store(), lambda *_: next(faults, None))
    with pytest.raises(StoreError):
        write_segment(store, PREFIX, 0, b"abc")
    assert write_segment(store, PREFIX, 0, b"abc") == 3


def test_segments_after_a_gap_do_not_count() -> None:
    """Only bytes before the first gap are shipped."""
    store = new_store()
    write_segment(store, PREFIX, 0, b"abc")
    write_segment(store, PREFIX, 5, b"def")
    assert shipped_bytes(store, PREFIX) == 3


@pytest.mark.parametrize(
    ("key", "offset"),
    [
        (PREFIX + "000000000113.log", 113),
        (PREFIX + "000000000000.log", 0),
        (PREFIX + "x.log", None),
        (PREFIX + "12.txt", None),
    ],
)
def test_names_have_offsets(key: str, offset: int | None) -> None:
    """The offset is read from the name, and only from a segment's name."""
    assert offset_of(key) == offset


@pytest.mark.parametrize(
    ("pace", "shipped", "size", "age", "urgent", "wait"),
    [
        (CLOUD, 0, 0, 0.0, False, None),
        (CLOUD, 5, 5, 0.0, False, None),
        (CLOUD, 0, 1, 0.0, False, 0.0),
        (CLOUD, 0, 1, 9999.0, False, 0.0),
        (CLOUD, 1, 2, 10.0, False, 2.0),
        (CLOUD, 1, 2, 301.0, False, 60.0),
        (CLOUD, 1, 2, 301.0, True, 2.0),
        (CLOUD, 1, 1 + 256 * 1024, 301.0, False, 0.0),
        (LOCAL, 1, 2, 10.0, False, 0.1),
        (LOCAL, 1, 2, 61.0, False, 5.0),
        (LOCAL, 1, 2, 9999.0, True, 0.1),
    ],
)
def test_when_a_log_is_flushed(
    pace: Pace, shipped: int, size: int, age: float, urgent: bool, wait: float | None
) -> None:
    """First bytes are immediate; young or followed logs soon; old ones rarely or in bulk."""
    at = due_at(
        pace,
        shipped_bytes=shipped,
        size_bytes=size,
        started_at=1000.0,
        waiting_since=1000.0 + age,
        urgent_until=1000.0 + age + 1 if urgent else 0.0,
    )
    assert (None if at is None else at - 1000.0 - age) == (
        None if wait is None else pytest.approx(wait)
    )
