"""Whether a bastion can answer, reported before any request."""

from __future__ import annotations

import pytest

from bastion.client import Client
from bastion.client.change.presence import Presence
from bastion.client.look.published import Published
from bastion.errors import NotFoundError, TimedOutError
from bastion.store.memory import MemoryStore
from tests.bastion.client.scripted_client import client_of, launch_of
from tests.rigs.scripted_bastion import NOW, Clock, lead, world

PLACE = "file:///srv/bastion"


def presence_of(store: MemoryStore, clock: Clock) -> tuple[Presence, list[str]]:
    """Return the presence at `PLACE`, and its messages."""
    said: list[str] = []
    published = Published(store, clock.wall)
    return Presence(published, published, PLACE, clock, say=said.append), said


def test_a_root_that_no_bastion_ever_served_is_refused_and_left_empty() -> None:
    """A mistyped root gets no request and no code, and the error names it."""
    clock = Clock()
    store = MemoryStore(clock.wall)
    client = Client(PLACE, user="ada", project="blue", store=store, clock=clock)
    began = clock.monotonic()
    with pytest.raises(NotFoundError) as caught:
        client.launch(launch_of())
    assert str(caught.value) == f"no bastion has ever served {PLACE}"
    assert "--root=URL" in caught.value.hint
    assert not store.list("")
    assert clock.monotonic() == began


def test_nothing_is_told_while_a_bastion_leads() -> None:
    """A healthy bastion causes no message."""
    presence, said = presence_of(*world())
    presence.look()
    assert said == []


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        ({"leader": None}, "no bastion leads: the last one stopped 26s ago"),
        ({}, "no bastion answers: vm on vm has published nothing for 26s"),
    ],
)
def test_a_bastion_that_is_away_is_said_before_the_wait(
    fields: dict[str, object], why: str
) -> None:
    """A stop is known immediately, silence after a few lease renewals; it is reported once."""
    store, clock = world()
    lead(store, now=NOW - 26, **fields)
    presence, said = presence_of(store, clock)
    presence.look()
    presence.look()
    assert said == [f"{why}; requests wait in the inbox of {PLACE}"]


def test_a_root_that_an_admin_prepared_waits_for_its_first_bastion() -> None:
    """A quota file makes a root; an early request is not refused, and its wait is explained."""
    store, clock = world()
    store.delete("view/status.json")
    presence, said = presence_of(store, clock)
    presence.look()
    assert said == []
    presence.still_waiting()
    assert said == [f"no bastion has run here yet; requests wait in the inbox of {PLACE}"]


def test_an_answer_that_takes_long_is_said() -> None:
    """After two seconds a user knows what is awaited, and where."""
    store, clock = world()
    said: list[str] = []
    client = Client(PLACE, user="ada", store=store, clock=clock)
    client.presence._say = said.append
    clock.on_sleep.append(lambda: lead(store, now=clock.wall()))
    with pytest.raises(TimedOutError):
        client.launch(launch_of(), timeout_s=5.0)
    assert said == [f"waiting for the answer of the bastion at {PLACE}"]


def test_a_bastion_that_dies_while_an_answer_is_awaited_is_said() -> None:
    """The wait is explained once it is known that no bastion answers."""
    store, clock = world()
    lead(store, now=clock.wall())
    said: list[str] = []
    client = Client(PLACE, user="ada", store=store, clock=clock)
    client.presence._say = said.append
    with pytest.raises(TimedOutError):
        client.launch(launch_of(), timeout_s=60.0)
    first, second = said
    assert first == f"waiting for the answer of the bastion at {PLACE}"
    assert second.startswith("no bastion answers: vm on vm has published nothing for ")


def test_a_bastion_that_goes_and_comes_back_during_a_wait_is_said() -> None:
    """A user who waits for hours learns why nothing changes."""
    store, clock = world()
    presence, said = presence_of(store, clock)
    for fields in ({}, {"leader": None}, {"leader": None}, {}):
        lead(store, now=clock.wall(), **fields)
        presence.glance()
        presence.glance()
        clock.sleep(10.0)
    assert said == [
        "no bastion leads: the last one stopped 0s ago; jobs continue while their machines run",
        "a bastion leads again",
    ]


def test_an_interrupted_wait_says_what_becomes_of_the_request() -> None:
    """Ctrl-C cancels nothing: the request is named, and the job that it may become."""
    client, store, clock, bastion = client_of()
    clock.on_sleep.remove(bastion.turn)

    def interrupt() -> None:
        raise KeyboardInterrupt

    clock.on_sleep.append(interrupt)
    with pytest.raises(KeyboardInterrupt) as caught:
        client.launch(launch_of())
    (entry,) = store.list("inbox/")
    (told,) = caught.value.__notes__
    assert told.startswith(f"the request to launch is in the inbox ({entry.key})")
    assert "bastion show train-" in told
