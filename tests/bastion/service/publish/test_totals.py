"""Totals that are carried from one root to the next are those that are summed up from nothing."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from bastion.job import JobRecord
from bastion.records.root import Root
from bastion.service.publish.totals import RunningTotals, totals
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
    """Jobs in any phase come, change and go."""
    carried = RunningTotals()
    for jobs in maps:
        named = {name: replace(job, id=name) for name, job in jobs.items()}
        now = Root(epoch=1, seq=1, now=0.0, write_id="w", jobs=named)
        assert carried.of(now, QUOTA) == totals(now, QUOTA)
