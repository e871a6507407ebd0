"""A followed log over HTTP: each event has the next offset, which a browser sends back."""

from __future__ import annotations

import json

from bastion.logs.segments import segment_key
from bastion.records.coding.codec import encode
from bastion.records.keys import layout
from bastion.records.requests.result import Result
from bastion.store.memory import MemoryStore
from tests.bastion.web.site import busy_store, site
from tests.rigs.busy_bucket import NOW

JOB = "past-0123456789"
LIVE = f"/jobs/vision/{JOB}/log/live?attempt=1"


def _store(*pieces: bytes) -> MemoryStore:
    """Return a job that has ended, with a log of some segments."""
    store = busy_store()
    result = Result(
        id=JOB,
        project="vision",
        user="ada",
        launch=JOB,
        name="past",
        outcome="succeeded",
        text="exited with code 0",
        submitted_at=NOW - 900.0,
        ended_at=NOW - 60.0,
        attempts=1,
    )
    store.create(layout.result("vision", JOB), encode(result))
    prefix, at = layout.log("vision", JOB, 1, replica=0, host=0, process=0), 0
    for piece in pieces:
        store.create(segment_key(prefix, at), piece)
        at += len(piece)
    return store


def _events(text: str) -> list[tuple[str, str, str]]:
    """Return the events of an answer: name, id and data."""
    found = []
    for block in text.replace("\r\n", "\n").split("\n\n"):
        lines = dict(line.split(": ", 1) for line in block.splitlines() if ": " in line)
        if "event" in lines:
            found.append((lines["event"], lines.get("id", ""), lines.get("data", "")))
    return found


def test_every_event_has_the_offset_to_read_on_from() -> None:
    """A browser sends the last id back; only newer output is sent."""
    with site(_store(b"one\ntwo\nthr", b"ee\nfour\n")) as client:
        first = _events(client.get(f"{LIVE}&at=0").text)
        again = _events(client.get(f"{LIVE}&at=0", headers={"last-event-id": first[0][1]}).text)
        odd = _events(client.get(f"{LIVE}&at=0", headers={"last-event-id": "-1; x"}).text)
    texts = [json.loads(data)["text"] for name, _, data in first if name == "text"]
    assert "".join(texts) == "one\ntwo\nthree\nfour\n"
    assert first[0][1] == "8"
    assert first[-1][0] == "over"
    rest = [json.loads(data)["text"] for name, _, data in again if name == "text"]
    assert "".join(rest) == "three\nfour\n"
    assert odd == first


def test_a_job_that_has_ended_is_found_by_its_name_as_on_the_command_line() -> None:
    """The search field leads to it, unless an active job matches."""
    with site(_store()) as client:
        for text in ("past", JOB, "past-01"):
            assert client.get(f"/find?name={text}").headers["location"] == f"/jobs/vision/{JOB}"
        for text in ("train", "ada", "nothing"):
            assert client.get(f"/find?name={text}").headers["location"].startswith("/?search=")


def test_a_request_for_headers_alone_follows_nothing() -> None:
    """`curl -I` would take a place, and wait for events that never come."""
    with site(_store(b"one\n"), followers=0) as client:
        for path in ("/live", LIVE):
            assert client.get(path).status_code == 503
            answer = client.head(path)
            assert answer.status_code == 200
            assert answer.headers["content-type"].startswith("text/event-stream")
