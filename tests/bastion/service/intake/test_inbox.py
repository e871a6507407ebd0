"""What one turn reads when some of it cannot be read."""

from __future__ import annotations

from dataclasses import replace

import pytest

from bastion.clock import VirtualClock
from bastion.errors import StoreError, StoreRefusedError
from bastion.lane import InlineLane
from bastion.records.coding.codec import encode
from bastion.records.keys import layout, ulid
from bastion.records.reports.facts import Bell, Heartbeat
from bastion.records.requests.job_request import FollowRequest
from bastion.records.requests.launch_request import LaunchRequest
from bastion.service.intake.failing import FAILED_S, GAP_S, REFUSED_S, REFUSED_TURNS
from bastion.service.intake.fair_share import OWNER_READS, TURN_BYTES, TURN_READS
from bastion.service.intake.inbox import REMEMBERED_BYTES, InboxBatch, InboxReader
from bastion.spec import Job, Launch, Process
from bastion.store.memory import Fault, FaultyStore, MemoryStore
from bastion.store.port import Entry
from tests.rigs.wrapped import Wrapped


class Box:
    """An inbox in which some keys cannot be read."""

    def __init__(self) -> None:
        self.clock = VirtualClock()
        self.store = MemoryStore(self.clock.wall)
        self.bad: set[str] = set()
        self.refused: set[str] = set()
        self.asked = 0
        self.reads: list[str] = []
        self.spoilt = FaultyStore(self.store, self._fault)
        self.reader = InboxReader(self.spoilt, InlineLane(), self.clock)

    def _fault(self, operation: str, key: str) -> Fault | None:
        if operation == "read":
            self.reads.append(key)
        if operation == "read" and key in self.refused:
            raise StoreRefusedError("no")
        return Fault.BEFORE if operation in ("read", "list") and key in self.bad else None

    def ask(self, user: str, verb: str = "follow", targets: tuple[str, ...] = ("j",)) -> str:
        """Put a request; return its key."""
        self.asked += 1
        random = self.asked.to_bytes(10)
        key = layout.request("p", user, ulid.make(self.clock.wall(), random), verb)
        self.store.create(key, encode(FollowRequest(targets=targets)))
        return key

    def ring(self, machine: str, number: int) -> str:
        """Put a bell; return its key."""
        key = layout.bell(machine, 1, number)
        self.store.create(key, encode(Bell(facts=(Heartbeat(),))))
        return key

    def read(self) -> InboxBatch:
        """Return what one turn reads."""
        return self.reader.read(skip=lambda _: False, is_active=lambda _: False)


def test_what_cannot_be_read_waits() -> None:
    """One object out of reach is left for the next turn; all others are read."""
    box = Box()
    bad, _ = box.ask("ann"), box.ask("ben")
    box.bad.add(bad)
    batch = box.read()
    assert [each.waiting.name.user for each in batch.requests] == ["ben"]
    box.bad.clear()
    batch = box.read()
    assert [each.waiting.name.user for each in batch.requests] == ["ann", "ben"]


def test_every_bell_that_is_listed_is_told_of() -> None:
    """A machine whose bells cannot be read has rung nevertheless."""
    box = Box()
    box.bad.add(box.ring("own-1-0", 0))
    box.ring("own-1-1", 0)
    batch = box.read()
    assert [each.machine for each in batch.listed_bells] == ["own-1-0", "own-1-1"]
    assert [each.ringing.machine for each in batch.bells] == ["own-1-1"]


def test_a_machines_bells_keep_their_order() -> None:
    """After a bell that cannot be read, no later bell of its machine is applied; others are."""
    box = Box()
    bells = [box.ring("a", number) for number in range(3)]
    box.ring("b", 0)
    box.bad.add(bells[1])
    heard = [(each.ringing.machine, each.ringing.number) for each in box.read().bells]
    assert heard == [("a", 0), ("b", 0)]


def test_what_cannot_be_read_ends_no_turn() -> None:
    """Objects that a store lists but does not return are reported and left, even if all are."""
    box = Box()
    box.bad = {box.ask("ann"), box.ring("a", 0)}
    found = box.read()
    assert replace(found, listed_bells=(), unread=()) == InboxBatch()
    assert {key for key, _ in found.unread} == box.bad


