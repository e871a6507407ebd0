"""What users must know of an admitted job: what its start waits for, that it hangs or is kept."""

from __future__ import annotations

from datetime import UTC, datetime

from bastion.job import HostState, JobRecord, Phase
from bastion.lifecycle.outcome import failure_text


def remark(job: JobRecord) -> str:
    """
    How `job` ended and what it still waits for, where a failed host of it is kept and until when,
    which of its hosts looks hung, or what takes its start so long: the first of these that is so.

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
    each = job.attempt.each_host() if job.attempt is not None else ()
    hosts = [(r, state) for r, _, _, state in each if state.end is None]
    idle = [(r, state.idle) for r, state in hosts if state.idle]
    if not idle:
        return _set_up(job, hosts)
    replica, text = idle[0]
    where = f"replica {replica} shows " if job.request.replicas > 1 else "it shows "
    return f"{where}{text}; stacks are in its log{_others('so do', len(idle) - 1)}"


def _set_up(job: JobRecord, hosts: list[tuple[int, HostState]]) -> str:
    busy = [(r, state.preparing) for r, state in hosts if state.preparing]
    if job.phase is not Phase.STARTING or not busy:
        return ""
    replica, text = busy[0]
    where = f"replica {replica} is being set up: " if len(hosts) > 1 else "it is being set up: "
    return f"{where}{text}{_others('so are', len(busy) - 1)}"


def _others(verb: str, number: int) -> str:
    return f"; {verb} {number} more host{'s' if number > 1 else ''}" if number else ""
