"""
`scope="launch"`: what the failure of one job means for the other jobs of its launch.

While it may yet be retried they are stopped and wait with it; once it has failed for good they are
cancelled, those that wait included, in the commit that knows it.
"""

from __future__ import annotations

from collections.abc import Mapping

from bastion.array import cancelled
from bastion.job import JobRecord, Phase
from bastion.lifecycle import CancelWanted
from bastion.monitor import Options, grace_s
from bastion.service.draft import Draft


def failing_launches(draft: Draft) -> Mapping[str, str]:
    """Launch -> the job of it whose failure or loss stops the whole launch."""
    return {
        job.launch: job.id for job in draft.working_jobs() if job.launch_scope and job.is_failing
    }


def end_failed_launches(draft: Draft, options: Options) -> None:
    """Cancel whatever is left of launches of which a job has failed for good."""
    failed = {
        job.launch: job for job in draft.working_jobs() if job.launch_scope and job.has_failed
    }
    for job in list(draft.jobs.values()) if failed else ():
        cause = failed.get(job.launch)
        if cause is not None and _is_left(job):
            wanted = CancelWanted(by=f"the failure of {cause.id}", grace_s=grace_s(job, options))
            draft.apply(job.id, wanted)
    for array in list(draft.arrays.values()) if failed else ():
        cause = failed.get(array.id)
        if cause is not None and array.waiting:
            by = f"the failure of {cause.id}"
            draft.put_array(cancelled(array, array.tasks, by, draft.now))


def _is_left(job: JobRecord) -> bool:
    return not (job.phase is Phase.DONE or job.has_failed or job.cancelled_by)
