"""What is published of a job."""

from __future__ import annotations

from dataclasses import replace

import pytest

from bastion.array import new_array
from bastion.client.arrays import array_of_row
from bastion.client.views import job_of_result, job_of_row
from bastion.lifecycle import HostReported, step
from bastion.records.root import Root
from bastion.scheduler.plan import Plan, Wait
from bastion.scheduler.reason import Planned, Promised, Reason, WaitingForCapacity
from bastion.service.act import result_of
from bastion.service.publish import queue_view
from bastion.spec import task_id
from bastion.spec.indices import Indices
from quota import Amounts
from tests.bastion.lifecycle.records import T0, drained, ended, exited, queued, running


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


GPU = Amounts({"h100": 1})


@pytest.mark.parametrize(
    ("reason", "sure"),
    [
        (Promised(deadline=T0 + 60), "promised"),
        (Planned(at=T0 + 60), "planned"),
        (WaitingForCapacity(asked=GPU, short=GPU), "limits"),
    ],
)
def test_an_estimated_start_is_published_with_how_sure_it_is(reason: Reason, sure: str) -> None:
    """Of a job, and of the next task of an array; neither where there is no estimate."""
    job = queued()
    array = new_array(replace(job, id="many"), Indices.of([0, 1]), at_once=None)
    jobs, arrays = {job.id: job}, {"many": array}
    root = Root(epoch=1, seq=1, now=T0 + 5, write_id="w", jobs=jobs, arrays=arrays)
    for at, word in ((T0 + 60, sure), (None, "")):
        wait = Wait(reason=reason, estimated_at=at)
        verdicts = {job.id: wait, task_id("many", 0): wait}
        view = queue_view(root, Plan(verdicts=verdicts, promises=(), planned=(), new_machines=()))
        (alone,), (together,) = view["jobs"], view["arrays"]
        told = [job_of_row(alone, as_of=T0), array_of_row(together, as_of=T0)]
        assert [(each.estimated_at, each.sure) for each in told] == [(at, word)] * 2
