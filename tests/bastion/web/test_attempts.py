"""The attempts of a job without a final record."""

from __future__ import annotations

import re
from dataclasses import replace

from bastion.client.look.views import EventView, JobView
from bastion.clock import VirtualClock
from bastion.records.coding.codec import encode
from bastion.records.keys import layout
from bastion.records.reports.history import EndedAttempt
from bastion.records.root import Event
from bastion.store.memory import MemoryStore
from bastion.web.pages.job import attempts_of
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
