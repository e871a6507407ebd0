"""
What root becomes when a copy of it is brought back: a pure function of the copy and of what the
bucket shows of the time later.

The copy is older than the world. What was committed after it is gone from root, but not from the
bucket: final records, registers, instructions, answers and events stand. Three rules follow:

* numbers never go back: epoch, seq, the numbers of events and of instructions go on above
  everything that was ever used, so nothing new can take the name of something old;
* a job with a final record does not come back;
* a job of which an attempt may run that the copy does not know, or whose cancellation was accepted
  since, comes back held. That attempt is told to stop; a person releases the job when it has;
* a launch that was accepted since, and of which nothing was ever begun, joins the queue anew.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import field, replace

from bastion.job import Outcome, StopReason
from bastion.lifecycle.dependencies import Ended
from bastion.machine import Batch, Machine, MachinePhase, Start, StopHost
from bastion.records.root import Event, Root
from bastion.records.targets import settled
from bastion.service.repair.restored_arrays import array_named, arrays_back, is_known, names
from bastion.service.repair.unstarted_launches import Accepted, made_anew
from bastion.value import value

HELD_BY = "restore"
"""Who holds a job that came back and may run elsewhere."""
EPOCHS_UNSEEN = 1_000
SEQS_UNSEEN = 1_000_000
"""
How far numbers jump when the root that is replaced cannot be read: above all that it may have used
since the newest thing that shows its seq, at a hundred commits a second for hours.
"""


@value
class LaterObjects:
    """What the bucket shows of the time after the copy was made."""

    seq: int
    """The highest that a copy or a view names."""
    next_event: int
    """After the last sealed event that stands."""
    results: frozenset[tuple[str, str]] = frozenset()
    lives: Mapping[str, int]
    """The newest of each machine."""
    batches: Mapping[tuple[str, int], int]
    """The highest number of instructions by machine and life."""
    starts: tuple[tuple[str, int, Start], ...] = ()
    """(machine, life, start) of every start told since, of which no end stands."""
    cancelled: frozenset[str] = frozenset()
    """Jobs that a cancel accepted since names."""
    submitted: frozenset[str] = frozenset()
    """Jobs accepted since that have no final record."""
    accepted: tuple[Accepted, ...] = ()
    """Launches accepted since of which nothing was ever begun."""
    ended: tuple[Ended, ...] = ()
    """How those jobs of the copy ended that have a final record, where others wait for them."""
    outcomes: Mapping[str, Outcome] = field(default_factory=dict)
    """How tasks of arrays ended that have a final record."""


@value
class RestoredRoot:
    """What bringing a copy back means, for whoever decides it."""

    root: Root
    ended: tuple[str, ...] = ()
    """Jobs of the copy that have a final record by now: they stay away."""
    returned: tuple[str, ...] = ()
    """Jobs that are active in the copy and, as far as can be seen, not in root."""
    lost: tuple[str, ...] = ()
    """Jobs that are active or accepted now and not in the copy: they would be gone."""
    queued: tuple[str, ...] = ()
    """Jobs that were accepted since and never begun: they join the queue anew."""
    held: tuple[str, ...] = ()
    """Jobs that come back held."""
    stopped: tuple[str, ...] = ()
    """`<job>/a<k> on <machine>` that is told to stop: root would not know it."""


def restored_root(
    copy: Root, later: LaterObjects, *, standing: Root | None, write_id: str
) -> RestoredRoot:
    """
    The root that brings `copy` back in place of `standing`, None when that cannot be read.

    Nobody leads it: the next bastion takes it over as after a graceful stop.
    """
    unknown = [told for told in later.starts if not _knows(copy, told[2])]
    risky = {start.job for _, _, start in unknown} | later.cancelled
    arrays = arrays_back(copy, later.results, later.outcomes, risky, by=HELD_BY)
    jobs = {
        job.id: job
        for job in copy.jobs.values()
        if (job.project, job.id) not in later.results and (job.task is None or job.launch in arrays)
    }
    jobs, arrays = settled(jobs, arrays, later.ended, copy.now)
    for job in list(jobs.values()):
        if any(names(one, job) for one in risky):
            jobs[job.id] = replace(job, held=HELD_BY)
    for _, _, start in unknown:
        # Logs are named by the number of the attempt: the next one must not take this one's.
        if start.job in jobs and jobs[start.job].attempts < start.attempt:
            jobs[start.job] = replace(jobs[start.job], attempts=start.attempt)
    before = copy.jobs.keys() | copy.arrays.keys()
    new_jobs, new_arrays = made_anew(later.accepted, before | _begun_in(standing))
    queued = {*new_jobs, *new_arrays}
    jobs, arrays = {**jobs, **new_jobs}, {**arrays, **new_arrays}
    active = jobs.keys() | arrays.keys()
    held = sorted(one for one in risky if array_named(one) in active)
    machines = {m.name: _forwarded(m, later) for m in copy.machines.values()}
    stopped = _stop(machines, unknown)
    now = {*standing.jobs, *standing.arrays} if standing is not None else set()
    gone = now | later.submitted
    root = _continued(copy, later, standing)
    root = replace(
        root,
        write_id=write_id,
        prev_write_id=standing.write_id if standing is not None else "",
        leader=None,
        jobs=jobs,
        arrays=arrays,
        machines=machines,
        promises=(),
        planned=(),
    )
    return RestoredRoot(
        root=_told(root, copy),
        ended=tuple(sorted(before - active)),
        returned=tuple(sorted(active - now - queued)) if standing is not None else (),
        lost=tuple(sorted(one for one in gone if not is_known(one, before | queued))),
        queued=tuple(sorted(queued)),
        held=tuple(held),
        stopped=stopped,
    )


def _begun_in(standing: Root | None) -> set[str]:
    """Jobs and arrays of which the root that is replaced knows an attempt, or an end."""
    if standing is None:
        return set()
    begun = [job for job in standing.jobs.values() if job.attempts or job.outcome or job.held]
    over = [array.id for array in standing.arrays.values() if array.ended or array.cancelled_by]
    return {job.id for job in begun} | {job.launch for job in begun} | set(over)


def _knows(copy: Root, start: Start) -> bool:
    """Whether the copy has the attempt of `start` in its books."""
    job = copy.jobs.get(start.job)
    if job is None:
        return False
    known = {past.nonce for past in job.past}
    return start.nonce in known or (job.attempt is not None and job.attempt.nonce == start.nonce)


def _forwarded(machine: Machine, later: LaterObjects) -> Machine:
    """
    `machine` as it may be by now: its numbers go on where they stand in the bucket.

    One that was still being made gets no second create under its name: it goes.
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


