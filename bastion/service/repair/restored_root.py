"""
The restored root: a pure function of a copy of root and of the objects written after the copy.

The copy is older than the bucket. Commits after it are gone from root, but their final records,
registers, instructions, answers and events are still in the bucket. Four rules follow:

* Numbers never go back: epoch, seq and the numbers of events and instructions continue above every
  number that was ever used, so that no new object can take the name of an old one.
* A job with a final record is not restored.
* A job is restored as held if it has an attempt that the copy does not know, or if its cancellation
  was accepted after the copy. That attempt is stopped if it may still run. An admin then decides
  whether the job runs again: the attempt may have done all of its work.
* A launch that was accepted after the copy and never started is requeued.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import field, replace

from bastion.array import ArrayRecord, taken
from bastion.job import JobRecord, Outcome, StopReason
from bastion.lifecycle.dependencies import Ended
from bastion.machine import Batch, Machine, MachinePhase, Start, StopHost
from bastion.records.requests.targets import settled
from bastion.records.root import Event, Root
from bastion.service.repair.restored_arrays import (
    array_named,
    is_known,
    names,
    restored_arrays,
    task_in,
)
from bastion.service.repair.unstarted_launches import Accepted, requeued
from bastion.value import value

HELD_BY = "restore"
"""The name under which a restored job is held whose earlier attempt may still run."""
EPOCHS_UNSEEN = 1_000
SEQS_UNSEEN = 1_000_000
"""
How far numbers jump when the replaced root cannot be read. That is above every number that it may
have used since the newest object that shows its seq: a hundred commits per second for hours.
"""


@value
class LaterStart:
    """A start instruction that was written after the copy, for a job without a final record."""

    machine: str
    life: int
    start: Start
    is_over: bool = False
    """Whether it has an `end`."""


@value
class LaterObjects:
    """What the bucket shows about the time after the copy."""

    seq: int
    """The highest commit that a copy or a view names."""
    epoch: int
    """The highest epoch that they name."""
    next_event: int
    """The number after the last event of the log or of the record."""
    results: frozenset[tuple[str, str]] = frozenset()
    lives: Mapping[str, int]
    """The newest keeper life of each machine."""
    batches: Mapping[tuple[str, int], int]
    """The highest number of a batch of instructions, by machine and life."""
    starts: tuple[LaterStart, ...] = ()
    cancelled: frozenset[str] = frozenset()
    """Jobs whose cancellation was accepted since."""
    submitted: frozenset[str] = frozenset()
    """Jobs that were accepted since and have no final record."""
    accepted: tuple[Accepted, ...] = ()
    """Launches that were accepted since and never started."""
    ended: tuple[Ended, ...] = ()
    """How jobs of the copy with a final record ended, if other jobs wait for them."""
    outcomes: Mapping[str, Outcome] = field(default_factory=dict)
    """The outcomes of tasks of arrays that have a final record."""


@value
class RestoredRoot:
    """The restored root, and what it changes for the jobs, for the admin who decides."""

    root: Root
    ended: tuple[str, ...] = ()
    """Jobs of the copy that now have a final record: they are not restored."""
    returned: tuple[str, ...] = ()
    """Jobs that are active in the copy but not in the replaced root, if that is known."""
    lost: tuple[str, ...] = ()
    """Jobs that are active or accepted now but not in the copy: they are lost."""
    queued: tuple[str, ...] = ()
    """Jobs that were accepted since and never started: they are requeued."""
    held: tuple[str, ...] = ()
    """Jobs that are restored as held."""
    stopped: tuple[str, ...] = ()
    """`<job>/a<k> on <machine>` of every attempt that is stopped because the copy has none."""


def restored_root(
    copy: Root, later: LaterObjects, *, replaced: Root | None, write_id: str
) -> RestoredRoot:
    """
    Return the root that restores `copy` in place of `replaced`, which is None if unreadable.

    The new root has no leader: the next bastion takes it over as after a graceful stop.
    """
    unknown = [each for each in later.starts if not _has_attempt(copy, each.start)]
    risky = {each.start.job for each in unknown} | later.cancelled
    arrays = restored_arrays(copy, later.results, later.outcomes, risky, by=HELD_BY)
    jobs = {
        job.id: job
        for job in copy.jobs.values()
        if (job.project, job.id) not in later.results and (job.task is None or job.launch in arrays)
    }
    jobs, arrays = settled(jobs, arrays, later.ended, copy.now)
    for job in list(jobs.values()):
        if any(names(one, job) for one in risky):
            jobs[job.id] = replace(job, held=HELD_BY)
    jobs, arrays = _numbered(jobs, arrays, unknown)
    before = copy.jobs.keys() | copy.arrays.keys()
    new_jobs, new_arrays = requeued(later.accepted, before | _begun_in(replaced))
    if replaced is not None:
        new_jobs = {one: _held_as_in(replaced, job) for one, job in new_jobs.items()}
        new_arrays = {one: _array_held_as_in(replaced, each) for one, each in new_arrays.items()}
    queued = {*new_jobs, *new_arrays}
    jobs, arrays = {**jobs, **new_jobs}, {**arrays, **new_arrays}
    active = jobs.keys() | arrays.keys()
    held = sorted(one for one in risky if array_named(one) in active)
    machines = {m.name: _updated_machine(m, later) for m in copy.machines.values()}
    stopped = _stop_unknown(machines, unknown)
    now = {*replaced.jobs, *replaced.arrays} if replaced is not None else set()
    gone = now | later.submitted
    root = _continued(copy, later, replaced)
    root = replace(
        root,
        bucket=root.bucket or (replaced.bucket if replaced is not None else ""),
        write_id=write_id,
        prev_write_id=replaced.write_id if replaced is not None else "",
        leader=None,
        jobs=jobs,
        arrays=arrays,
        machines=machines,
        promises=(),
        planned=(),
    )
    return RestoredRoot(
        root=_with_event(root, copy),
        ended=tuple(sorted(before - active)),
        returned=tuple(sorted(active - now - queued)) if replaced is not None else (),
        lost=tuple(sorted(one for one in gone if not is_known(one, before | queued))),
        queued=tuple(sorted(queued)),
        held=tuple(held),
        stopped=stopped,
    )


def _numbered(
    jobs: dict[str, JobRecord], arrays: dict[str, ArrayRecord], unknown: Iterable[LaterStart]
) -> tuple[dict[str, JobRecord], dict[str, ArrayRecord]]:
    """
    Return `jobs` and `arrays` with the numbers of the `unknown` attempts used up.

    Logs are named by the number of the attempt, so the next attempt must not reuse it. A waiting
    task gets a job record of its own, which has the number.
    """
    jobs, arrays = {**jobs}, {**arrays}
    for start in (each.start for each in unknown):
        array, task = task_in(arrays, start.job)
        if array is not None:
            jobs[start.job] = array.task(task)
            arrays[array.id] = taken(array, task)
        if start.job in jobs and jobs[start.job].attempts < start.attempt:
            jobs[start.job] = replace(jobs[start.job], attempts=start.attempt)
    return jobs, arrays


def _begun_in(replaced: Root | None) -> set[str]:
    """
    Return jobs and arrays that have an attempt or an end in the replaced root.

    Jobs that an earlier restore holds may also have one.
    """
    if replaced is None:
        return set()
    begun = [
        job for job in replaced.jobs.values() if job.attempts or job.outcome or job.held == HELD_BY
    ]
    over = [array.id for array in replaced.arrays.values() if array.ended or array.cancelled_by]
    return {job.id for job in begun} | {job.launch for job in begun} | set(over)


def _held_as_in(replaced: Root, job: JobRecord) -> JobRecord:
    """Return `job`, held or not as in `replaced`: a user may have changed that since the copy."""
    known = replaced.jobs.get(job.id)
    return job if known is None else replace(job, held=known.held)


def _array_held_as_in(replaced: Root, array: ArrayRecord) -> ArrayRecord:
    known = replaced.arrays.get(array.id)
    if known is None:
        return array
    return replace(array, held=array.waiting & known.held, held_by=known.held_by)


def _has_attempt(copy: Root, start: Start) -> bool:
    """Whether `copy` has the attempt of `start`."""
    job = copy.jobs.get(start.job)
    if job is None:
        return False
    known = {past.nonce for past in job.past}
    return start.nonce in known or (job.attempt is not None and job.attempt.nonce == start.nonce)


def _updated_machine(machine: Machine, later: LaterObjects) -> Machine:
    """
    Return `machine` with its numbers brought up to those in the bucket.

    A machine that was still being created is deleted: its name must not be used for a second
    create.
    """
    life = max(machine.life, later.lives.get(machine.name, 0))
    is_same = life == machine.life
    batches = max(machine.batches if is_same else 0, later.batches.get((machine.name, life), 0))
    is_new = machine.phase is MachinePhase.CREATING
    return replace(
        machine,
        life=life,
        batches=batches,
        outgoing=machine.outgoing if is_same else (),
        last_bell=machine.last_bell if is_same else -1,
        phase=MachinePhase.DELETING if is_new else machine.phase,
        missing=0,
    )


def _stop_unknown(machines: dict[str, Machine], unknown: Iterable[LaterStart]) -> tuple[str, ...]:
    """
    Add instructions that stop the `unknown` attempts as a preemption, so each can save its work.

    A machine that root does not know is deleted by its pool. Processes of an older life are dead.
    The result names every attempt in `unknown` that may still run.
    """
    stops: dict[str, list[StopHost]] = defaultdict(list)
    stopped = []
    for each in unknown:
        if each.is_over:
            continue
        name, start, machine = each.machine, each.start, machines.get(each.machine)
        if machine is not None and machine.life == each.life:
            stops[name].append(_stop_host(start))
        stopped.append(f"{start.job}/a{start.attempt} on {name}")
    for name, instructions in stops.items():
        machine = machines[name]
        batch = Batch(
            number=machine.batches + 1, life=machine.life, instructions=tuple(instructions)
        )
        machines[name] = replace(machine, batches=batch.number, outgoing=(*machine.outgoing, batch))
    return tuple(sorted(set(stopped)))


def _stop_host(start: Start) -> StopHost:
    return StopHost(
        project=start.project,
        job=start.job,
        attempt=start.attempt,
        nonce=start.nonce,
        replica=start.replica,
        host=start.host,
        reason=StopReason.PREEMPT.value,
        by=HELD_BY,
        grace_s=start.grace_s,
    )


def _continued(copy: Root, later: LaterObjects, replaced: Root | None) -> Root:
    """Return `copy` with the numbers, the history and the answers of the replaced root."""
    if replaced is not None:
        return replace(
            copy,
            epoch=max(replaced.epoch, copy.epoch, later.epoch) + 1,
            seq=max(replaced.seq, copy.seq, later.seq) + 1,
            now=max(replaced.now, copy.now),
            answers={**copy.answers, **replaced.answers},
            events=replaced.events,
            sealed=replaced.sealed,
            outbox=replaced.outbox,
            next_event=replaced.next_event,
            quota_text=replaced.quota_text,
            config_text=replaced.config_text,
        )
    # An admin may have deleted the log up to where the record has it.
    unsealed = copy.events[0].n if copy.events else copy.next_event
    sealed_until = max(later.next_event, unsealed)
    kept = tuple(event for event in copy.events if event.n >= sealed_until)
    return replace(
        copy,
        epoch=max(copy.epoch, later.epoch) + EPOCHS_UNSEEN,
        seq=max(copy.seq, later.seq) + SEQS_UNSEEN,
        events=kept,
        next_event=kept[-1].n + 1 if kept else sealed_until,
    )


def _with_event(root: Root, copy: Root) -> Root:
    text = f"commit {copy.seq} is back as commit {root.seq}, epoch {root.epoch}"
    event = Event(n=root.next_event, at=root.now, what="restored", text=text)
    return replace(root, events=(*root.events, event), next_event=event.n + 1)
