"""Totals carried from one root to the next equal those computed from scratch."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from bastion.array import new_array
from bastion.job import Dependency, JobRecord
from bastion.records.root import Root
from bastion.service.publish.totals import RunningTotals, totals
from bastion.spec.arrays.indices import Indices
from bastion.value import replace
from quota import parse
from tests.rigs import job_records
from tests.rigs.leader import QUOTA as QUOTA_TEXT

QUOTA = parse(QUOTA_TEXT)
JOBS = st.builds(
    lambda job, held, project: replace(job, held=held, project=project),
    st.sampled_from([make() for make in job_records.RECORDS.values()]),
    st.sampled_from(["", "ann"]),
    st.sampled_from(["blue", "red"]),
)
MAPS = st.dictionaries(st.sampled_from("abcd"), JOBS)


@given(st.lists(MAPS, max_size=6))
def test_carried_totals_are_those_from_nothing(maps: list[dict[str, JobRecord]]) -> None:
    """Jobs in any phase arrive, change and leave."""
    carried = RunningTotals()
    for jobs in maps:
        named = {name: replace(job, id=name) for name, job in jobs.items()}
        now = Root(epoch=1, seq=1, now=0.0, write_id="w", jobs=named)
        assert carried.of(now, QUOTA) == totals(now, QUOTA)


def test_the_longest_wait_of_a_project_is_that_of_the_present_turn() -> None:
    """Held, dependent or running jobs do not count; tasks of arrays do."""
    job = replace(job_records.queued(), submitted_at=1.0, queued_at=50.0)
    jobs = {
        each.id: each
        for each in (
            job,
            replace(job, id="late", queued_at=60.0),
            replace(job, id="held", queued_at=2.0, held="ann"),
            replace(job, id="after", queued_at=3.0, after=(Dependency(on="late"),)),
            replace(job_records.running(), id="runs", queued_at=4.0),
        )
    }
    array = new_array(replace(job, id="many", queued_at=40.0), Indices.of([0, 1]), at_once=None)
    root = Root(epoch=1, seq=1, now=70.0, write_id="w", jobs=jobs)
    carried = RunningTotals()
    for now, since in (
        (root, 50.0),
        (replace(root, arrays={"many": array}), 40.0),
        (replace(root, jobs={name: each for name, each in jobs.items() if name != job.id}), 60.0),
        (replace(root, jobs={}), None),
    ):
        projects = carried.of(now, QUOTA).projects
        assert [projects[name]["waiting_since"] for name in ("blue", "red")] == [since, None]
