"""The attempts of a job without a final record."""

from __future__ import annotations

import re
from dataclasses import replace

from bastion.client.look.views import EventView, JobView
from bastion.clock import VirtualClock
from bastion.job import OutcomeKind, PastAttempt
from bastion.records.coding.codec import encode
from bastion.records.keys import layout
from bastion.records.reports.history import EndedAttempt
from bastion.records.requests.result import Result
from bastion.records.root import Event
from bastion.spec.request import Request
from bastion.store.memory import MemoryStore
from bastion.web.pages.job.page import attempts_of
from tests.bastion.web.site import site
from tests.rigs.busy_bucket import NOW, busy_root, write_bucket

JOB = "train-0123456789"


def _events(*happened: tuple[float, str, str]) -> tuple[EventView, ...]:
    return tuple(
        EventView(number=n, at=at, job=JOB, project="p", what=what, text=text)
        for n, (at, what, text) in enumerate(happened)
    )


def test_attempts_are_told_from_the_events_and_the_row() -> None:
    """Each start has its end and its machine; the running one comes from the row."""
    events = _events(
        (1.0, "submitted", "by ada"),
        (2.0, "starting", "attempt 1 on m-1-0"),
        (3.0, "running", "attempt 1 on m-1-0"),
        (8.0, "stopping", "preempt (urgent-1)"),
        (9.0, "draining", "attempt 1 on m-1-0"),
        (10.0, "preempted", "preempted for urgent-1"),
        (20.0, "starting", "attempt 2 on m-2-0"),
    )
    job = JobView(
        id=JOB,
        name="train",
        project="p",
        user="ada",
        launch=JOB,
        state="starting",
        phase="starting",
        attempt=2,
        machines=("m-2-0",),
    )
    first, second = attempts_of(job, events)
    assert (first.number, first.state, first.started_at, first.ended_at) == (
        1,
        "preempted",
        3.0,
        10.0,
    )
    assert first.machines == ("m-1-0",)
    assert (second.number, second.state, second.machines) == (2, "starting", ("m-2-0",))


def test_a_job_that_never_started_has_no_attempt() -> None:
    """Waiting, holds and releases are no attempts."""
    events = _events((1.0, "submitted", ""), (2.0, "held", ""), (3.0, "queued", ""))
    job = JobView(
        id=JOB, name="t", project="p", user="u", launch=JOB, state="queued", phase="queued"
    )
    assert attempts_of(job, events) == ()


def test_an_elastic_job_tells_how_many_replicas_each_attempt_had() -> None:
    """It has the current and possible number, earlier numbers, and how attempts ended."""
    root = busy_root(machines=4, running=6, queued=2)
    name, job = next(iter(root.jobs.items()))
    assert job.attempt is not None
    elastic = replace(
        job,
        request=replace(job.request, max_replicas=6),
        attempt=replace(job.attempt, number=2),
        attempts=2,
    )
    ended = EndedAttempt(
        user=job.user,
        launch=name,
        attempt=1,
        replicas=5,
        request=elastic.request,
        submitted_at=NOW - 900.0,
        queued_at=NOW - 900.0,
        admitted_at=NOW - 900.0,
        started_at=NOW - 890.0,
        freed_at=NOW - 600.0,
        outcome="stopped",
        stop_reason="resize",
        devices=20,
        guaranteed_device_s=6000.0,
    )
    told = [
        ("starting", "attempt 1 on m-1-0", None),
        ("running", "attempt 1 on m-1-0", None),
        ("queued", "stopped to grow: 6 replicas fit in place of 5", ended),
        ("starting", "attempt 2 on m-1-0", None),
    ]
    log = [
        Event(n=n, at=NOW - 900.0 + 100 * n, job=name, project=job.project, what=what, text=text)
        if record is None
        else Event(n=n, at=NOW - 600.0, job=name, project=job.project, what=what, record=record)
        for n, (what, text, record) in enumerate(told)
    ]
    clock = VirtualClock(wall=NOW)
    store = MemoryStore(clock.wall)
    write_bucket(store, replace(root, jobs={**root.jobs, name: elastic}))
    store.create(layout.events(0), b"\n".join(map(encode, log)))
    with site(store, clock=clock) as client:
        page = client.get(f"/jobs/{job.project}/{name}").text
        now = client.get(f"/?search={name}").text
        rigid = client.get("/jobs/vision/train-0000000002").text
    assert "for 1 of 1-6 replicas" in page
    assert "(1 of 1-6)" in now
    attempts = page.partition('id="attempts"')[2].partition("</table>")[0]
    rows = [re.sub(r"<[^>]+>", " ", row).split() for row in attempts.split("<tr>")[2:]]
    assert [row[:3] for row in rows] == [["1", "stopped", "5"], ["2", "running", "1"]]
    assert 'name="replica" type="number" min="0" max="5"' in page
    assert "Replicas" not in rigid


