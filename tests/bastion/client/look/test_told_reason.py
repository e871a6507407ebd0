"""The times in a reason are as of the moment that a view is known to be true until."""

from __future__ import annotations

from bastion.client.look.told_reason import told_now
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
    """A later status says that the view still holds: its times are reckoned from then."""
    told = told_now(JOB, lambda: 118.0)
    assert (told.text, told.as_of) == ("waits after a failure; requeued in 12s", 118.0)
    assert told_now(JOB, lambda: 100.0) is JOB


def test_a_text_that_is_not_its_reason_stays() -> None:
    """What a machine's silence or another version says in its place is not told anew."""
    for job in (
        replace(JOB, text="its machine is silent, heard in the last 20s"),
        replace(JOB, reason={"kind": "OfTheFuture"}),
        replace(JOB, reason={}),
    ):
        assert told_now(job, lambda: 118.0) is job
