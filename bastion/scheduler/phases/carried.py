"""
A plan carried out: what the next cycle would begin with.

It must not know what that one makes of it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from bastion.job import (
    Attempt,
    JobClass,
    JobRecord,
    Phase,
    Placement,
    Stop,
    StopReason,
    initial_hosts,
)
from bastion.machine import Machine
from bastion.scheduler.promise import PlannedStart, Promise
from bastion.scheduler.state.classes import Newcomer, derive, promised_by
from bastion.scheduler.state.decisions import Doom, Moves
from bastion.scheduler.state.draft import Draft
from bastion.scheduler.state.outset import Outset


def carried(draft: Draft) -> Outset:
    """The outset of a pass that finds what `draft` decides as done."""
    outset, snapshot = draft.outset, draft.snapshot
    made = machines_made(draft)
    now = stopped_now(draft)
    stopped = {job: doom for name, doom in now.items() for job in draft.running[name].ids}
    done = Moves(
        started=(*outset.done.started, *draft.admitted),
        stopped={**outset.done.stopped, **stopped},
        machines=(*outset.done.machines, *made),
    )
    after = replace(
        snapshot,
        jobs={**snapshot.jobs, **dict(_changed(draft))},
        machines={**snapshot.machines, **{each.name: each for each in made}},
        promises=promises_of(draft),
        planned=planned_of(draft),
    )
    passes = outset.passes + 1
    return replace(
        outset, snapshot=after, done=done, late=frozenset(), is_first=False, passes=passes
    )


def stopped_now(draft: Draft) -> dict[str, Doom]:
    """Who is told to stop in this cycle, by name."""
    return {name: doom for name, doom in draft.doomed.items() if doom.stop_at <= draft.now}


def promises_of(draft: Draft) -> tuple[Promise, ...]:
    """What `draft` promises, in the order in which it was promised: the first stops a victim."""
    return tuple(sorted(draft.promises.values(), key=lambda p: p.made_at))


def planned_of(draft: Draft) -> tuple[PlannedStart, ...]:
    """What `draft` plans."""
    return tuple(sorted(draft.planned.values(), key=lambda p: (p.at, p.gang)))


def machines_made(draft: Draft) -> tuple[Machine, ...]:
    """Machines that are to be made for those who start."""
    return tuple(
        replace(room.machine, created_at=draft.now)
        for room in draft.capacity.created
        if not room.is_vacant  # a trial may have made more than it needed
    )


def _changed(draft: Draft) -> Iterator[tuple[str, JobRecord]]:
    """The records of those who start, stop or change their class."""
    classes = classes_after(draft)
    for each in draft.admitted:
        job_class = classes[each.gang[0].id]
        for job, placement in zip(each.gang, each.placed.placements):
            yield job.id, _started(job, placement, job_class, draft.now)
    for running in draft.running.values():
        doom = draft.doomed.get(running.name)
        for job in running.jobs if not running.is_leaving else ():
            attempt = job.attempt
            if attempt is None:
                continue
            if doom is not None and doom.stop_at <= draft.now:
                deadline = draft.now + running.grace_s
                stop = Stop(reason=StopReason.PREEMPT, at=draft.now, deadline=deadline)
                stopped = replace(attempt, stop=stop)
                yield job.id, replace(job, phase=Phase.STOPPING, attempt=stopped)
            elif attempt.job_class is not classes[running.name]:
                attempt = replace(attempt, job_class=classes[running.name])
                yield job.id, replace(job, attempt=attempt)


def _started(job: JobRecord, placement: Placement, job_class: JobClass, now: float) -> JobRecord:
    attempt = Attempt(
        number=job.attempts + 1,
        nonce="",
        admitted_at=now,
        placement=placement,
        job_class=job_class,
        hosts=initial_hosts(placement),
    )
    return replace(job, phase=Phase.STARTING, attempt=attempt)


def classes_after(draft: Draft) -> dict[str, JobClass]:
    """
    At the end of the cycle: with those who start.

    Where nobody does, classes are those of the beginning: deriving them again gives the same.
    """
    newcomers = [
        Newcomer(
            name=each.gang[0].id,
            project=each.gang[0].project,
            job_class=JobClass.GUARANTEED if each.within_share else JobClass.BORROWED,
            priority=each.shape.priority,
            admitted_at=draft.now,
            held=each.placed.total,
        )
        for each in draft.admitted
    ]
    jobs, quota = draft.snapshot.jobs, draft.snapshot.quota
    newcomers += promised_by(draft.promises.values(), jobs, draft.cost_of)
    changed = {each.project for each in newcomers}
    changed |= {jobs[name].project for name in draft.class_of_promise}
    holding = draft.running.values()
    classes = {r.name: r.job_class for r in holding if r.project not in changed}
    again = [r for r in holding if r.project in changed]
    return classes | derive(quota, [*again, *newcomers], stopped=stopped_now(draft))
