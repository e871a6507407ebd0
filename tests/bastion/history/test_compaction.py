"""Compaction: the record is the same before, during and after it, even if it is killed."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import TypeVar

import pytest

from bastion.errors import ConflictError, StoreError
from bastion.history import Record, compaction, recorded_events
from bastion.history.compaction import compact, create_file
from bastion.history.coverage import Span, StoredFile, covered, stored_files
from bastion.history.tables import TABLES
from bastion.records.coding.codec import encode
from bastion.records.keys import layout
from bastion.records.root import Event, Root, Segment
from bastion.store.memory import MemoryStore
from bastion.store.port import READ_LIMIT_BYTES, Entry, Object, Version, Written
from tests.bastion.history.log import DAY_S, T0, Bucket
from tests.rigs.wrapped import Wrapped

_T = TypeVar("_T")


def days(bucket: Bucket, number: int = 3, a_day: int = 6) -> list[Event]:
    """Seal the ends of some days, a few in each segment; none ends with its day."""
    events = [
        bucket.end(T0 + day * DAY_S + i * DAY_S / a_day)
        for day in range(number)
        for i in range(a_day)
    ]
    for i in range(0, len(events), 4):
        bucket.seal(*events[i : i + 4])
    return events


def test_days_that_are_over_become_one_file_each() -> None:
    """Each past day is one file per table; the current day is below `recent`."""
    bucket = Bucket()
    events = days(bucket)
    done = compact(bucket.store)
    assert done.events == len(events)
    assert bucket.keys("history/attempts/") == [
        "history/attempts/dt=2024-10-04/000000000000-000000000006.parquet",
        "history/attempts/dt=2024-10-05/000000000006-000000000012.parquet",
    ]
    assert [row.event for row in bucket.rows()] == [event.n for event in events]
    assert compact(bucket.store).files == ()


def test_a_row_reads_the_same_from_parquet_as_from_the_log() -> None:
    """Every column of a row survives: numbers, times, text of any kind, and what is null."""
    bucket = Bucket()
    odd = {
        "text": 'it said "no"\n\t\x00 \u2028 é 😀 \\',
        "name": "x,y;'z'",
        "machines": ("gpu-1-0", "gpu'1-1"),
        "exit_code": -9,
        "lost_s": 0.1,
        "memory_bytes": 1 << 40,
        "stop_reason": "preempt",
    }
    spec = b'{"launch":{"code":{"digest":"d1"}},"origin":"o1"}'
    bucket.store.create(layout.spec("blue", "train-0"), spec)
    bucket.store.create(layout.origin("o1"), b'{"tree":{"commit":"abc123"}}')
    bucket.seal(bucket.end(T0 + 1.123456, **odd), bucket.end(T0 + 2))
    bucket.seal(bucket.end(T0 + DAY_S), bucket.end(T0 + DAY_S + 7200))
    before = bucket.rows()
    assert list(Record(bucket.store)._from_log(None, None)) == before
    compact(bucket.store)
    assert len(bucket.keys("history/attempts/")) == 1
    assert bucket.rows() == before
    assert (before[0].code, before[0].code_commit) == ("d1", "abc123")
    assert before[1].code is None
    assert before[0].text == odd["text"]
    assert before[0].ended_at == pytest.approx(T0 + 1.123456, abs=1e-6)


@pytest.mark.parametrize("commit", [b"\\ud800", b"a" * 1_000_000, b"\\u0000", b""])
def test_an_odd_origin_costs_only_its_own_commit(commit: bytes) -> None:
    """Users write origins: a text that is none, or is endless, keeps no row from the record."""
    bucket = Bucket()
    spec = b'{"launch":{"code":{"digest":"d1"}},"origin":"o1"}'
    bucket.store.create(layout.spec("blue", "train-0"), spec)
    bucket.store.create(layout.origin("o1"), b'{"tree":{"commit":"%s"}}' % commit)
    bucket.seal(bucket.end(T0, launch="train-0"), bucket.end(T0 + 7200))
    assert compact(bucket.store).events == 2
    assert [(row.code, row.code_commit) for row in bucket.rows()] == [("d1", None), (None, None)]


def test_a_segment_that_is_not_written_yet_is_waited_for() -> None:
    """Its events are read from root, in order, and no file claims to have them."""
    bucket = Bucket()
    events = [bucket.end(T0 + i * 3600) for i in range(9)]
    held = Segment(first=3, events=tuple(events[3:6]))
    root = Root(epoch=1, seq=1, now=T0, write_id="w", sealed=(held,), next_event=9)
    bucket.store.create(layout.ROOT, encode(root))
    bucket.seal(*events[:3])
    bucket.seal(*events[6:])
    assert [event.n for event in recorded_events(bucket.store)] == [*range(9)]
    assert compact(bucket.store).events == 3
    assert [row.event for row in bucket.rows()] == [*range(9)]
    bucket.seal(*events[3:6])
    found = bucket.store.read(layout.ROOT)
    assert found is not None
    written = encode(replace(root, sealed=()))
    bucket.store.swap(layout.ROOT, written, if_version=found.version)
    assert compact(bucket.store).events == 6
    assert [row.event for row in bucket.rows()] == [*range(9)]


def test_little_that_is_new_stays_in_the_log() -> None:
    """Events that span less than an hour make no file, but are still read."""
    bucket = Bucket()
    bucket.seal(bucket.end(T0), bucket.end(T0 + 3000))
    assert compact(bucket.store).files == ()
    assert len(bucket.rows()) == 2


class _KilledError(BaseException):
    """The process is gone: no code may catch this."""


class Killing(Wrapped):
    """A store that kills at its n-th operation, before or after it was done."""

    def __init__(self, store: MemoryStore, at: int, *, after: bool) -> None:
        super().__init__(store)
        self._left, self._after = at, after

    def _step(self, work: Callable[[], _T]) -> _T:
        self._left -= 1
        if self._left >= 0:
            return work()
        if self._after:
            work()
        raise _KilledError

    def read(
        self, key: str, *, unless: Version | None = None, limit_bytes: int = READ_LIMIT_BYTES
    ) -> Object | None:
        """See the port."""
        return self._step(lambda: self._store.read(key, unless=unless, limit_bytes=limit_bytes))

    def create(self, key: str, data: bytes) -> Written:
        """See the port."""
        return self._step(lambda: self._store.create(key, data))

    def delete(self, key: str) -> None:
        """See the port."""
        self._step(lambda: self._store.delete(key))

    def list(self, prefix: str, *, start_after: str = "", limit: int = 1000) -> tuple[Entry, ...]:
        """See the port."""
        return self._step(lambda: self._store.list(prefix, start_after=start_after, limit=limit))


def killed_everywhere(*, after: bool, every: int = 1) -> Iterator[Bucket]:
    """Yield a bucket for every operation at which a compaction can be killed, killed there."""
    for at in range(0, 10_000, every):
        bucket = Bucket()
        days(bucket, number=2, a_day=3)
        try:
            compact(Killing(bucket.store, at, after=after))
        except _KilledError:
            yield bucket
        else:
            return


def check_killed(*, after: bool, every: int) -> None:
    """Killed at operations of the store, the record is whole, then and after the next one."""
    count = 0
    for bucket in killed_everywhere(after=after, every=every):
        count += 1
        assert [row.event for row in bucket.rows()] == list(range(6)), count
        bucket.seal(bucket.end(T0 + 2 * DAY_S), bucket.end(T0 + 2 * DAY_S + 4000))
        compact(bucket.store)
        assert [row.event for row in bucket.rows()] == list(range(8)), count
        assert in_day_files(bucket) == list(range(6)), count
    assert count * every > 20


@pytest.mark.parametrize("after", [False, True])
def test_killed_no_row_is_lost_or_doubled(after: bool) -> None:
    """If it is killed before or after an operation of the store, the record stays complete."""
    check_killed(after=after, every=11)


@pytest.mark.prove
@pytest.mark.parametrize("after", [False, True])
def test_killed_anywhere_no_row_is_lost_or_doubled(after: bool) -> None:
    """The same holds for every operation of the store."""
    check_killed(after=after, every=1)


def test_the_property_catches_a_compaction_that_trusts_its_furthest_table(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A mutant: killed between two tables, it continues after one, and the other has a gap."""
    monkeypatch.setattr(compaction, "min", max, raising=False)
    with pytest.raises(AssertionError):
        check_killed(after=True, every=1)


