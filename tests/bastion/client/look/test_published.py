"""What the bastion published, as clients read it."""

from __future__ import annotations

import gzip
import json

import pytest

from bastion.client.look.find_job import find_all
from bastion.client.look.published import Published
from bastion.errors import NotFoundError, RecordError
from bastion.records.keys import layout
from bastion.store import Entry
from bastion.store.memory import FaultyStore
from tests.rigs.scripted_bastion import NOW, end, publish, put, row, world
from tests.rigs.wrapped import Wrapped


def test_an_unchanged_view_is_neither_read_nor_parsed_again() -> None:
    """Polling an unchanged queue costs one conditional read."""
    store, clock = world()
    publish(store, "queue", {"jobs": [row("a-0123456789")]})
    place = Published(store, clock.wall)
    first = place.queue()
    assert place.queue() is first
    publish(store, "queue", {"jobs": []})
    assert place.queue() == ()


def test_a_view_that_was_deleted_is_told_as_such() -> None:
    """If the bastion has published its status, the hint is not to start one."""
    store, clock = world()
    place = Published(store, clock.wall)
    for name, read in (("queue", place.queue), ("pool", place.pools)):
        with pytest.raises(NotFoundError, match=f"view/{name}.json is missing: it was deleted"):
            read()
    store.delete(layout.view("status"))
    with pytest.raises(NotFoundError, match="no bastion has published anything here yet"):
        place.queue()


def test_a_status_of_the_same_commit_keeps_a_view_true() -> None:
    """Unchanged views are not rewritten; the status says until when they are valid."""
    store, clock = world()
    publish(store, "queue", {"seq": 7, "jobs": []})
    place = Published(store, clock.wall)
    assert place.queue_as_of() == NOW + 10
    publish(store, "status", {"now": NOW + 500, "views_seq": 7})
    assert place.queue_as_of() == NOW + 500
    publish(store, "status", {"now": NOW + 600, "views_seq": 8})
    assert place.queue_as_of() == NOW + 10
    publish(store, "pool", {"seq": 9, "machines": []})
    publish(store, "status", {"now": NOW + 700, "views_seq": 7, "pool_seq": 9})
    assert (place.queue_as_of(), place.pools().as_of) == (NOW + 700, NOW + 700)
    publish(store, "status", {"now": NOW + 800, "views_seq": 7, "pool_seq": 10})
    assert (place.queue_as_of(), place.pools().as_of) == (NOW + 800, NOW + 10)


def test_one_look_reads_a_view_once_for_many_names() -> None:
    """A thousand names cost one read of the queue, and the next look sees changes."""
    store, clock = world()
    ids = [f"a-{number:010}" for number in range(1_000)]
    publish(store, "queue", {"jobs": [row(each) for each in ids]})
    reads: list[str] = []

    def count(operation: str, key: str) -> None:
        reads.extend([key] if operation == "read" else [])

    place = Published(FaultyStore(store, count), clock.wall)
    look = place.of_one_look()
    assert [find_all(look, each, exact=True)[0].id for each in ids] == ids
    assert reads == [layout.view("queue")]
    publish(store, "queue", {"jobs": []})
    assert place.of_one_look().queue() == ()


def test_a_view_of_another_schema_is_refused() -> None:
    """A newer format is not guessed."""
    store, clock = world()
    publish(store, "queue", {"schema": 2, "jobs": []})
    with pytest.raises(RecordError, match=r"view/queue\.json: schema 2 is not known here"):
        Published(store, clock.wall).queue()


@pytest.mark.parametrize("data", [b"{", b"[" * 200_000], ids=["cut", "deep"])
def test_a_damaged_view_names_its_key_and_the_remedy(data: bytes) -> None:
    """The error names the object that is not JSON, and says that the bastion replaces it."""
    store, clock = world()
    put(store, layout.view("queue"), data)
    with pytest.raises(RecordError, match=r"view/queue\.json: not JSON") as told:
        Published(store, clock.wall).queue()
    assert told.value.hint == "a bastion that leads writes it again within two minutes"


def test_fields_of_a_newer_bastion_are_ignored() -> None:
    """Reading continues to work while the bastion is upgraded."""
    store, clock = world()
    publish(store, "queue", {"jobs": [row("a-0123456789", novelty=1)], "more": 2})
    assert Published(store, clock.wall).queue()[0].id == "a-0123456789"


def test_events_are_in_order_and_none_twice() -> None:
    """Sealed segments come first, then root's; a job's own can be selected."""
    store, clock = world()

    def line(number: int, job: str) -> dict[str, object]:
        return {"n": number, "at": NOW + number, "job": job, "what": f"w{number}"}

    sealed = [line(0, "a"), line(1, "b")]
    put(store, layout.events(0), "\n".join(map(json.dumps, sealed)).encode())
    root = {
        "sealed": [{"first": 1, "events": [line(1, "b"), line(2, "a")]}],
        "events": [line(3, "a")],
    }
    put(store, layout.ROOT, gzip.compress(json.dumps(root).encode()))
    place = Published(store, clock.wall)
    assert [event.number for event in place.events()] == [0, 1, 2, 3]
    assert [event.number for event in place.events(job="a")] == [0, 2, 3]
    assert [event.number for event in place.events(since=NOW + 2)] == [2, 3]


