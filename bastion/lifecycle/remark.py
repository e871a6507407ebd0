"""What users must know of a job that is admitted, beyond its class: kept, hung, or all but over."""

from __future__ import annotations

from datetime import UTC, datetime

from bastion.job import JobRecord, Phase
from bastion.lifecycle.outcome import failure_text


def remark(job: JobRecord) -> str:
    """
    How `job` ended and what it still waits for, where a failed host of it is kept and until when,
    or which of its hosts looks hung: the first of these that is so.

    Empty where there is nothing to say. A host is named where the job has more than one replica.
    """
    if job.phase is Phase.DRAINING and job.last is not None:
        return f"{job.last.text}; its last logs and output go to the bucket"
    if job.kept:
        first = (job.attempt.first_failure or (-1, -1))[0] if job.attempt is not None else -1
        replica, place, hold = max(job.kept, key=lambda each: (each[0] == first, each[2].until))
        where = f"replica {replica}: " if job.request.replicas > 1 else ""
        until = datetime.fromtimestamp(hold.until, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
        return (
            f"{where}{failure_text(hold.end)}; held for inspection until {until}"
            f" on machine {place.machine} in {hold.folder}; bastion release {job.id} ends it"
        )
    hosts = job.attempt.each_host() if job.attempt is not None else ()
    idle = [(r, state.idle) for r, _, _, state in hosts if state.idle and state.end is None]
    if not idle:
        return ""
    replica, text = idle[0]
    where = f"replica {replica} shows " if job.request.replicas > 1 else "it shows "
    more = f"; so do {len(idle) - 1} more hosts" if len(idle) > 1 else ""
    return f"{where}{text}; stacks are in its log{more}"