def in_day_files(bucket: Bucket) -> list[int]:
    """The events whose rows the files of days hold, as any program reads them, in every table."""
    found: dict[str, list[int]] = {table.name: [] for table in TABLES}
    for each in stored_files(bucket.store):
        if each.name.date:
            found[each.name.table] += range(each.name.first, each.name.after)
    first, *others = (sorted(events) for events in found.values())
    assert all(each == first for each in others), found
    return first


class TakesEveryFile(Record):
    """A mutant: it reads every file of the record, and the log after the last of them."""

    def _spans(self, files: Sequence[StoredFile], table: str) -> tuple[Span, ...]:
        return tuple(
            Span(file=each, first=each.name.first, after=each.name.after)
            for each in files
            if each.name.table == table
        )


def test_the_property_catches_a_reader_that_takes_every_file() -> None:
    """A reader that does not walk the events counts a day and what it was made of twice."""
    bucket = Bucket()
    days(bucket, number=2, a_day=3)
    compact(bucket.store)
    mutant = [row.event for row in TakesEveryFile(bucket.store).attempts()]
    assert mutant != list(range(6))


def test_two_bastions_at_once_double_nothing() -> None:
    """Two concurrent compactions with different times leave every row once."""
    bucket = Bucket()
    days(bucket, number=1)
    compact(bucket.store)
    other = MemoryStore(lambda: bucket.now)
    for key in bucket.keys(""):
        if not key.startswith(layout.HISTORY):
            found = bucket.store.read(key)
            assert found is not None
            other.create(key, found.data)
    later = [bucket.end(T0 + DAY_S + i * 3600.0) for i in range(5)]
    for store in (bucket.store, other):
        lines = b"".join(encode(event) + b"\n" for event in later)
        store.create(layout.events(later[0].n), lines)
        compact(store)
    for entry in other.list(layout.HISTORY):
        found = other.read(entry.key)
        assert found is not None
        create_file(bucket.store, entry.key, found.data)
    assert [row.event for row in bucket.rows()] == list(range(bucket.n))


