"""The events of a job, from the event log, in bounded pieces."""

from __future__ import annotations

import gzip
from dataclasses import replace

from bastion.records.coding.codec import encode
from bastion.records.keys import layout
from bastion.records.root import Event, Root, Segment
from bastion.store.memory import MemoryStore
from bastion.web.reading.trail import FIRST, LAST, Trail, events_in
from tests.rigs.job_records import running

JOB = "train-0123456789"


def _event(n: int, job: str = JOB, what: str = "running") -> Event:
    return Event(n=n, at=1000.0 + n, job=job, project="p", what=what, text='says "events":[1] here')


def _root() -> Root:
    job = replace(running(), name='"events":[{"n":7}]')
    return Root(
        epoch=1,
        seq=1,
        now=1.0,
        write_id="w",
        jobs={job.id: job},
        events=(_event(5), _event(6, "other-1")),
        sealed=(Segment(first=3, events=(_event(3), _event(4, f"{JOB}.17"))),),
    )


def test_the_events_of_a_root_are_found_without_its_jobs() -> None:
    """Root's and pending segments' events are found, whatever texts of jobs look like."""
    assert [event["n"] for event in events_in(encode(_root()))] == [5, 6, 3, 4]
    assert events_in(b"") == []
    assert events_in(b'{"events":[{"n":') == []


def test_a_trail_joins_segments_and_root_in_order_and_once() -> None:
    """Sealed, pending and newest events of a job or an array's tasks are included."""
    store = MemoryStore(lambda: 1010.0)
    lines = [encode(_event(n)) for n in range(4)] + [b"{spoilt " + JOB.encode()]
    store.create(layout.events(0), b"\n".join(lines))
    store.create(layout.ROOT, gzip.compress(encode(_root())))
    happened = Trail(store).of(JOB, since=1000.0, until=None)
    assert [event.number for event in happened.events] == [0, 1, 2, 3, 4, 5]
    assert not happened.is_cut


def test_a_segment_that_is_written_after_later_ones_is_found() -> None:
    """Segments are written in parallel: what is listed once says nothing about what is before."""
    store = MemoryStore(lambda: 1010.0)
    trail = Trail(store)
    for n in (0, 2, 1):
        store.create(layout.events(n), encode(_event(n)))
        happened = trail.of(JOB, since=1000.0, until=None)
    assert [event.number for event in happened.events] == [0, 1, 2]


def test_of_a_long_life_both_ends_are_read() -> None:
    """A job that spans hundreds of segments costs a bounded number of reads."""
    store = MemoryStore(lambda: 1000.0)
    for n in range(300):
        store.create(layout.events(n), encode(_event(n)))
    happened = Trail(store).of(JOB, since=900.0, until=None)
    assert len(happened.events) == FIRST + LAST
    assert happened.is_cut
    assert happened.events[0].number == 0
    assert happened.events[-1].number == 299


def test_segments_before_its_submission_and_after_its_end_are_not_read() -> None:
    """Segments have the time of their writing, so only those of its life are read."""
    now = 0.0
    store = MemoryStore(lambda: now)
    for n in range(20):
        now = n * 1000.0
        store.create(layout.events(n), encode(_event(n)))
    happened = Trail(store).of(JOB, since=5000.0, until=7000.0)
    assert [event.number for event in happened.events] == [5, 6, 7, 8]
