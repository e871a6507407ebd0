"""The fake's own promises: its clock, and faults that can be added to any store."""

from __future__ import annotations

import pytest

from bastion.errors import ConflictError, NotFoundError, StoreError
from bastion.store.memory import Fault, FaultyStore, MemoryStore, Operation


class Stop(BaseException):
    """The simulation raises this to end an actor: no code may catch it."""


def faulty(fault: Fault | None) -> tuple[MemoryStore, FaultyStore]:
    """Return a store, and the same behind one fault that always occurs."""
    store = MemoryStore(lambda: 1.0)
    return store, FaultyStore(store, lambda operation, key: fault)


def test_its_time_is_what_it_is_given_and_never_goes_back() -> None:
    """Objects have the given time; when that goes back, time stands still."""
    times = iter([10.0, 5.0, 11.0])
    store = MemoryStore(lambda: next(times))
    made = [store.create(key, b"").modified_at for key in "abc"]
    assert made == [10.0, 10.0, 11.0]


def test_a_fault_before_does_nothing() -> None:
    """The caller is in doubt, and nothing has happened."""
    store, bad = faulty(Fault.BEFORE)
    with pytest.raises(StoreError):
        bad.create("a", b"1")
    with pytest.raises(NotFoundError):
        store.read("a")


def test_a_fault_after_does_it_and_loses_the_answer() -> None:
    """The caller is in doubt, whatever the answer was, and it has happened."""
    store, bad = faulty(Fault.AFTER)
    for _ in ("done", "a conflict"):
        with pytest.raises(StoreError) as caught:
            bad.create("a", b"1")
        assert not isinstance(caught.value, ConflictError)
    found = store.read("a")
    assert found is not None
    with pytest.raises(StoreError):
        bad.swap("a", b"2", if_version=found.version)
    assert store.list("")[0].version != found.version
    with pytest.raises(StoreError):
        bad.list("")
    with pytest.raises(StoreError):
        bad.read("a")
    with pytest.raises(StoreError):
        bad.delete("a")
    assert store.list("") == ()


def test_without_faults_it_is_the_store_and_counts() -> None:
    """Answers and refusals pass through, and each operation is counted under its name."""
    _, good = faulty(None)
    version = good.create("a", b"1").version
    with pytest.raises(ConflictError):
        good.create("a", b"1")
    good.swap("a", b"2", if_version=version)
    good.read("a")
    good.list("")
    good.delete("a")
    assert good.counts == {"create": 2, "swap": 1, "read": 1, "list": 1, "delete": 1}


def test_faults_are_chosen_by_operation_and_key() -> None:
    """The schedule sees the operation and the key."""
    asked: list[tuple[Operation, str]] = []

    def note(operation: Operation, key: str) -> None:
        asked.append((operation, key))

    store = FaultyStore(MemoryStore(lambda: 1.0), note)
    store.create("a", b"")
    store.list("b")
    assert asked == [("create", "a"), ("list", "b")]


def test_what_ends_an_actor_passes_through() -> None:
    """A foreign exception is never treated as an answer that a fault may lose."""

    class Ending(MemoryStore):
        def delete(self, key: str) -> None:
            raise Stop

    with pytest.raises(Stop):
        FaultyStore(Ending(lambda: 1.0), lambda operation, key: Fault.AFTER).delete("a")