def test_a_spoilt_record_is_set_aside_and_the_others_are_kept() -> None:
    """A line that is no event, and a row that fits no file, are named; the rest is compacted."""
    bucket = Bucket()
    good = [bucket.end(T0), bucket.end(T0 + 100, lost_s=float("inf")), bucket.end(T0 + 5000)]
    data = encode(good[0]) + b"\n{no event}\n" + encode(good[1]) + b"\n" + encode(good[2]) + b"\n"
    bucket.store.create(layout.events(0), data)
    done = compact(bucket.store)
    place = f"{layout.events(0)}:2"
    assert set(done.spoilt) == {place, "event 1"}
    aside = bucket.store.read(layout.aside(place))
    assert aside is not None
    assert aside.data == b"{no event}"
    assert [row.event for row in bucket.rows()] == [0, 2]


@pytest.mark.parametrize(
    ("at", "odd"),
    [
        (5e9, {}),
        (1e20, {"instance_type": "p5.48xlarge", "terms": "on_demand", "machine_s": 60.0}),
        (T0 + 100, {"submitted_at": 5e9}),
        (T0 + 100, {"exit_code": 1 << 70}),
        (T0 + 100, {"lost_s": float("nan")}),
    ],
)
def test_a_row_that_no_file_holds_hides_no_other(at: float, odd: dict[str, object]) -> None:
    """It is left out and named, whether it is read from the log or from files."""
    bucket = Bucket()
    bucket.seal(bucket.end(T0))
    event = bucket.end(at, **odd)
    bucket.store.create(layout.events(event.n), encode(event) + b"\n")
    bucket.seal(bucket.end(T0 + 5000))
    record = Record(bucket.store)
    assert [row.event for row in record.attempts()] == [0, 2]
    assert "event 1" in record.spoilt
    assert "event 1" in compact(bucket.store).spoilt
    assert [row.event for row in bucket.rows()] == [0, 2]


def test_a_spoilt_file_is_made_again() -> None:
    """A recent file that is no longer Parquet is set aside and created from the log."""
    bucket = Bucket()
    days(bucket, number=1)
    compact(bucket.store)
    (key,) = bucket.keys("history/recent/attempts/")
    found = bucket.store.read(key)
    assert found is not None
    bucket.store.swap(key, b"PAR1 half a file", if_version=found.version)
    bucket.seal(bucket.end(T0 + DAY_S), bucket.end(T0 + DAY_S + 4000))
    done = compact(bucket.store)
    assert set(done.spoilt) == {key}
    assert [row.event for row in bucket.rows()] == list(range(bucket.n))
    assert in_day_files(bucket) == list(range(6))


