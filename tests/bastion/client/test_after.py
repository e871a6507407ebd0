"""What a launch waits for, as the client resolves it: ids in place of names."""

from __future__ import annotations

import pytest

from bastion.client import Client
from bastion.errors import SpecError
from bastion.job import JobClass
from bastion.records.coding.codec import encode
from bastion.records.keys import layout
from bastion.records.requests.launch_request import SpecRecord
from bastion.spec import After, Job, Launch, Process
from tests.bastion.client.busy_bucket import asking, running
from tests.bastion.client.busy_bucket import client_of as foreseeing
from tests.rigs.scripted_bastion import ScriptedBastion, end, publish, row, world

PREP, OLD = "prep-0123456789", "old-9876543210"
LAUNCH, PARTS = "many-00000abcde", ("many-a-00000abcde", "many-b-00000abcde")


def job(name: str, *after: After | str) -> Job:
    """Return a small job."""
    return Job(name=name, processes=(Process(["true"]),), after=after)


def spec(launch: Launch, ulid: str) -> bytes:
    """Return the stored spec of a launch."""
    name = f"{launch.name}-{ulid[-10:].lower()}"
    return encode(SpecRecord(id=name, project="blue", user="ada", ulid=ulid, launch=launch))


@pytest.fixture
def client() -> Client:
    """Provide a client of a bucket with an active job, a finished one, and a launch of two."""
    store, clock = world()
    ScriptedBastion(store, clock)
    rows = [row(PREP, state="running"), *(row(part, launch=LAUNCH) for part in PARTS)]
    rows += [row(f"twin-000000000{n}") for n in (1, 2)]
    publish(store, "queue", {"jobs": rows})
    end(store, OLD)
    return Client("memory:", user="ada", store=store, clock=clock)


@pytest.mark.parametrize(
    ("written", "found"),
    [
        (PREP, PREP),
        ("prep", PREP),
        ("prep-01", PREP),
        ("old", OLD),
        (LAUNCH, LAUNCH),
        ("many", LAUNCH),
        ("many-a", PARTS[0]),
    ],
)
def test_a_name_becomes_an_id(client: Client, written: str, found: str) -> None:
    """An id, its unique prefix or a name works for active and finished jobs and launches."""
    launch = client.checked(Launch(name="new", jobs=(job("x"),), after=[f"{written}:any"]))
    assert launch.after == (After(found, when="any"),)


def test_a_launch_that_has_ended_is_known_by_its_spec(client: Client) -> None:
    """It is no longer in the queue; its id is still valid."""
    old = Launch(name="gone", jobs=(job("a"), job("b")), together=False)
    client.store.create(layout.spec("blue", "gone-00000fghjk"), spec(old, "0" * 21 + "FGHJK"))
    launch = client.checked(Launch(name="new", jobs=(job("x"),), after=["gone-00000fghjk"]))
    assert launch.after == (After("gone-00000fghjk"),)


def test_names_of_its_own_jobs_stay(client: Client) -> None:
    """A job of the same launch takes precedence over any other of that name."""
    launch = Launch(name="new", jobs=(job("prep"), job("next", "prep", "old")), together=False)
    assert client.checked(launch).jobs[1].after == (After("prep"), After(OLD))


def test_what_is_not_there_is_told_at_once(client: Client) -> None:
    """All wrong targets are reported together, before anything is sent."""
    with pytest.raises(SpecError) as caught:
        client.launch(Launch(name="new", jobs=(job("x", "nobody"),), after=["twin", "nothing"]))
    assert caught.value.problems == (
        "after: 'twin' names 2 jobs: twin-0000000001, twin-0000000002",
        "after: no job 'nothing' in project blue",
        "after: no job 'nobody' in project blue",
    )
    assert "bastion list --all" in caught.value.hint
    assert not client.store.list(layout.INBOX)


def test_a_dry_run_says_that_it_would_wait() -> None:
    """It has the reason, and considers what has already ended."""
    jobs = {"base-0": running("base-0", devices=(0,), job_class=JobClass.GUARANTEED)}
    client = foreseeing(jobs, user="ada")
    publish(client.store, "queue", {"jobs": [row("base-0", state="running")]})
    outlook = client.what_if(asking(4, after=["base-0"]))
    ((_, verdict),) = outlook.verdicts
    assert "waits for base-0 to succeed (running)" in verdict.reason.words(0.0)
    end(client.store, OLD)
    assert client.what_if(asking(4, after=[OLD])).starts
    with pytest.raises(SpecError, match=r"it was to start on a failure; so new-.* could never"):
        client.what_if(asking(4, after=[After(OLD, when="failed")]))
