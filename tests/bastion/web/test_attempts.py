"""The attempts of a job that has no final record yet."""

from __future__ import annotations

from bastion.client.look.views import EventView, JobView
from bastion.web.pages.job import attempts_of

JOB = "train-0123456789"


def _events(*happened: tuple[float, str, str]) -> tuple[EventView, ...]:
    return tuple(
        EventView(number=n, at=at, job=JOB, project="p", what=what, text=text)
        for n, (at, what, text) in enumerate(happened)
    )


def test_attempts_are_told_from_the_events_and_the_row() -> None:
    """Each start has its end and its machine; the one that runs now comes from the row."""
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
    """Waiting, being held and being released are none."""
    events = _events((1.0, "submitted", ""), (2.0, "held", ""), (3.0, "queued", ""))
    job = JobView(
        id=JOB, name="t", project="p", user="u", launch=JOB, state="queued", phase="queued"
    )
    assert attempts_of(job, events) == ()