def test_a_foreign_object_at_the_key_of_a_file_is_replaced() -> None:
    """An object that is not Parquet is replaced; an existing file stays."""
    store = MemoryStore(lambda: 0.0)
    store.create("history/x", b"")
    whole = b"PAR1" + b"x" * 20 + b"PAR1"
    assert create_file(store, "history/x", whole)
    assert not create_file(store, "history/x", b"PAR1" + b"y" * 20 + b"PAR1")
    found = store.read("history/x")
    assert found is not None
    assert found.data == whole


def test_clocks_that_jump_lose_nothing() -> None:
    """A store's clock that jumps a year ahead and back leaves every row, once."""
    bucket = Bucket()
    first = [bucket.end(T0), bucket.end(T0 + 100)]
    jumped = [bucket.end(T0 + 365 * DAY_S), bucket.end(T0 + 365 * DAY_S)]
    back = [bucket.end(T0 + 200), bucket.end(T0 + 2 * DAY_S)]
    late = [bucket.end(T0 + 400 * DAY_S), bucket.end(T0 + 401 * DAY_S)]
    for events in (first, jumped, back, late):
        bucket.seal(*events)
        compact(bucket.store)
        assert [row.event for row in bucket.rows()] == list(range(events[-1].n + 1))
    assert in_day_files(bucket) == list(range(7))


def test_recent_files_leave_a_day_after_their_days() -> None:
    """Files below `recent` stay for readers, and are deleted once their days are a day old."""
    bucket = Bucket()
    days(bucket, number=2)
    compact(bucket.store)
    assert bucket.keys("history/recent/")
    for day in range(2, 6):
        bucket.seal(bucket.end(T0 + day * DAY_S), bucket.end(T0 + day * DAY_S + 4000))
        compact(bucket.store)
    left = [layout.parse_history(key) for key in bucket.keys("history/recent/attempts/")]
    assert all(name is not None and name.first >= 12 for name in left)
    assert [row.event for row in bucket.rows()] == list(range(bucket.n))


def test_recent_files_stay_for_readers_after_a_pause_of_days() -> None:
    """A file that was old when its day was written is kept for a day from then on."""
    bucket = Bucket()
    days(bucket, number=1)
    compact(bucket.store)
    bucket.seal(bucket.end(T0 + 4 * DAY_S), bucket.end(T0 + 4 * DAY_S + 4000))
    done = compact(bucket.store)
    assert bucket.keys("history/attempts/")
    assert not done.deleted
    bucket.seal(bucket.end(T0 + 6 * DAY_S), bucket.end(T0 + 6 * DAY_S + 4000))
    assert compact(bucket.store).deleted
    assert [row.event for row in bucket.rows()] == list(range(bucket.n))


def test_a_store_out_of_reach_ends_it() -> None:
    """A failing store ends a compaction with its error; the next one continues."""

    class Failing(Wrapped):
        def create(self, key: str, data: bytes) -> Written:
            raise StoreError("out of reach")

    bucket = Bucket()
    days(bucket, number=1)
    with pytest.raises(StoreError):
        compact(Failing(bucket.store))
    compact(bucket.store)
    assert covered(stored_files(bucket.store), "attempts") == 6


def test_what_code_ran_is_in_the_record() -> None:
    """A row names the bundle of its launch and the commit on which it is based."""
    bucket = Bucket()
    digest = "c" * 64
    spec = b'{"launch":{"code":{"kind":"bundle","digest":"%s"}},"origin":"o1"}' % digest.encode()
    bucket.store.create(layout.spec("blue", "train-0"), spec)
    bucket.store.create(layout.origin("o1"), b'{"tree":{"commit":"abc123"}}')
    git = b'{"launch":{"code":{"kind":"git","url":"https://h/r","commit":"def"}}}'
    bucket.store.create(layout.spec("blue", "train-1"), git)
    bucket.store.create(layout.spec("blue", "train-2"), b"not json")
    bucket.seal(bucket.end(T0), bucket.end(T0 + 1), bucket.end(T0 + 2), bucket.end(T0 + 9000))
    compact(bucket.store)
    found = [(row.code, row.code_commit) for row in bucket.rows()]
    assert found == [(digest, "abc123"), ("https://h/r@def", "def"), (None, None), (None, None)]


def test_it_is_no_conflict_that_another_wrote_the_same() -> None:
    """A file that appears in the meantime counts as written."""

    class Overtaken(Wrapped):
        def create(self, key: str, data: bytes) -> Written:
            self._store.create(key, data)
            raise ConflictError(key)

    bucket = Bucket()
    days(bucket)
    compact(Overtaken(bucket.store))
    assert [row.event for row in bucket.rows()] == list(range(bucket.n))