def test_an_inbox_that_cannot_be_listed_ends_the_turn() -> None:
    """If the store does not list, nothing is known of the inbox, and StoreError says so."""
    box = Box()
    box.bad.add(layout.INBOX)
    with pytest.raises(StoreError):
        box.read()


UNREAD = InboxBatch()


def known(batch: InboxBatch) -> InboxBatch:
    """Return what a turn read, without what it only lists."""
    return replace(batch, listed_bells=(), unread=())


@pytest.mark.parametrize("turn_s", [0.05, 5.0])
def test_a_request_is_refused_after_the_same_time_however_short_turns_are(turn_s: float) -> None:
    """What the store refuses for minutes is passed on as unreadable, with the reason."""
    box = Box()
    box.refused = {box.ask("ann")}
    began = box.clock.monotonic()
    while not (found := box.read()).requests:
        box.clock.advance(turn_s)
    assert REFUSED_S <= box.clock.monotonic() - began <= REFUSED_S + 2 * turn_s
    assert [each.unreadable for each in found.requests] == ["no"]
    assert [each.problems for each in found.requests] == [("the request cannot be read: no",)]


def test_a_refusal_of_two_minutes_refuses_no_request() -> None:
    """A right that is changed needs no more."""
    box = Box()
    box.refused = {box.ask("ann")}
    for _ in range(1200):
        assert known(box.read()) == UNREAD
        box.clock.advance(0.1)
    box.refused.clear()
    assert [each.problems for each in box.read().requests] == [()]


def test_a_long_pause_between_two_refusals_counts_little() -> None:
    """The store may have been out of reach, or the bastion stopped, for all of that time."""
    box = Box()
    box.refused = {box.ask("ann")}
    for _ in range(int(REFUSED_S / GAP_S)):
        assert known(box.read()) == UNREAD
        box.clock.advance(10 * REFUSED_S)


def test_a_bell_that_is_refused_is_given_up_after_three_turns() -> None:
    """Later bells of its machine wait behind it, and its facts are in registers too."""
    box = Box()
    bell = box.ring("a", 0)
    box.refused = {bell}
    for _ in range(REFUSED_TURNS - 1):
        assert known(box.read()) == UNREAD
    found = box.read()
    assert [(each.entry.key, each.is_unreadable) for each in found.misplaced] == [(bell, True)]


def test_a_refusal_of_everything_gives_nothing_up() -> None:
    """If the store refuses every read, permissions are missing, and no object is bad."""
    box = Box()
    box.refused = {box.ask("ann"), box.ring("a", 0), layout.QUOTA}
    for _ in range(100):
        assert known(box.read()) == UNREAD
        box.clock.advance(GAP_S)


def test_a_fault_that_passes_gives_nothing_up() -> None:
    """An object that fails for minutes, and is then read, is treated normally."""
    box = Box()
    box.bad = {box.ask("ann")}
    for _ in range(int(FAILED_S / GAP_S)):
        assert known(box.read()) == UNREAD
        box.clock.advance(GAP_S)
    box.bad.clear()
    assert [each.problems for each in box.read().requests] == [()]


def test_a_request_that_is_refused_is_not_read() -> None:
    """What is refused whatever it says is refused by its name, without reading its body."""
    box = Box()
    key = box.ask("eve", verb="cancel")
    box.bad.add(key)
    found = box.reader.read(
        skip=lambda _: False, is_active=lambda _: False, refusal=lambda waiting: "no member"
    )
    assert [each.problems for each in found.requests] == [("no member",)]


def test_many_requests_of_one_user_delay_no_other() -> None:
    """Another user's request behind a thousand of one user is read in the same turn."""
    box = Box()
    for _ in range(1_000):
        box.ask("ann", verb="cancel")
    box.ask("ben", verb="cancel")
    users = {each.waiting.name.user for each in box.read().requests}
    assert users == {"ann", "ben"}
    assert box.spoilt.counts["read"] <= TURN_READS + 10


def test_unforeseen_looks_count_against_the_user_in_the_next_turns() -> None:
    """Fewer requests of such a user are read in the next turns; others are not affected."""
    box = Box()
    for _ in range(10):
        box.ask("ann", verb="cancel", targets=tuple(f"j-{n}" for n in range(500)))
    box.ask("ben", verb="cancel")
    counts = []
    for _ in range(60):
        before = box.spoilt.counts["read"]
        users = {each.waiting.name.user for each in box.read().requests}
        assert "ben" in users
        counts.append(box.spoilt.counts["read"] - before)
    assert users == {"ann", "ben"}
    assert sum(counts) < 10 * 500 * 3 + 100  # each target is looked up once
    assert max(counts) <= 10 * OWNER_READS * 3 + 100