def _gang(number: int, failed_on: str) -> PastAttempt:
    return PastAttempt(
        number=number,
        nonce="n",
        admitted_at=NOW - 900.0,
        started_at=NOW - 890.0,
        ended_at=NOW - 800.0,
        kind=OutcomeKind.FAILED,
        machines=(("m-0",), ("m-1",), ("m-1",), ("m-2", "m-3")),
        failed_on=failed_on,
    )


def _gang_store(text: str, *, replicas: int = 4, machines: int = 2) -> MemoryStore:
    """Return a bucket with a job that failed twice, at last with `text`."""
    told = [
        ("starting", "attempt 1 on m-0"),
        ("queued", "replica 3: exited with code 1; tried again"),
        ("starting", "attempt 2 on m-0"),
        ("failed", text),
    ]
    result = Result(
        id=JOB,
        project="vision",
        user="ada",
        launch=JOB,
        name="train",
        outcome="failed",
        text=text,
        code=1,
        submitted_at=NOW - 1000.0,
        ended_at=NOW - 700.0,
        attempts=2,
        past=(_gang(1, "m-3"), _gang(2, "m-1")) if replicas > 1 else (),
        request=Request(replicas=replicas),
    )
    store = MemoryStore(lambda: NOW)
    write_bucket(store, busy_root(machines=machines, running=1, queued=1))
    store.create(layout.result("vision", JOB), encode(result))
    log = [
        Event(n=n, at=NOW - 900.0 + 50 * n, job=JOB, project="vision", what=what, text=text)
        for n, (what, text) in enumerate(told)
    ]
    store.create(layout.events(0), b"\n".join(map(encode, log)))
    return store


def test_a_failed_replica_of_a_gang_is_a_link_to_its_log() -> None:
    """In the reason, in the events and with each attempt; two replicas on a machine are not."""
    with site(_gang_store("replica 1: <b>exited</b> with code 1")) as client:
        page = client.get(f"/jobs/vision/{JOB}").text
    why, events, attempts = (
        page.partition(f'id="{part}"')[2].partition(f"</{end}>")[0]
        for part, end in (("why", "p"), ("events", "ol"), ("attempts", "table"))
    )
    link = '<a href="?attempt={}&amp;replica={}#log">replica {}</a>'.format
    assert f"{link(2, 1, 1)}: &lt;b&gt;exited&lt;/b&gt; with code 1" in why
    assert f"{link(1, 3, 3)}: exited with code 1; tried again" in events
    assert f"{link(2, 1, 1)}: &lt;b&gt;exited" in events
    assert 'href="?attempt=1&amp;replica=3&amp;host=1#log">replica 3</a>' in attempts
    assert attempts.count("replica") == 2


def test_what_a_single_replica_prints_of_replicas_is_text() -> None:
    """The last line of its log may name anything."""
    with site(_gang_store("exited with code 1: lost replica 7", replicas=1)) as client:
        page = client.get(f"/jobs/vision/{JOB}").text
    assert "exited with code 1: lost replica 7" in page
    assert "replica=7" not in page
