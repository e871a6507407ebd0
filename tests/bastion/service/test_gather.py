"""What one turn reads, though some of it cannot be read."""

from __future__ import annotations

import pytest

from bastion.clock import VirtualClock
from bastion.errors import StoreError
from bastion.lane import InlineLane
from bastion.records import layout, ulid
from bastion.records.codec import encode
from bastion.records.facts import Bell, Heartbeat
from bastion.records.request import FollowRequest
from bastion.service.gather import Gathered, Gatherer
from bastion.store.memory import Fault, FaultyStore, MemoryStore


class Box:
    """An inbox of which some keys cannot be read."""

    def __init__(self) -> None:
        self.clock = VirtualClock()
        self.store = MemoryStore(self.clock.wall)
        self.bad: set[str] = set()
        self.spoilt = FaultyStore(self.store, self._fault)
        self.gatherer = Gatherer(self.spoilt, InlineLane())

    def _fault(self, operation: str, key: str) -> Fault | None:
        return Fault.BEFORE if operation == "read" and key in self.bad else None

    def ask(self, user: str) -> str:
        """A request; its key."""
        key = layout.request("p", user, ulid.make(self.clock.wall(), bytes(10)), "follow")
        self.store.create(key, encode(FollowRequest(targets=("j",))))
        return key

    def ring(self, machine: str, number: int) -> str:
        """A bell; its key."""
        key = layout.bell(machine, 1, number)
        self.store.create(key, encode(Bell(facts=(Heartbeat(),))))
        return key

    def gather(self) -> Gathered:
        """One turn's reading."""
        return self.gatherer.gather(skip=lambda _: False, is_active=lambda _: False)


def test_what_cannot_be_read_waits() -> None:
    """One object out of reach is left for the next turn; all others are read."""
    box = Box()
    bad, _ = box.ask("ann"), box.ask("ben")
    box.bad.add(bad)
    gathered = box.gather()
    assert [each.waiting.name.user for each in gathered.requests] == ["ben"]
    box.bad.clear()
    gathered = box.gather()
    assert [each.waiting.name.user for each in gathered.requests] == ["ann", "ben"]


def test_a_machines_bells_keep_their_order() -> None:
    """After a bell that cannot be read no later one of its machine is heard; others are."""
    box = Box()
    bells = [box.ring("a", number) for number in range(3)]
    box.ring("b", 0)
    box.bad.add(bells[1])
    heard = [(each.ringing.machine, each.ringing.number) for each in box.gather().bells]
    assert heard == [("a", 0), ("b", 0)]


def test_a_store_out_of_reach_is_said() -> None:
    """When nothing at all can be read the turn ends."""
    box = Box()
    box.bad = {box.ask("ann"), box.ring("a", 0)}
    with pytest.raises(StoreError):
        box.gather()


def test_a_body_is_read_once() -> None:
    """A request that has to wait in the inbox is not read again."""
    box = Box()
    box.ask("ann")
    for _ in range(5):
        assert len(box.gather().requests) == 1
    assert box.spoilt.counts["read"] == 1


def test_what_vanished_is_nothing() -> None:
    """An object that another leader deleted after the list is passed over."""
    box = Box()
    key = box.ask("ann")
    box.ring("a", 0)

    class Vanishing:
        def __getattr__(self, name: str) -> object:
            return getattr(box.store, name)

        def list(self, *given: object, **named: object) -> object:
            entries = box.store.list(*given, **named)  # type: ignore[arg-type]
            box.store.delete(key)
            return entries

    gatherer = Gatherer(Vanishing(), InlineLane())  # type: ignore[arg-type]
    gathered = gatherer.gather(skip=lambda _: False, is_active=lambda _: False)
    assert gathered.requests == ()
    assert len(gathered.bells) == 1
