"""Keeper lives: which life gets which number."""

from __future__ import annotations

import itertools

import pytest

from bastion.agent.host.context import KeeperAndSpool
from bastion.agent.keeper.fake import FakeHome, FakeKeeper, Script
from bastion.agent.keeper.port import KeeperGoneError
from bastion.agent.keeper_life import begin_life
from bastion.clock import VirtualClock
from bastion.errors import StoreError
from bastion.records.keys import layout
from bastion.store.memory import Fault, FaultyStore, MemoryStore
from bastion.store.port import ObjectStore, Written
from tests.rigs.agent import MACHINE


def begin(store: ObjectStore, living: KeeperAndSpool | None = None) -> KeeperAndSpool:
    """Start a life in its own home, as a fresh agent would."""
    clock = VirtualClock()
    nonces = (f"{id(clock)}-{n}" for n in itertools.count())

    def connect() -> KeeperAndSpool:
        if living is None:
            raise KeeperGoneError("none")
        return living

    def spawn(life: int) -> KeeperAndSpool:
        return FakeKeeper(FakeHome(), clock, lambda _: Script(), life=life)

    return begin_life(
        store,
        MACHINE,
        boot_id="b",
        nonce=lambda: next(nonces),
        connect=connect,
        spawn=spawn,
    )


def test_lives_are_numbered_from_one() -> None:
    """Each new keeper has the number after the newest, which is in the bucket."""
    store = MemoryStore(lambda: 0.0)
    assert [begin(store).life for _ in range(3)] == [1, 2, 3]
    assert len(store.list(layout.lives(MACHINE))) == 3


def test_a_living_keeper_is_gone_on_with() -> None:
    """While a keeper lives, no number is taken."""
    store = MemoryStore(lambda: 0.0)
    keeper = begin(store)
    assert begin(store, keeper) is keeper
    assert len(store.list(layout.lives(MACHINE))) == 1


def test_numbers_beyond_one_page_are_seen() -> None:
    """However many lives a machine has had, the next number follows the last."""
    store = MemoryStore(lambda: 0.0)
    for number in range(1, 1503):
        store.create(layout.life(MACHINE, number), b"{}")
    assert begin(store).life == 1503


@pytest.mark.parametrize("fault", Fault)
def test_a_number_in_doubt_is_left_behind(fault: Fault) -> None:
    """If the answer is lost, the next try takes a number that no other life has."""
    memory = MemoryStore(lambda: 0.0)
    left = [2]

    def faults(operation: str, _: str) -> Fault | None:
        left[0] -= operation in ("create", "read") and left[0] > 0
        return fault if operation in ("create", "read") and left[0] > 0 else None

    store = FaultyStore(memory, faults)
    try:
        life = begin(store).life
    except StoreError:
        life = begin(store).life
    assert life == len(memory.list(layout.lives(MACHINE)))


def test_an_unreadable_life_belongs_to_no_keeper() -> None:
    """The number of a malformed register is skipped, even while it is created."""
    memory = MemoryStore(lambda: 0.0)

    class Spoiling(MemoryStore):
        def create(self, key: str, data: bytes) -> Written:
            if key == layout.life(MACHINE, 1):
                super().create(key, b"")
                raise StoreError("cut")
            return super().create(key, data)

    assert begin(Spoiling(lambda: 0.0)).life == 2
    memory.create(layout.life(MACHINE, 1), b"")
    memory.create(f"{layout.lives(MACHINE)}none", b"")
    assert begin(memory).life == 2