def _stop(
    machines: dict[str, Machine], unknown: Iterable[tuple[str, int, Start]]
) -> tuple[str, ...]:
    """
    Tell what runs unknown to stop, as after a preemption: it saves its work and is queued again.

    A machine that root does not know is deleted by its pool; an older life's processes are dead.
    """
    stops: dict[str, list[StopHost]] = defaultdict(list)
    told = []
    for name, life, start in unknown:
        machine = machines.get(name)
        if machine is not None and machine.life == life:
            stops[name].append(_stop_host(start))
        told.append(f"{start.job}/a{start.attempt} on {name}")
    for name, instructions in stops.items():
        machine = machines[name]
        batch = Batch(
            number=machine.batches + 1, life=machine.life, instructions=tuple(instructions)
        )
        machines[name] = replace(machine, batches=batch.number, outgoing=(*machine.outgoing, batch))
    return tuple(sorted(set(told)))


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


def _continued(copy: Root, later: LaterObjects, standing: Root | None) -> Root:
    """`copy` with the numbers, the history and the answers of what came after it."""
    if standing is not None:
        return replace(
            copy,
            epoch=max(standing.epoch, copy.epoch) + 1,
            seq=max(standing.seq, copy.seq, later.seq) + 1,
            now=max(standing.now, copy.now),
            answers={**copy.answers, **standing.answers},
            events=standing.events,
            sealed=standing.sealed,
            outbox=standing.outbox,
            next_event=standing.next_event,
            quota_text=standing.quota_text,
            config_text=standing.config_text,
        )
    sealed_until = max(
        [later.next_event, *(segment.first + len(segment.events) for segment in copy.sealed)]
    )
    kept = tuple(event for event in copy.events if event.n >= sealed_until)
    return replace(
        copy,
        epoch=copy.epoch + EPOCHS_UNSEEN,
        seq=max(copy.seq, later.seq) + SEQS_UNSEEN,
        events=kept,
        next_event=kept[-1].n + 1 if kept else sealed_until,
    )


def _told(root: Root, copy: Root) -> Root:
    text = f"commit {copy.seq} is back as commit {root.seq}, epoch {root.epoch}"
    event = Event(n=root.next_event, at=root.now, what="restored", text=text)
    return replace(root, events=(*root.events, event), next_event=event.n + 1)
