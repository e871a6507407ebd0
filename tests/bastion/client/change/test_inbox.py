"""One request and its answer, on a failing store."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest

from bastion.client.change.inbox import Inbox, RequestRef
from bastion.client.patience import Outage, PatientStore
from bastion.errors import (
    ConflictError,
    InDoubtError,
    StoreError,
    StoreRefusedError,
    TimedOutError,
)
from bastion.records.coding.codec import encode
from bastion.records.requests.job_request import JobsRequest
from bastion.records.requests.launch_request import LaunchRequest
from bastion.spec import Job, Launch, Process, job_ids
from bastion.store.memory import Fault, FaultyStore, MemoryStore
from bastion.store.port import READ_LIMIT_BYTES, Object, ObjectStore, Version, Written
from tests.rigs.scripted_bastion import Clock, ScriptedBastion, world

ASKED = RequestRef(project="blue", user="ada", ulid="01HF0000000000000000000000", verb="cancel")
BODY = JobsRequest(targets=("train-0123456789",))


def inbox_with(faults: Iterator[Fault | None]) -> tuple[MemoryStore, Clock, Inbox]:
    """Return an inbox on a store whose creates fail as `faults` say, in turn."""
    store, clock = world()
    faulty = FaultyStore(store, lambda op, key: next(faults, None) if op == "create" else None)
    return store, clock, inbox_on(faulty, clock)


def inbox_on(store: ObjectStore, clock: Clock, *, has_answered: bool = False) -> Inbox:
    """Return an inbox on `store` that answered before, or never did."""
    outage = Outage(clock, say=lambda _: None)
    outage.has_answered = has_answered
    return Inbox(PatientStore(store, outage, clock), clock, poll_s=0.02, outage=outage)


@pytest.mark.parametrize("fault", list(Fault))
def test_a_create_in_doubt_is_tried_again_and_lands_once(fault: Fault) -> None:
    """If the write is lost, landed or not, the inbox has one request with our bytes."""
    store, _, inbox = inbox_with(iter((fault,)))
    inbox.post(ASKED, BODY)
    assert [entry.key for entry in store.list("inbox/")] == [ASKED.key]


def test_a_request_absorbed_while_in_doubt_is_not_an_error() -> None:
    """The bastion may accept a request before its sender knows that it landed."""
    store, clock, inbox = inbox_with(iter((Fault.AFTER,)))
    bastion = ScriptedBastion(store, clock)
    inbox.post(ASKED, BODY)
    assert inbox.is_waiting(ASKED)  # the identical bytes were sent again: applied once by name
    assert [body for _, body in bastion.taken] == [BODY]


def test_a_storm_of_a_minute_loses_no_request() -> None:
    """A store that does not answer for a minute only delays the submission."""
    store, clock = world()
    until = clock.monotonic() + 60
    faulty = FaultyStore(store, lambda *_: Fault.BEFORE if clock.monotonic() < until else None)
    inbox_on(faulty, clock).post(ASKED, BODY)
    assert [entry.key for entry in store.list("inbox/")] == [ASKED.key]


def test_an_endless_doubt_is_told() -> None:
    """After two minutes the sender is told that it is in doubt, and how to find out."""
    _, clock, inbox = inbox_with(iter([Fault.BEFORE] * 999))
    began = clock.monotonic()
    with pytest.raises(InDoubtError, match="it is unknown whether the request reached") as it:
        inbox.post(ASKED, BODY)
    assert it.value.hint == "try again: to cancel twice does no harm"
    assert 100 < clock.monotonic() - began <= 120


def test_a_doubtful_launch_names_the_command_that_tells() -> None:
    """The message says how to see the job; with a key, a second submission makes no second one."""
    _, _, inbox = inbox_with(iter([Fault.BEFORE] * 999))
    asked = replace(ASKED, verb="launch")
    job = Job(name="main", processes=(Process(["true"]),))
    body = LaunchRequest(launch=Launch(name="train", project="blue", jobs=(job,)))
    with pytest.raises(InDoubtError) as caught:
        inbox.post(asked, body)
    (name,) = job_ids(body.launch, asked.ulid)
    assert caught.value.hint.startswith(f"bastion show {name} shows whether it was accepted")
    with pytest.raises(InDoubtError) as caught:
        inbox.post(asked, replace(body, idempotency_key="k"))
    assert "same --idempotency_key" in caught.value.hint


@pytest.mark.parametrize("failure", [StoreError("away"), StoreRefusedError("forbidden")])
def test_a_launch_that_may_stand_is_never_called_failed(failure: StoreError) -> None:
    """After a try that may have landed, any answer of the store leaves it in doubt."""

    class Leaving(MemoryStore):
        is_left = False

        def create(self, key: str, data: bytes) -> Written:
            if self.is_left:
                raise failure
            self.is_left = True
            super().create(key, data)
            raise StoreError("the answer was lost")

    clock = Clock()
    store = Leaving(clock.wall)
    with pytest.raises(InDoubtError):
        inbox_on(store, clock, has_answered=True).post(ASKED, BODY)
    assert store.list("inbox/"), "it was accepted all the while"


def test_a_conflict_that_cannot_be_read_back_is_a_doubt() -> None:
    """If our own request may be there, an outage is not a failure of the request."""
    store, clock = world()
    store.create(ASKED.key, encode(BODY))
    faulty = FaultyStore(store, lambda op, _: Fault.BEFORE if op == "read" else None)
    with pytest.raises(InDoubtError):
        inbox_on(faulty, clock).post(ASKED, BODY)


class Refusing(MemoryStore):
    """A store that refuses the first creates."""

    tries = 0
    refusals = 10**6

    def create(self, key: str, data: bytes) -> Written:
        """See the port."""
        self.tries += 1
        if self.tries <= self.refusals:
            raise StoreRefusedError("no access")
        return super().create(key, data)


def test_a_store_that_refuses_from_the_first_is_asked_once() -> None:
    """Repeating does not improve wrong credentials; nothing is in doubt."""
    clock = Clock()
    store = Refusing(clock.wall)
    with pytest.raises(StoreRefusedError):
        inbox_on(store, clock).post(ASKED, BODY)
    assert store.tries == 1


def test_a_refusal_of_two_seconds_is_outwaited() -> None:
    """A store that answered before and refuses now is retried for some seconds."""
    clock = Clock()
    store = Refusing(clock.wall)
    store.refusals = 3
    inbox_on(store, clock, has_answered=True).post(ASKED, BODY)
    assert store.list("inbox/")
    with pytest.raises(StoreRefusedError, match="no access"):
        inbox_on(Refusing(clock.wall), clock, has_answered=True).post(ASKED, BODY)


def test_another_request_of_this_name_is_a_conflict() -> None:
    """Two different requests of one name are distinguished by their bytes."""
    _, _, inbox = inbox_with(iter(()))
    inbox.post(ASKED, BODY)
    inbox.post(ASKED, BODY)
    with pytest.raises(ConflictError, match="there is another request at inbox/blue/ada/"):
        inbox.post(ASKED, JobsRequest(targets=("other-0123456789",)))


def test_no_answer_in_time_says_where_the_request_is() -> None:
    """A timeout says that nothing is lost, and where request and answer are."""
    _, clock, inbox = inbox_with(iter(()))
    inbox.post(ASKED, BODY)
    before = clock.monotonic()
    with pytest.raises(TimedOutError) as caught:
        inbox.wait(ASKED, timeout_s=30)
    assert str(caught.value) == (
        f"no answer within 30s: the request is in the inbox ({ASKED.key}) and is processed when"
        " the bastion runs"
    )
    assert caught.value.hint == (
        f"bastion status shows whether it runs; the answer will be at {ASKED.answer_key}"
    )
    assert 30 <= clock.monotonic() - before < 31


def test_an_answer_is_found_though_the_store_stutters() -> None:
    """While waiting, a store out of reach only makes the wait longer."""
    store, clock = world()
    ScriptedBastion(store, clock)
    faults = iter([Fault.BEFORE] * 3)
    faulty = FaultyStore(store, lambda op, key: next(faults, None) if "results" in key else None)
    inbox = inbox_on(faulty, clock)
    inbox.post(ASKED, BODY)
    assert inbox.wait(ASKED, timeout_s=5).accepted


def test_a_refusal_while_waiting_is_no_refusal_of_the_request() -> None:
    """An accepted request is not called refused because a read of its answer was refused."""
    clock = Clock()
    left = [StoreRefusedError("forbidden")] * 4

    class Changing(MemoryStore):
        def read(
            self, key: str, *, unless: Version | None = None, limit_bytes: int = READ_LIMIT_BYTES
        ) -> Object | None:
            if "results" in key and left:
                raise left.pop()
            return super().read(key, unless=unless, limit_bytes=limit_bytes)

    store = Changing(clock.wall)
    ScriptedBastion(store, clock)
    inbox = inbox_on(store, clock)
    inbox.post(ASKED, BODY)
    assert inbox.wait(ASKED, timeout_s=5).accepted
    assert not left


def test_a_second_answer_is_looked_for_when_it_is_due() -> None:
    """A wait learns from the previous one: fewer reads, and no delayed answer."""
    clock, takes_s, looks = Clock(), 0.1, 0

    class Slow(MemoryStore):
        def read(
            self, key: str, *, unless: Version | None = None, limit_bytes: int = READ_LIMIT_BYTES
        ) -> Object | None:
            nonlocal looks
            looks += "results" in key
            return super().read(key, unless=unless, limit_bytes=limit_bytes)

    store = Slow(clock.wall)
    bastion = ScriptedBastion(store, clock)
    act = clock.on_sleep.pop()
    inbox = inbox_on(store, clock)
    clock.on_sleep.append(lambda: act() if clock.monotonic() >= due_at else None)
    counts, lasted_s = list[int](), list[float]()
    for number in range(3):
        if number == 2:
            takes_s = 0.01
        asked, looks, began = (
            replace(ASKED, ulid=f"{ASKED.ulid[:-1]}{number}"),
            0,
            clock.monotonic(),
        )
        due_at = began + takes_s
        inbox.post(asked, BODY)
        assert inbox.wait(asked, timeout_s=5).accepted
        counts.append(looks)
        lasted_s.append(clock.monotonic() - began)
    assert len(bastion.taken) == 3
    assert counts[1] < counts[0] / 2
    assert max(lasted_s[:2]) < 0.12
    assert lasted_s[2] < 0.06
