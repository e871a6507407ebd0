"""Whether jobs have the requested attempt, replica and process of a log."""

from __future__ import annotations

from collections.abc import Sequence

from bastion.client.follow.log_filter import Wanted
from bastion.client.look.find_job import check_process
from bastion.client.look.published import Published
from bastion.client.look.views import JobView
from bastion.errors import NotFoundError


def check_log(published: Published, jobs: Sequence[JobView], wanted: Wanted) -> None:
    """
    Check that a job, or one of the tasks of an array, has the requested part of a log.

    Raises:
        NotFoundError: It has no such attempt, replica or process.
        StoreError: The bucket is unreachable.
    """
    started = [job for job in jobs if job.attempt or job.state not in ("queued", "held")]
    if len(jobs) > 1 and not all(job.attempt for job in started):  # many: records were not read
        return
    job = max(started or jobs[:1], key=lambda job: job.attempt)
    if wanted.attempt and wanted.attempt > job.attempt:
        raise NotFoundError(f"{job.id} has no attempt {wanted.attempt}; it has {job.attempt}")
    replicas = job.replicas if job.replica_range is None else job.replica_range[1]
    if wanted.replica is not None and not 0 <= wanted.replica < replicas:
        raise NotFoundError(
            f"{job.id} has no replica {wanted.replica}; it has {replicas}, counted from 0"
        )
    if wanted.process:
        check_process(published, job, wanted.process)
