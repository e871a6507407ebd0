"""Times in a reason are relative to the time until which a view is known to be valid."""

from __future__ import annotations

from bastion.client.look.job_line import JobLine, whole
from bastion.client.look.told_reason import rows_told_now, told_now
from bastion.client.look.views import JobView
from bastion.records.coding.codec import plain
from bastion.scheduler.reasons.reason import Backoff
from bastion.value import replace

REASON = Backoff(until=130.0, after="failed")
JOB = JobView(
    id="a-1",
    name="a",
    project="p",
    user="ann",
    launch="a-1",
    state="queued",
    reason=plain(REASON),
    text="waits after a failure; requeued in 30s",
    as_of=100.0,
)


def test_a_time_in_a_reason_is_as_old_as_the_view_is_said_to_be() -> None:
    """If a later status says that the view is still valid, its times count from then."""
    told = told_now(JOB, lambda: 118.0)
    assert (told.text, told.as_of) == ("waits after a failure; requeued in 12s", 118.0)
    assert told_now(JOB, lambda: 100.0) is JOB


def test_the_times_of_a_list_are_as_old_as_the_list_is_said_to_be() -> None:
    """This applies to queue rows and jobs; an ended job has no relative times."""
    fields = {"id": "b-1", "project": "p", "state": "queued", "phase": "queued"}
    line = JobLine({**fields, "reason": plain(REASON), "text": JOB.text}, 100.0)
    waiting = replace(JOB, phase="queued")
    ended = replace(JOB, phase="done", state="failed")
    other = replace(waiting, text="its machine is silent, heard in the last 20s")
    rows = (line, waiting, ended, other)
    told = rows_told_now(rows, lambda: 118.0)
    anew = "waits after a failure; requeued in 12s"
    assert [row.text for row in told] == [anew, anew, JOB.text, other.text]
    assert [whole(row).as_of for row in told] == [118.0, 118.0, 100.0, 100.0]
    assert [whole(row).text for row in told] == [row.text for row in told]
    assert [row.text for row in rows_told_now(rows, lambda: 100.0)] == [row.text for row in rows]


def test_a_text_that_is_not_its_reason_stays() -> None:
    """Text about a silent machine or another version is not recomputed."""
    for job in (
        replace(JOB, text="its machine is silent, heard in the last 20s"),
        replace(JOB, reason={"kind": "OfTheFuture"}),
        replace(JOB, reason={}),
    ):
        assert told_now(job, lambda: 118.0) is job