def test_what_is_begun_is_finished_before_more_is_begun() -> None:
    """Large launches of many users are looked up in bounded memory, and all of them arrive."""
    box = Box()
    process = Process(["true"], env={"TEXT": "x" * 24_000})
    jobs = tuple(Job(name=f"j{n}", processes=(process,)) for n in range(150))
    body = encode(LaunchRequest(launch=Launch(name="big", jobs=jobs)))
    asked = {
        layout.request("p", f"user{n}", ulid.make(box.clock.wall(), bytes([n] * 10)), "launch")
        for n in range(12)
    }
    for key in asked:
        box.store.create(key, body)
    most = REMEMBERED_BYTES + TURN_BYTES
    begun: set[str] = set()
    arrived: set[str] = set()
    turns = 0
    while arrived < asked and turns < 30:
        turns += 1
        found = box.reader.read(skip=arrived.__contains__, is_active=lambda _: False)
        begun |= asked & set(box.reads)
        assert len(begun - arrived) * len(body) <= most
        for each in found.requests:
            assert not each.problems
            arrived.add(each.waiting.entry.key)
            box.reader.forget(each.waiting.entry.key)
    assert arrived == asked


def test_large_launches_that_are_looked_up_keep_no_small_request_waiting() -> None:
    """They fill the memory for many turns; a verb of another user is read in the next one."""
    box = Box()
    waits = tuple(f"none-{n:010d}" for n in range(100))
    jobs = tuple(
        Job(name=f"j{n}", after=waits, processes=(Process(["true"], env={"TEXT": "x" * 26_000}),))
        for n in range(140)
    )
    body = encode(LaunchRequest(launch=Launch(name="big", jobs=jobs, together=False)))
    for n in range(4):
        name = ulid.make(box.clock.wall(), bytes([n] * 10))
        box.store.create(layout.request(f"p{n % 2}", "ann", name, "launch"), body)
    while box.reader._remembered_bytes < REMEMBERED_BYTES:
        assert not box.read().requests
    large = box.ask("eve", verb="cancel", targets=tuple(f"{n:0200d}" for n in range(500)))
    small = box.ask("ben", verb="cancel")
    found = {each.waiting.entry.key for each in box.read().requests}
    assert small in found
    assert large not in found


def test_a_body_longer_than_its_list_says_is_a_problem() -> None:
    """A request with more bytes than listed is refused, and the rest is read."""
    box = Box()
    box.ask("ben")
    key = box.ask("ann")

    class Lying(Wrapped):
        def list(
            self, prefix: str, *, start_after: str = "", limit: int = 1000
        ) -> tuple[Entry, ...]:
            entries = super().list(prefix, start_after=start_after, limit=limit)
            return tuple(replace(e, size=1) if e.key == key else e for e in entries)

    reader = InboxReader(Lying(box.store), InlineLane(), box.clock)
    found = reader.read(skip=lambda _: False, is_active=lambda _: False)
    assert [bool(each.problems) for each in found.requests] == [False, True]


def test_a_body_is_read_once() -> None:
    """A request that has to wait in the inbox is not read again."""
    box = Box()
    box.ask("ann")
    for _ in range(5):
        assert len(box.read().requests) == 1
    assert box.spoilt.counts["read"] == 1


def test_what_vanished_is_nothing() -> None:
    """An object that another leader deleted after the list is skipped."""
    box = Box()
    key = box.ask("ann")
    box.ring("a", 0)

    class Vanishing(Wrapped):
        def list(
            self, prefix: str, *, start_after: str = "", limit: int = 1000
        ) -> tuple[Entry, ...]:
            entries = super().list(prefix, start_after=start_after, limit=limit)
            self.delete(key)
            return entries

    reader = InboxReader(Vanishing(box.store), InlineLane(), box.clock)
    batch = reader.read(skip=lambda _: False, is_active=lambda _: False)
    assert batch.requests == ()
    assert len(batch.bells) == 1
