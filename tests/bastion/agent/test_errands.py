"""Errands: outside calls, their tries and their results."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from itertools import pairwise

import pytest

from bastion.agent.errands import Errands, LongLanes
from bastion.errors import RecordError, StoreError
from bastion.lane import InlineLane, ThreadLane
from tests.rigs.limits import fail_starts


class Bench:
    """Errands, and what they reported."""

    def __init__(self) -> None:
        self.said: list[str] = []
        self.results: list[object] = []
        self.tries = 0
        self.errands = Errands(InlineLane(), InlineLane(), retry_s=1.0, say=self.said.append)

    def send(self, work: Callable[[], object], now: float, *, key: str = "k") -> None:
        """Send one, counting the tries."""

        def counted() -> object:
            self.tries += 1
            return work()

        self.errands.send(key, counted, self.results.append, now=now)


def quiet(_line: str) -> None:
    """Do nothing."""


def fail() -> object:
    """Fail as if the store is away."""
    raise StoreError("away")


def test_a_look_does_not_wait_behind_a_write() -> None:
    """With a separate lane, looks are made during a write."""
    busy = HeldLane()
    errands = Errands(busy, InlineLane(), retry_s=1.0, say=quiet, look_lane=InlineLane())
    told: list[str] = []
    errands.send("write", lambda: "written", told.append, now=0.0)
    errands.send("look", lambda: "seen", told.append, now=0.0, is_look=True)
    assert not errands.collect(0.0)
    assert (told, errands.is_calling()) == (["seen"], True)
    busy.release()
    assert errands.collect(0.0)
    assert (told, errands.is_calling()) == (["seen", "written"], False)


def test_what_takes_an_hour_holds_up_nothing_else() -> None:
    """While images are pulled, outputs are saved and notices of the cloud are seen."""
    pulling, saving = HeldLane(), HeldLane()
    lanes = LongLanes(slow=pulling, looks=InlineLane(), other=saving)
    errands = Errands(InlineLane(), lanes, retry_s=1.0, say=quiet)
    told: list[str] = []
    errands.send("set up", lambda: "set up", told.append, now=0.0, is_slow=True)
    errands.send("output", lambda: "saved", told.append, now=0.0, is_long=True)
    errands.send("notice", lambda: "seen", told.append, now=0.0, is_long=True, is_look=True)
    errands.collect(0.0)
    assert (told, errands.is_calling()) == (["seen"], False)
    saving.release()
    errands.collect(0.0)
    assert told == ["seen", "saved"]
    pulling.release()
    errands.collect(0.0)
    assert told == ["seen", "saved", "set up"]


class HeldLane(InlineLane):
    """A lane whose calls end when it is released."""

    def __init__(self) -> None:
        super().__init__()
        self._held: list[tuple[str, Callable[[], object]]] = []

    def submit(self, key: str, work: Callable[[], object], *, is_urgent: bool = False) -> None:
        """See `Lane`."""
        self._held.append((key, work))

    def release(self) -> None:
        """Make every call."""
        for key, work in self._held:
            super().submit(key, work)
        self._held.clear()


def test_a_result_is_told_when_collected() -> None:
    """An errand has no effect before it is collected, and then one."""
    bench = Bench()
    bench.send(lambda: 7, 0.0)
    assert bench.results == []
    assert bench.errands.is_calling()
    assert bench.errands.collect(0.0)
    assert bench.results == [7]
    assert not bench.errands.collect(0.0)
    assert not bench.errands.is_calling()


def test_an_errand_under_way_is_not_sent_twice() -> None:
    """A second send of the same key does nothing until the first is collected."""
    bench = Bench()
    bench.send(lambda: 1, 0.0)
    bench.send(lambda: 2, 0.0)
    bench.errands.collect(0.0)
    assert bench.results == [1]
    bench.send(lambda: 3, 0.0)
    bench.errands.collect(0.0)
    assert bench.results == [1, 3]


def test_tries_are_paced() -> None:
    """While the store is away, the pauses double up to the longest, and nothing is reported."""
    bench = Bench()
    at = []
    for tick in range(600):
        now = tick / 128
        before = bench.tries
        bench.send(fail, now)
        bench.errands.collect(now)
        if bench.tries > before:
            at.append(now)
    pauses = [b - a for a, b in pairwise(at)]
    assert pauses[:5] == pytest.approx([0.1, 0.2, 0.4, 0.8, 1.0], abs=1 / 128)
    assert max(pauses) == pytest.approx(1.0)
    assert bench.results == []


def test_an_outage_is_two_lines() -> None:
    """There is one line at its start and one at its end, whatever happens between."""
    bench = Bench()
    for now in range(10):
        bench.send(fail, float(now))
        bench.send(fail, float(now), key="other")
        bench.errands.collect(float(now))
    bench.send(lambda: 1, 20.0)
    bench.errands.collect(20.0)
    assert bench.said == [
        "the store is out of reach, trying again: away",
        "the store answers again after 20.0 s",
    ]


def forget(answer: object) -> None:
    """Ignore an answer."""


def test_what_is_refused_while_the_rest_is_taken_is_one_line() -> None:
    """One key that keeps failing is not an outage that ends with every other answer."""
    said: list[str] = []
    slow = HeldLane()
    errands = Errands(slow, InlineLane(), retry_s=1.0, say=said.append, look_lane=InlineLane())
    for tick in range(80):
        errands.send("log", fail, forget, now=float(tick))
        errands.send("look", lambda: 1, forget, now=tick + 0.5, is_look=True)
        errands.collect(tick + 0.5)
        slow.release()
        errands.collect(tick + 0.75)
    assert said == ["the store is out of reach, trying again: away"]
    errands.send("look", lambda: 1, forget, now=90.0, is_look=True)
    errands.collect(90.0)
    assert said[1:] == ["the store answers again after 89.2 s"]


def test_other_errors_go_to_the_function_that_takes_them() -> None:
    """Errors that are not the store's go to the sender, or are raised without a function."""
    bench = Bench()

    def broken() -> object:
        raise RecordError("broken")

    taken: list[Exception] = []
    bench.errands.send("k", broken, bench.results.append, now=0.0, otherwise=taken.append)
    bench.errands.collect(0.0)
    assert [str(error) for error in taken] == ["broken"]
    bench.send(broken, 0.0)
    with pytest.raises(RecordError, match="broken"):
        bench.errands.collect(0.0)


