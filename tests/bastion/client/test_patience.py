"""A store that fails for a while, as users see it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from bastion.client import Client, LaunchHandle
from bastion.client.follow.command import Command
from bastion.client.patience import (
    LONGEST_PAUSE_S,
    PATIENCE_S,
    REFUSED_S,
    Outage,
    PatientStore,
)
from bastion.errors import ConflictError, NotFoundError, StoreError, StoreRefusedError
from bastion.records.coding.codec import encode
from bastion.records.keys import layout
from bastion.records.reports.registers import CommandEnd
from bastion.records.requests.origin import Origin, store_origin
from bastion.store.memory import Fault, FaultyStore, MemoryStore
from bastion.store.port import READ_LIMIT_BYTES, Object, ObjectStore, Version
from tests.bastion.client.scripted_client import launch_of
from tests.rigs.scripted_bastion import Clock, ScriptedBastion, end, publish, row, world

JOB = "train-0123456789"


class Away:
    """A store that fails until `until`, on the clock of its callers."""

    def __init__(self, clock: Clock, until: float) -> None:
        self.clock = clock
        self.until = clock.monotonic() + until

    def __call__(self, operation: str, key: str) -> Fault | None:
        """See `FaultyStore`."""
        return Fault.BEFORE if self.clock.monotonic() < self.until else None


def patient(store: ObjectStore, clock: Clock, *, said: list[str] | None = None) -> PatientStore:
    """Return `store` with retries; messages about it go into `said`."""
    lines = [] if said is None else said
    return PatientStore(store, Outage(clock, say=lines.append), clock)


def handle_of(client: Client) -> LaunchHandle:
    """Return the handle of an earlier launch."""
    return LaunchHandle(client, launch=JOB, project="blue", jobs=(JOB,))


@pytest.mark.parametrize(
    "ask",
    [
        lambda client: client.jobs(),
        lambda client: client.status(),
        lambda client: client.job(JOB),
        lambda client: client.launch(launch_of()),
        lambda client: handle_of(client).status(),
        lambda client: handle_of(client).counts,
    ],
    ids=["list", "status", "show", "launch", "handle.status", "handle.counts"],
)
def test_an_outage_of_a_minute_fails_no_command(ask: Callable[[Client], object]) -> None:
    """Reads, and a launch with everything that it stores, wait until the store is back."""
    store, clock = world()
    ScriptedBastion(store, clock)
    publish(store, "queue", {"jobs": [row(JOB)]})
    publish(store, "status", {"jobs": {}, "problems": [], "leader": "b", "since": 1.0, "epoch": 1})
    faulty = FaultyStore(store, Away(clock, 60))
    ask(Client("memory:", user="ada", store=faulty, clock=clock))


def test_an_outage_that_goes_on_is_told_in_time() -> None:
    """After two minutes the error is raised; before, the user was told about the wait."""
    _, clock = world()
    said: list[str] = []
    faulty = FaultyStore(MemoryStore(clock.wall), lambda *_: Fault.BEFORE)
    began = clock.monotonic()
    with pytest.raises(StoreError, match="never answered") as caught:
        patient(faulty, clock, said=said).read("view/queue.json")
    assert caught.value.hint.endswith("try again later")
    assert PATIENCE_S - LONGEST_PAUSE_S <= clock.monotonic() - began <= PATIENCE_S
    assert said[0] == "read of 'view/queue.json' was never answered; trying again"
    assert len(said) == 2, "once a minute"


def test_a_short_outage_is_not_told() -> None:
    """An outage of a second causes no message; the end of a longer one does."""
    store, clock = world()
    said: list[str] = []
    patient(FaultyStore(store, Away(clock, 1)), clock, said=said).read(layout.QUOTA)
    assert said == []
    patient(FaultyStore(store, Away(clock, 10)), clock, said=said).read(layout.QUOTA)
    assert said[-1] == "the store answers again"
    assert len(said) == 2


def test_output_of_a_command_that_is_not_given_is_told_once() -> None:
    """Reading the job beside it successfully does not end its outage."""
    store, clock = world()
    said: list[str] = []
    outage = Outage(clock, say=said.append)
    key = layout.command_end(layout.command_log("blue", JOB, "x"))
    store.create(key, encode(CommandEnd(write_id="w", code=0)))
    away = Away(clock, 50)

    def is_over() -> bool:
        outage.over()
        return False

    faulty = FaultyStore(store, away)
    command = Command(faulty, "blue", JOB, "x", clock, poll_s=1.0, outage=outage, is_over=is_over)
    assert list(command.output()) == []
    assert [line.rpartition("; ")[2] for line in said] == [
        "trying again",
        "the store answers again",
    ]


class Refusing(MemoryStore):
    """A store that refuses to be read for a while."""

    refusals = 0

    def read(
        self, key: str, *, unless: Version | None = None, limit_bytes: int = READ_LIMIT_BYTES
    ) -> Object | None:
        """See the port."""
        if self.refusals:
            self.refusals -= 1
            raise StoreRefusedError("forbidden")
        return super().read(key, unless=unless, limit_bytes=limit_bytes)


def test_a_refusal_at_the_first_contact_is_final() -> None:
    """Without credentials, or without a bucket, nothing is retried."""
    _, clock = world()
    store = Refusing(clock.wall)
    store.refusals = 1
    with pytest.raises(StoreRefusedError):
        patient(store, clock).read("a")
    assert not store.refusals


def test_a_refusal_after_an_answer_is_tried_again_for_seconds() -> None:
    """A permission that is being changed is retried; a missing one is reported soon."""
    _, clock = world()
    store = Refusing(clock.wall)
    asked = patient(store, clock)
    store.create("a", b"1")
    asked.read("a")
    store.refusals = 3
    asked.read("a")
    assert not store.refusals
    store.refusals = 10**6
    began = clock.monotonic()
    with pytest.raises(StoreRefusedError):
        asked.read("a")
    assert clock.monotonic() - began <= REFUSED_S


def test_what_is_no_failure_is_not_tried_again() -> None:
    """An object that does not exist, or already exists, is an answer."""
    store, clock = world()
    counting = FaultyStore(store, lambda *_: None)
    asked = patient(counting, clock)
    with pytest.raises(NotFoundError):
        asked.read("nothing")
    with pytest.raises(ConflictError):
        asked.create(layout.QUOTA, b"")
    assert counting.counts == {"read": 1, "create": 1}


def test_only_what_is_named_by_its_bytes_is_created_again() -> None:
    """An origin is stored through an outage; a create with another name is tried once."""
    store, clock = world()
    left = [Fault.AFTER, Fault.BEFORE]
    faulty = FaultyStore(store, lambda *_: left.pop() if left else None)
    digest = store_origin(patient(faulty, clock), Origin(argv=("a",)))
    assert store.read(layout.origin(digest))
    once = FaultyStore(store, lambda *_: Fault.BEFORE)
    with pytest.raises(StoreError):
        patient(once, clock).create("inbox/a", b"")
    with pytest.raises(StoreError):
        patient(once, clock).swap("a", b"", if_version=Version("1"))
    assert once.counts == {"create": 1, "swap": 1}


@pytest.mark.parametrize("ask", ["wait", "logs"])
def test_waiting_outlasts_refusals(ask: str) -> None:
    """`wait` and followed logs continue through refusals after the first answer."""
    clock = Clock()
    store = Refusing(clock.wall)
    publish(store, "queue", {"jobs": [row(JOB, state="running")]})
    met: list[bool] = []

    def play() -> None:
        """Refuse once something is waited for, and let the job end behind it."""
        if not met:
            met.append(True)
            end(store, JOB)
            publish(store, "queue", {"jobs": []})
            store.refusals = 300

    clock.on_sleep.append(play)
    client = Client("memory:", user="ada", store=store, clock=clock)
    if ask == "wait":
        (ended,) = client.wait([JOB])
        assert ended.state == "succeeded"
    else:
        assert list(client.logs(JOB, follow=True)) == []
    assert met
    assert not store.refusals


def test_a_wait_in_an_outage_ends_when_its_time_is_over() -> None:
    """Retries do not make a wait longer than requested."""
    store, clock = world()
    publish(store, "queue", {"jobs": [row(JOB, state="running")]})
    away = Away(clock, 0)
    client = Client("memory:", user="ada", store=FaultyStore(store, away), clock=clock)
    client.job(JOB)
    began = away.until = clock.monotonic()
    clock.on_sleep.append(lambda: setattr(away, "until", began + 10_000))
    with pytest.raises(Exception, match="has not ended after 7s"):
        client.wait([JOB], timeout_s=7)
    assert clock.monotonic() - began < 8


def test_a_folder_that_is_not_there_is_told_at_once(tmp_path: Path) -> None:
    """A folder that was never reached has a wrong name, and is no outage."""
    clock = Clock()
    client = Client(f"file://{tmp_path}/none", user="ada", clock=clock)
    began = clock.monotonic()
    with pytest.raises(StoreError):
        client.jobs()
    assert clock.monotonic() == began
