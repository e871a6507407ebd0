"""
The effect of a failed job on its launch: `scope="launch"` and `max_failures`.

With `scope="launch"`, the other jobs are stopped and requeued while the failed one can be retried.
Once it has no retries left, they are cancelled in the same commit, including queued ones. The tasks
of an array are cancelled when `max_failures` of them have failed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from bastion.array import cancelled
from bastion.job import JobRecord, Phase
from bastion.lifecycle import CancelWanted
from bastion.monitor import Options, grace_s
from bastion.service.draft.root_draft import Draft


def failing_launches(draft: Draft) -> Mapping[str, str]:
    """Return, by launch, the job whose failure or loss stops the whole launch."""
    return {
        job.launch: job.id for job in draft.working_jobs() if job.launch_scope and job.is_failing
    }


def end_failed_launches(draft: Draft, options: Options) -> None:
    """Cancel the rest of launches with a job that has failed and will not be retried."""
    ended_by = _ended_by(draft)
    for job in list(draft.jobs.values()) if ended_by else ():
        by = ended_by.get(job.launch)
        if by is not None and _is_left(job):
            draft.apply(job.id, CancelWanted(by=by, grace_s=grace_s(job, options)))
    for array in list(draft.arrays.values()) if ended_by else ():
        by = ended_by.get(array.id)
        if by is not None and array.waiting:
            draft.put_array(cancelled(array, array.tasks, by, draft.now))


def _ended_by(draft: Draft) -> Mapping[str, str]:
    """Return, by launch, what ends it, in words."""
    failed = [job for job in draft.working_jobs() if job.has_failed]
    ended_by = {job.launch: f"the failure of {job.id}" for job in failed if job.launch_scope}
    counts = Counter(job.launch for job in failed if job.task is not None)
    for array in draft.arrays.values():
        number = array.failed + counts[array.id]
        if array.max_failures is not None and number >= array.max_failures:
            tasks = "a task" if number == 1 else f"{number} tasks"
            ended_by[array.id] = f"the failure of {tasks}"
    return ended_by


def _is_left(job: JobRecord) -> bool:
    return not (job.phase is Phase.DONE or job.has_failed or job.cancelled_by)