def test_an_errand_that_no_thread_can_begin_is_tried_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A lack of memory does not end the agent: each errand is sent again, and then done."""
    lane, said, results = ThreadLane("test", workers=1), list[str](), list[int]()
    errands = Errands(lane, InlineLane(), retry_s=1.0, say=said.append)
    fail_starts(monkeypatch, after=0, count=2)
    for now in (0.0, 1.0, 2.0):
        assert results == []
        errands.send("k", lambda: 7, results.append, now=now)
        lane.settle(10.0)
        errands.collect(now)
    lane.close()
    assert results == [7]
    assert "no thread can be started" in said[0]


def test_work_is_wanted_while_one_of_its_senders_waits() -> None:
    """Also of those that sent it while it ran; another errand of that name begins anew."""
    lane = HeldLane()
    errands = Errands(lane, lane, retry_s=1.0, say=quiet)
    waiting = {"a", "b"}
    for name in sorted(waiting):
        errands.send("k", int, forget, now=0.0, waits=partial(waiting.__contains__, name))
    for left in ("a", "b"):
        assert errands.is_wanted("k")
        waiting.remove(left)
    assert not errands.is_wanted("k")
    lane.release()
    errands.collect(0.0)
    errands.send("k", int, forget, now=0.0, waits=lambda: True)
    assert errands.is_wanted("k")


def test_looks_do_not_count_as_movement() -> None:
    """Sending or answering a look is no reason for another turn."""
    bench = Bench()
    bench.errands.send("k", lambda: None, bench.results.append, now=0.0, is_look=True)
    assert bench.errands.sent == 0
    assert not bench.errands.collect(0.0)
    assert bench.results == [None]