@pytest.mark.parametrize("spoilt", [b"", b"7", b'{"n": 1, "wh', b"\xff\n{}"])
def test_an_unreadable_segment_hides_no_other_event(spoilt: bytes) -> None:
    """While root has its events, they are read there; afterwards, only they are missing."""
    store, clock = world()
    lines = [{"n": n, "at": NOW + n, "job": "a", "what": "w"} for n in range(4)]
    for n in (0, 2, 3):
        put(store, layout.events(n), json.dumps(lines[n]).encode())
    put(store, layout.events(1), spoilt)
    assert [event.number for event in Published(store, clock.wall).events()] == [0, 2, 3]
    root = {"sealed": [{"first": 1, "events": [lines[1]]}]}
    put(store, layout.ROOT, json.dumps(root).encode())
    assert [event.number for event in Published(store, clock.wall).events()] == [0, 1, 2, 3]


@pytest.mark.parametrize("moment", ["read", "list"])
def test_events_sealed_while_they_are_read_are_read(moment: str) -> None:
    """Unsealed events are read from root; those sealed later are listed afterwards."""
    store, clock = world()
    lines = [{"n": n, "at": NOW + n, "what": "w"} for n in range(3)]
    put(store, layout.ROOT, json.dumps({"events": lines}).encode())

    def seal(op: str, key: str) -> None:
        if op == moment and not store.list(layout.EVENTS):
            data = "\n".join(map(json.dumps, lines)).encode()
            put(store, layout.events(0), data)
            put(store, layout.ROOT, b"{}")

    place = Published(FaultyStore(store, seal), clock.wall)
    assert [event.number for event in place.events()] == [0, 1, 2]


def test_segments_older_than_a_job_are_not_read() -> None:
    """The events of a young job cost nothing of a long history."""
    store, clock = world()
    for first in range(20):
        put(store, layout.events(first), json.dumps({"n": first, "job": "x", "at": 0}).encode())
    clock.advance(3600)
    counting = FaultyStore(store, lambda op, key: None)
    assert list(Published(counting, clock.wall).events(job="a", since=clock.wall())) == []
    assert counting.counts["read"] == 1  # root alone


class Listing(Wrapped):
    """Counts the entries that it lists."""

    entries = 0

    def list(self, prefix: str, *, start_after: str = "", limit: int = 1000) -> tuple[Entry, ...]:
        """See the port."""
        found = self._store.list(prefix, start_after=start_after, limit=limit)
        self.entries += len(found)
        return found


def test_old_segments_of_a_long_log_are_not_even_listed() -> None:
    """The first is found by halves, wherever it is."""
    store, clock = world()
    for n in range(300):
        clock.advance(3600)
        line = {"n": n * 1000, "job": "x", "at": clock.wall()}
        put(store, layout.events(n * 1000), json.dumps(line).encode())
    put(store, layout.ROOT, json.dumps({"next_event": 300_000}).encode())
    every = list(Published(store, clock.wall).events())
    for first in (0, 1, 150, 290, 299):
        listing = Listing(store)
        found = list(Published(listing, clock.wall).events(since=every[first].at))
        assert found == every[first:]
        assert listing.entries <= 300 - first + 25


@pytest.mark.parametrize("count", [0, 1, 25, 4000])
def test_of_a_long_log_only_the_end_is_read(count: int) -> None:
    """The last events cost no read of the segments before them; a gap in numbers hides none."""
    store, clock = world()
    numbers = [n for n in range(3000) if not 2000 <= n < 2990]
    for first in range(0, 3000, 10):
        lines = [{"n": n, "at": NOW, "job": "x"} for n in range(first, first + 10) if n in numbers]
        if lines:
            put(store, layout.events(first), "\n".join(map(json.dumps, lines)).encode())
    put(store, layout.ROOT, json.dumps({"next_event": 3000}).encode())
    counting = FaultyStore(store, lambda op, key: None)
    found = [event.number for event in Published(counting, clock.wall).newest_events(count)]
    assert found == numbers[len(numbers) - len(found) :]
    assert len(found) >= min(count, len(numbers))
    assert counting.counts["read"] <= 3 or count > 10


def test_projects_are_found_one_list_each() -> None:
    """However many jobs have ended, each project costs one list."""
    store, clock = world()
    for number in range(50):
        for project in ("blue", "blue-2", "blue0", "green"):
            end(store, f"a-{number:010d}", project=project)
    counting = FaultyStore(store, lambda op, key: None)
    assert set(Published(counting, clock.wall).projects()) == {"blue", "blue-2", "blue0", "green"}
    assert counting.counts["list"] == 5


def test_the_newest_finished_jobs_come_first() -> None:
    """The store's own time determines the order, up to the requested number."""
    store, clock = world()
    for number in range(5):
        end(store, f"a-{number:010d}")
        clock.advance(1)
    end(store, "b-0000000000", project="green")
    counting = FaultyStore(store, lambda op, key: None)
    found = Published(counting, clock.wall).finished(("blue", "green"), limit=2)
    assert [job.id for job in found] == ["b-0000000000", "a-0000000004"]
    assert counting.counts["read"] == 2


def test_nothing_at_all_is_not_an_empty_queue() -> None:
    """If no bastion ever ran, there is no queue that could be empty."""
    store, clock = world()
    with pytest.raises(NotFoundError):
        Published(store, clock.wall).queue()
