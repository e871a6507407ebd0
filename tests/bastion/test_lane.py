"""Lanes: slow outside calls that delay nothing else."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from functools import partial

import pytest

from bastion.errors import StoreError
from bastion.lane import Done, InlineLane, Lane, ThreadLane
from tests.rigs.limits import fail_starts


@pytest.fixture
def lane() -> Iterator[ThreadLane]:
    """Provide a lane of two threads."""
    made = ThreadLane("test", workers=2)
    yield made
    made.close()


def _boom() -> None:
    raise ValueError("boom")


def collected(lane: ThreadLane, count: int) -> list[Done]:
    """Return `count` pieces of work that ended."""
    done: list[Done] = []
    while len(done) < count:
        lane.wait(10.0)
        done += lane.collect()
    return done


def test_inline_work_is_done_where_it_is_submitted() -> None:
    """An inline lane has done everything when `submit` returns; errors are kept, in key order."""
    lane = InlineLane()
    lane.submit("b", lambda: 2)
    lane.submit("a", _boom)
    lane.wait(10.0)
    first, second = lane.collect()
    assert (first.key, str(first.error)) == ("a", "boom")
    assert second == Done(key="b", result=2)
    assert lane.collect() == ()


def test_a_crash_passes_through() -> None:
    """A lane catches `Exception` only."""
    with pytest.raises(KeyboardInterrupt):
        InlineLane().submit("a", lambda: (_ for _ in ()).throw(KeyboardInterrupt()))


def test_threads_do_the_work(lane: ThreadLane) -> None:
    """Work ends on the lane's threads; results and errors come back with their keys."""
    lane.submit("a", threading.get_ident)
    lane.submit("b", _boom)
    done = {each.key: each for each in collected(lane, 2)}
    assert done["a"].result != threading.get_ident()
    assert isinstance(done["b"].error, ValueError)


def test_a_lane_without_a_thread_fails_its_work_and_recovers(
    lane: ThreadLane, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Work that no thread can start comes back as failed; the next has threads again."""
    fail_starts(monkeypatch, after=0, count=3)
    for key in ("a", "b", "a"):
        lane.submit(key, _boom)
        (done,) = collected(lane, 1)
        assert (done.key, type(done.error)) == (key, StoreError)
        assert "no thread can be started" in str(done.error)
    meet = threading.Barrier(2)
    lane.submit("a", lambda: meet.wait(10.0))
    lane.submit("b", lambda: meet.wait(10.0))
    assert [each.error for each in collected(lane, 2)] == [None, None]


def test_a_thread_that_cannot_begin_leaves_its_work_to_the_others(
    lane: ThreadLane, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With one of two threads, everything is done sequentially."""
    fail_starts(monkeypatch, after=1, count=1)
    go = threading.Event()
    lane.submit("a", lambda: go.wait(10.0))
    lane.submit("b", lambda: 2)
    go.set()
    assert {each.key: each.result for each in collected(lane, 2)} == {"a": True, "b": 2}


def test_work_in_flight_is_not_started_again(lane: ThreadLane) -> None:
    """Work under a key in flight is ignored; once it has finished the key can be used again."""
    gate, runs = threading.Event(), list[int]()

    def run() -> None:
        runs.append(1)
        gate.wait(10.0)

    for _ in range(3):
        lane.submit("a", run)
    gate.set()
    collected(lane, 1)
    assert len(runs) == 1
    lane.submit("a", lambda: runs.append(2))
    collected(lane, 1)
    assert len(runs) == 2


def test_hung_work_delays_no_other(lane: ThreadLane) -> None:
    """While one call hangs, others are made and collected."""
    gate = threading.Event()
    lane.submit("hung", lambda: gate.wait(10.0))
    lane.submit("quick", lambda: "done")
    (done,) = collected(lane, 1)
    assert done.key == "quick"
    gate.set()
    collected(lane, 1)


def test_some_work_is_waited_for_alone(lane: ThreadLane) -> None:
    """A caller that waits for certain keys does not wait for hung work under another key."""
    gate, ended = threading.Event(), list[bool]()
    lane.submit("hung", lambda: ended.append(gate.wait(20.0)))
    lane.submit("quick", lambda: "done")
    lane.settle(60.0, keys=("quick",))
    (done,) = lane.collect()
    assert (done.key, ended) == ("quick", [])
    gate.set()
    collected(lane, 1)


def test_work_beyond_the_threads_waits(lane: ThreadLane) -> None:
    """A lane is bounded: two threads never run three pieces at once."""
    lock, now, most = threading.Lock(), [0], [0]

    def work() -> None:
        with lock:
            now[0] += 1
            most[0] = max(most[0], now[0])
        with lock:
            now[0] -= 1

    for n in range(40):
        lane.submit(str(n), work)
    collected(lane, 40)
    assert most[0] <= 2


def test_waiting_for_nothing_is_short(lane: ThreadLane) -> None:
    """With nothing in flight, `wait` returns immediately."""
    lane.wait(1000.0)


def test_closing_drops_work_that_has_not_begun() -> None:
    """After `close`, nothing more is started."""
    lane = ThreadLane("test", workers=1)
    began, gate, runs = threading.Event(), threading.Event(), list[int]()

    def first() -> None:
        began.set()
        gate.wait(10.0)

    lane.submit("first", first)
    lane.submit("second", lambda: runs.append(1))
    assert began.wait(10.0)
    lane.close()
    gate.set()
    lane.settle(10.0)
    assert [done.key for done in lane.collect()] == ["first"]
    assert not lane.has_work()
    assert not runs


def test_urgent_work_is_begun_before_all_that_waits() -> None:
    """Urgent work overtakes earlier work, and keeps its own order."""
    lane = ThreadLane("test", workers=1)
    goes_on, began = threading.Event(), threading.Event()
    order: list[str] = []

    def first() -> None:
        began.set()
        assert goes_on.wait(10.0)

    lane.submit("first", first)
    assert began.wait(10.0)
    for key in ("a", "b"):
        lane.submit(key, partial(order.append, key))
    for key in ("view", "answer"):
        lane.submit(key, partial(order.append, key), is_urgent=True)
    goes_on.set()
    assert not [each.error for each in collected(lane, 5) if each.error is not None]
    lane.close()
    assert order == ["view", "answer", "a", "b"]


@pytest.mark.parametrize("makes", [InlineLane, lambda: ThreadLane("test", workers=1)])
def test_a_failure_is_seen_before_it_is_collected(makes: Callable[[], Lane]) -> None:
    """A loop may start its next turn for it; once it is collected, nothing has failed."""
    lane = makes()
    lane.submit("good", lambda: None)
    lane.settle(10.0)
    assert not lane.has_failed()
    lane.submit("bad", lambda: 1 / 0)
    lane.settle(10.0)
    assert lane.has_failed()
    assert [done.key for done in lane.collect()] == ["bad", "good"]
    assert not lane.has_failed()
    lane.close()


@pytest.mark.parametrize("makes", [InlineLane, lambda: ThreadLane("test", workers=1)])
def test_a_lane_has_work_until_it_is_collected(makes: Callable[[], Lane]) -> None:
    """A loop sees work in progress until it has collected the result."""
    lane = makes()
    assert not lane.has_work()
    lane.submit("good", lambda: None)
    assert lane.has_work()
    lane.settle(10.0)
    assert lane.has_work()
    lane.collect()
    assert not lane.has_work()
    lane.close()
