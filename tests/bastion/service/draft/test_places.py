"""What a job takes of root, in jobs of the usual size."""

from __future__ import annotations

from dataclasses import replace

import pytest

from bastion.array import ArrayRecord
from bastion.job import Dependency, JobRecord
from bastion.service.draft.places import MOST_AT_ONCE, PLACE_RANGES, places_of, places_of_array
from bastion.spec import Secret, Where
from bastion.spec.arrays.indices import Indices
from tests.rigs import job_records

HOSTS = Where(hostnames=tuple(f"{number:0250}" for number in range(17)))


def with_hosts(job: JobRecord) -> JobRecord:
    """Return the same with 4,250 characters of host names."""
    return replace(job, request=replace(job.request, where=HOSTS))


@pytest.mark.parametrize(
    ("job", "places"),
    [
        (job_records.queued(), 1),
        (job_records.running(), 0),
        (with_hosts(job_records.queued()), 5),
        (with_hosts(job_records.running()), 4),
        (with_hosts(job_records.done()), 0),
        (with_hosts(replace(job_records.running(), task=3)), 0),
        (job_records.queued(after=(Dependency(on="x" * 1_100),)), 2),
        (job_records.queued(secrets=tuple(Secret("A" * 100) for _ in range(11))), 2),
    ],
)
def test_a_job_takes_as_many_places_as_root_has_of_it(job: JobRecord, places: int) -> None:
    """A waiting job takes one; long values count until it has ended."""
    assert places_of(job) == places


def test_an_array_takes_the_places_of_the_tasks_that_root_may_have() -> None:
    """Plain waiting tasks take one; otherwise those of some hundreds that run count too."""
    tasks = Indices.parse("0-999")
    plain = ArrayRecord(each=job_records.queued(), tasks=tasks, waiting=tasks)
    assert places_of_array(plain) == 1
    long = replace(plain, each=with_hosts(plain.each))
    assert places_of_array(long) == 1 + 4 * MOST_AT_ONCE
    assert places_of_array(replace(long, ended_at=5.0)) == 0


def test_an_array_takes_places_for_the_ranges_of_its_tasks() -> None:
    """Root contains each range, and every other task may have been cancelled."""
    every, other = Indices.parse("0-9999"), Indices.of(range(0, 10_000, 2))
    array = ArrayRecord(each=job_records.queued(), tasks=every, waiting=every)
    split = replace(array, waiting=every - other, ended={"cancelled": other})
    assert places_of_array(split) == 1 + 10_001 // PLACE_RANGES
    assert places_of_array(replace(split, held=split.waiting)) == 1 + 15_001 // PLACE_RANGES
