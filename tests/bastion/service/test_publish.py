"""What is published of a job."""

from __future__ import annotations

from bastion.client.views import job_of_result, job_of_row
from bastion.lifecycle import HostReported, step
from bastion.records.root import Root
from bastion.service.act import result_of
from bastion.service.publish import queue_view
from tests.bastion.lifecycle.records import T0, drained, ended, exited, running


def test_a_job_that_is_over_is_told_as_its_record_tells_it() -> None:
    """Whoever waits for the end may see the row before the record: both say how it ended."""
    job = step(running(), HostReported(replica=0, host=0, numbers={"loss": 0.5}), T0)
    job = drained(ended(job, exited(3)))
    root = Root(epoch=1, seq=1, now=T0 + 5, write_id="w", jobs={job.id: job})
    (row,) = queue_view(root, None)["jobs"]
    of_row = job_of_row(row, as_of=T0)
    of_result = job_of_result(result_of(job))
    for name in ("state", "text", "code", "started_at", "ended_at", "priority", "units", "report"):
        assert getattr(of_row, name) == getattr(of_result, name), name
    assert (of_row.state, of_row.code) == ("failed", 3)
