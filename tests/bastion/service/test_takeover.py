"""A lead that changes machines: no measurement depends on the clock of either."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import pytest

from bastion.clock import Clock
from bastion.errors import LeaseHeldError
from bastion.lane import Done, InlineLane, ThreadLane
from bastion.records.keys import layout
from bastion.records.root import RootWriter
from bastion.service.run.election import Candidate, Election
from bastion.store.memory import Fault, FaultyStore
from tests.rigs.leader import PACE, Rig

HOUR_S = 3600.0


@dataclass(frozen=True)
class Elsewhere:
    """The clock of another machine: it runs at the same speed, but shows another time."""

    ours: Clock
    wall_s: float
    monotonic_s: float

    def wall(self) -> float:
        """See the port."""
        return self.ours.wall() + self.wall_s

    def monotonic(self) -> float:
        """See the port."""
        return self.ours.monotonic() + self.monotonic_s

    def sleep(self, seconds: float) -> None:
        """See the port."""
        self.ours.sleep(seconds)

    def advance(self, seconds: float) -> None:
        """See `VirtualClock`."""
        self.ours.advance(seconds)  # type: ignore[attr-defined]


def move(rig: Rig, wall_s: float) -> None:
    """Move the lead to another machine, whose clock is `wall_s` ahead and whose uptime differs."""
    rig.clock = Elsewhere(rig.clock, wall_s, monotonic_s=-900.0)  # type: ignore[assignment]
    rig.leader = rig.take("other")


@pytest.mark.parametrize("wall_s", [HOUR_S, -HOUR_S])
def test_a_time_limit_survives_a_takeover(wall_s: float) -> None:
    """A job that started under one bastion has its whole time under another, and no more."""
    rig = Rig()
    job = rig.start(max_runtime=100.0)
    began = rig.leader.now
    rig.turn(30)
    move(rig, wall_s)
    rig.turn(60)
    assert rig.phase(job) == "running"
    for _ in range(200):
        if rig.phase(job) != "running":
            break
        rig.turn()
    assert 100.0 <= rig.leader.now - began < 200.0
    assert rig.ended(job).outcome == "timed_out"


@pytest.mark.parametrize("wall_s", [HOUR_S, -HOUR_S])
def test_root_keeps_the_stores_time_through_a_takeover(wall_s: float) -> None:
    """A leader's time is the store's, however wrong its machine's is."""
    rig = Rig()
    store_time = rig.clock.wall
    rig.turn(10)
    move(rig, wall_s)
    for _ in range(30):
        rig.turn()
        assert rig.leader.now == pytest.approx(store_time(), abs=1.5)


def test_since_is_the_time_of_the_takeover() -> None:
    """A leader's `since` is the time of its own first commit, then and later."""
    rig = Rig()
    rig.turn(3)
    rig.clock.advance(100.0)
    took_at = rig.clock.wall()
    rig.leader = rig.take("other")
    for _ in range(30):
        assert rig.root.leader is not None
        assert rig.root.leader.since == pytest.approx(took_at)
        rig.turn()


def test_a_standby_whose_clock_is_wrong_waits_as_long() -> None:
    """A standby an hour ahead takes over after 1.25 leases of silence, not before."""
    rig = Rig(pace=replace(PACE, ttl_s=30.0))
    clock = Elsewhere(rig.clock, HOUR_S, monotonic_s=-900.0)
    mine = Candidate(holder="b", host="other", boot="c", pid=2, pid_started=0.0, ttl_s=30.0)
    election = Election(
        RootWriter(rig.bucket, clock), clock, mine, is_alive=lambda *_: False, nonce=rig.nonce
    )
    for _ in range(60):
        rig.turn()
        with pytest.raises(LeaseHeldError):
            election.try_once()
    last = rig.bucket.read(layout.ROOT)
    assert last is not None
    held = None
    while held is None:
        rig.clock.advance(0.5)
        try:
            held = election.try_once()
        except LeaseHeldError:
            continue
    assert 37.5 < rig.clock.wall() - last.modified_at < 40.0
    assert held.root.epoch == 2


def test_a_leader_that_is_closed_begins_nothing_more() -> None:
    """Work that was queued when the lead was lost is left to the present leader."""
    rig = Rig()
    lane = ThreadLane("store", workers=1)
    rig.leader._lane = lane
    rig.leader.close()
    begun: list[str] = []
    lane.submit("late", lambda: begun.append("late"))
    lane.settle(1.0)
    assert begun == []


class LateLane(InlineLane):
    """Its work ends while the next turn reads the inbox."""

    def __init__(self) -> None:
        super().__init__()
        self._begun: list[tuple[str, Callable[[], object]]] = []

    def submit(self, key: str, work: Callable[[], object], *, is_urgent: bool = False) -> None:
        """Start `work`."""
        self._begun.append((key, work))

    def collect(self) -> tuple[Done, ...]:
        """Let started work end."""
        begun, self._begun = self._begun, []
        for key, work in begun:
            super().submit(key, work)
        return super().collect()


def test_a_request_whose_answer_lands_while_it_is_read_is_applied_once() -> None:
    """A hold that an earlier leader committed does not return after the release."""
    unread: set[str] = set()

    def fault(operation: str, key: str) -> Fault | None:
        return Fault.BEFORE if operation == "read" and key in unread else None

    rig = Rig(spoil=lambda store: FaultyStore(store, fault))
    rig.turn(2)
    for name in ("a", "b"):
        rig.start(name, h100=8)
    job = rig.submit("waits", h100=8)
    rig.leader._lane = LateLane()
    rig.verb("hold", job)
    rig.turn()
    assert rig.job(job).held == "ann"
    rig.leader = rig.take("other")
    rig.leader._lane = LateLane()
    unread.update(rig.keys(layout.INBOX))
    rig.verb("release", job)
    rig.turn()
    unread.clear()
    rig.turn(5)
    assert rig.job(job).held == ""
    assert not rig.keys(layout.INBOX)
