"""One request and its answer, on a store that fails."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from bastion.client.inbox import Asked, Inbox
from bastion.errors import ConflictError, StoreError, StoreRefusedError, TimedOutError
from bastion.records.request import JobsRequest
from bastion.store.memory import Fault, FaultyStore, MemoryStore
from tests.bastion.client.scripted import Clock, ScriptedBastion, world

ASKED = Asked(project="blue", user="ada", ulid="01HF0000000000000000000000", verb="cancel")
BODY = JobsRequest(targets=("train-0123456789",))


def inbox_with(faults: Iterator[Fault | None]) -> tuple[MemoryStore, Clock, Inbox]:
    """An inbox on a store whose creates fail as `faults` say, in turn."""
    store, clock = world()
    faulty = FaultyStore(store, lambda op, key: next(faults, None) if op == "create" else None)
    return store, clock, Inbox(faulty, clock, poll_s=0.02)


@pytest.mark.parametrize("fault", list(Fault))
def test_a_create_in_doubt_is_tried_again_and_lands_once(fault: Fault) -> None:
    """Whether the lost write landed or not, one request with our bytes lies in the inbox."""
    store, _, inbox = inbox_with(iter((fault,)))
    inbox.post(ASKED, BODY)
    assert [entry.key for entry in store.list("inbox/")] == [ASKED.key]


def test_a_request_absorbed_while_in_doubt_is_not_an_error() -> None:
    """The bastion may take a request before its sender knows that it landed."""
    store, clock, inbox = inbox_with(iter((Fault.AFTER,)))
    bastion = ScriptedBastion(store, clock)
    inbox.post(ASKED, BODY)
    assert inbox.is_waiting(ASKED)  # the identical bytes were sent again: applied once by name
    assert [body for _, body in bastion.taken] == [BODY]


def test_an_endless_doubt_is_told() -> None:
    """After five tries the sender is told that it is in doubt, and how to find out."""
    _, _, inbox = inbox_with(iter([Fault.BEFORE] * 9))
    with pytest.raises(StoreError, match="in doubt whether the request reached the bucket"):
        inbox.post(ASKED, BODY)


def test_a_refusing_store_is_asked_once() -> None:
    """Wrong credentials do not get better by trying again."""

    class Refusing(MemoryStore):
        tries = 0

        def create(self, key: str, data: bytes) -> None:  # type: ignore[override]
            Refusing.tries += 1
            raise StoreRefusedError("no access")

    clock = Clock()
    with pytest.raises(StoreRefusedError):
        Inbox(Refusing(clock.wall), clock, poll_s=0.02).post(ASKED, BODY)
    assert Refusing.tries == 1


def test_another_request_of_this_name_is_a_conflict() -> None:
    """Two different requests of one name are told apart by their bytes."""
    _, _, inbox = inbox_with(iter(()))
    inbox.post(ASKED, BODY)
    inbox.post(ASKED, BODY)
    with pytest.raises(ConflictError, match="there is another request at inbox/blue/ada/"):
        inbox.post(ASKED, JobsRequest(targets=("other-0123456789",)))


def test_no_answer_in_time_says_where_the_request_is() -> None:
    """A time-out says that nothing is lost, and where request and answer lie."""
    _, clock, inbox = inbox_with(iter(()))
    inbox.post(ASKED, BODY)
    before = clock.monotonic()
    with pytest.raises(TimedOutError) as caught:
        inbox.wait(ASKED, timeout_s=30)
    assert str(caught.value) == (
        f"no answer within 30s: the request lies in the inbox ({ASKED.key}) and is taken when the "
        "bastion runs"
    )
    assert caught.value.hint == (
        f"bastion status tells whether it runs; the answer will be at {ASKED.answer_key}"
    )
    assert 30 <= clock.monotonic() - before < 31


def test_an_answer_is_found_though_the_store_stutters() -> None:
    """While waiting, a store out of reach only makes the wait longer."""
    store, clock = world()
    ScriptedBastion(store, clock)
    faults = iter([Fault.BEFORE] * 3)
    faulty = FaultyStore(store, lambda op, key: next(faults, None) if "results" in key else None)
    inbox = Inbox(faulty, clock, poll_s=0.02)
    inbox.post(ASKED, BODY)
    assert inbox.wait(ASKED, timeout_s=5).accepted
