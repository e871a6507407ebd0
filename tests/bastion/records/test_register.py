"""Write-once registers: one winner, and no writer gets a wrong answer."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bastion.clock import VirtualClock
from bastion.errors import ConflictError, RecordError, StoreError, StoreRefusedError
from bastion.job import Claim, End
from bastion.records.coding.codec import encode
from bastion.records.register import Lost, Won, create_same, look, win
from bastion.records.reports.registers import ClaimRegister, EndRegister
from bastion.store import Written
from bastion.store.memory import Fault, FaultyStore, MemoryStore

KEY = "run/pool/p/j/a1-n/r0/h0/claim"
FAULTS = st.lists(st.sampled_from([None, Fault.BEFORE, Fault.AFTER]), max_size=6)


def store() -> MemoryStore:
    """Return an empty store."""
    return MemoryStore(VirtualClock().wall)


def mine(name: str = "mine") -> ClaimRegister:
    """Return a claim of this writer."""
    return ClaimRegister(write_id=name, claim=Claim(machine=name, life=1))


def spoilt(inner: MemoryStore, faults: list[Fault | None]) -> FaultyStore:
    """Return `inner`, whose next operations meet `faults`."""
    left = list(faults)
    return FaultyStore(inner, lambda *_: left.pop(0) if left else None)


class Refusing(MemoryStore):
    """A store that refuses every create."""

    def create(self, key: str, data: bytes) -> Written:
        """Refuse."""
        raise StoreRefusedError(f"{key} was not written: forbidden", hint="grant it")


def test_a_refused_write_is_not_in_doubt() -> None:
    """The store's own words and its hint reach the log."""
    bucket = Refusing(VirtualClock().wall)
    for write in (
        lambda: win(bucket, KEY, mine()),
        lambda: create_same(bucket, KEY, b"data"),
    ):
        with pytest.raises(StoreRefusedError, match="forbidden") as refusal:
            write()
        assert refusal.value.hint == "grant it"


def test_the_first_wins_for_ever() -> None:
    """The first record stays; later writers, and the first again, are told whose it is."""
    bucket = store()
    assert win(bucket, KEY, mine()) == Won(record=mine())
    assert win(bucket, KEY, mine("other")) == Lost(record=mine())
    assert win(bucket, KEY, mine()) == Won(record=mine())
    assert look(bucket, KEY, ClaimRegister) == mine()


def test_a_register_that_does_not_stand_is_none() -> None:
    """A register that does not exist is None, not an error."""
    assert look(store(), KEY, ClaimRegister) is None


@settings(max_examples=200)
@given(FAULTS, st.booleans())
def test_win_is_never_wrong(faults: list[Fault | None], rival_first: bool) -> None:
    """Under any faults, `Won` means that our record exists, `Lost` that another's does."""
    bucket = store()
    if rival_first:
        win(bucket, KEY, mine("rival"))
    spoilt_bucket = spoilt(bucket, faults)
    told: object = None
    for _ in range(10):
        try:
            told = win(spoilt_bucket, KEY, mine())
        except StoreError:
            continue
        break
    standing = look(bucket, KEY, ClaimRegister)
    assert standing is not None
    if isinstance(told, Won):
        assert standing == mine()
    else:
        assert told == Lost(record=standing)
        assert standing == mine("rival")


@settings(max_examples=100)
@given(FAULTS, FAULTS)
def test_of_two_writers_exactly_one_wins(
    first: list[Fault | None], second: list[Fault | None]
) -> None:
    """Two writers that try until they know agree on one winner."""
    bucket = store()
    sides = {"a": spoilt(bucket, first), "b": spoilt(bucket, second)}
    told: dict[str, object] = {}
    while len(told) < 2:
        for name, side in sides.items():
            if name in told:
                continue
            try:
                told[name] = win(side, KEY, mine(name))
            except StoreError:
                continue
    assert sorted(type(each).__name__ for each in told.values()) == ["Lost", "Won"]


def test_in_doubt_is_said() -> None:
    """A write with an unknown result is an error that says so, not a loss."""
    bucket = spoilt(store(), [Fault.BEFORE, None])
    with pytest.raises(StoreError, match="in doubt whether it was written"):
        win(bucket, KEY, mine())


def test_a_register_of_nonsense_is_an_error() -> None:
    """An existing record that cannot be understood is neither won nor lost."""
    bucket = store()
    bucket.create(KEY, b"nonsense")
    with pytest.raises(RecordError, match=KEY):
        win(bucket, KEY, mine())
    with pytest.raises(RecordError, match=KEY):
        look(bucket, KEY, ClaimRegister)


def test_same_bytes_are_no_conflict() -> None:
    """A function of committed state may be written twice, but not with other bytes."""
    bucket = store()
    assert create_same(bucket, "a", b"x") is not None
    assert create_same(bucket, "a", b"x") is None
    with pytest.raises(ConflictError, match="other bytes than ours"):
        create_same(bucket, "a", b"y")


@settings(max_examples=100)
@given(FAULTS)
def test_create_same_ends_with_the_bytes(faults: list[Fault | None]) -> None:
    """When it returns, the object has our bytes."""
    bucket = store()
    spoilt_bucket = spoilt(bucket, faults)
    for _ in range(10):
        try:
            create_same(spoilt_bucket, "a", b"x")
        except StoreError:
            continue
        break
    found = bucket.read("a")
    assert found is not None
    assert found.data == b"x"


def test_an_end_carries_everything() -> None:
    """An end reads as it was written."""
    end = End(kind="exited", codes=(0, -9), first_failed=1, sizes=(3, 4), ran_s=1.5, detail="é\n")
    bucket = store()
    win(bucket, "e", EndRegister(write_id="w", end=end))
    found = look(bucket, "e", EndRegister)
    assert found is not None
    assert found.end == end
    assert b"\\u" not in encode(found), "text is stored as people read it"
