"""What a request names is found without a scan of the queue."""

from __future__ import annotations

from cProfile import Profile
from dataclasses import replace

from bastion.array import new_array
from bastion.job import JobRecord
from bastion.records.root import Root
from bastion.service.draft.root_draft import Draft
from bastion.service.draft.targets import targets_of
from bastion.spec.arrays.indices import Indices
from tests.rigs import job_records


def job(name: str, launch: str) -> JobRecord:
    """Return a waiting job."""
    return replace(job_records.queued(), id=name, launch=launch, project="blue")


def draft_of(jobs: int) -> Draft:
    """Return a draft with that many jobs, each in its own launch except the first two."""
    made: dict[str, JobRecord] = {}
    for number in range(jobs):
        name = f"job{number}-0123456789"
        launch = "pair-0123456789" if number < 2 else name
        made[name] = job(name, launch)
    return Draft(Root(epoch=1, seq=1, now=1.0, write_id="w", jobs=made), 2.0)


def calls(jobs: int) -> int:
    """Return the functions called for three targets, in a draft that was used before."""
    draft = draft_of(jobs)
    targets = ("job3-0123456789", "pair-0123456789", "none-0123456789")
    targets_of(draft, "blue", targets)
    profile = Profile()
    profile.runcall(targets_of, draft, "blue", targets)
    return sum(each.callcount for each in profile.getstats())


def test_a_request_costs_the_same_whatever_waits() -> None:
    """Hundreds of requests arrive in a turn, and ten thousand jobs may wait."""
    assert calls(2_000) < calls(5) + 100


def test_a_job_that_came_or_left_in_the_turn_is_known() -> None:
    """The jobs of a launch are those of the current draft."""
    draft = draft_of(3)
    assert len(targets_of(draft, "blue", ("pair-0123456789",)).jobs) == 2
    draft.add(job("new-0123456789", "pair-0123456789"))
    del draft.jobs["job0-0123456789"]
    found = targets_of(draft, "blue", ("pair-0123456789", "job0-0123456789"))
    assert [job.id for job in found.jobs] == ["job1-0123456789", "new-0123456789"]
    assert found.unknown == ("job0-0123456789",)


def test_tasks_that_several_targets_name_are_found_once() -> None:
    """Targets may name the same array, and the same task."""
    draft = draft_of(0)
    each = job("sweep-0123456789", "sweep-0123456789")
    draft.add_array(new_array(each, Indices.parse("0-9"), at_once=None))
    for index in (2, 3, 5):
        draft.take_task(f"{each.id}.{index}")
    named = (f"{each.id}.0-2", f"{each.id}.2,5", f"{each.id}.5")
    found = targets_of(draft, "blue", named)
    assert {job.task for job in found.jobs} == {2, 5}
    assert len(found.jobs) == 2
    assert [aimed.target for aimed in found.arrays] == list(named)
