"""
Gangs that start in this cycle, as the next will see them: running, for no time yet.

A gang of higher priority that does not fit beside them would stop some of them in the next cycle.
Instead their start is taken back: what has not started loses nothing.

This module must not know what is searched.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from bastion.job import Attempt, initial_hosts
from bastion.scheduler.outcome import classes_after, covers_after
from bastion.scheduler.phases.reservations.lending import lent, reopened
from bastion.scheduler.preemption.stop_times import stop_at
from bastion.scheduler.queue.order import Gang, ids_of
from bastion.scheduler.reasons.reason import Dependency
from bastion.scheduler.state.decisions import Admitted
from bastion.scheduler.state.draft import Draft
from bastion.scheduler.state.holders.release import Release
from bastion.scheduler.state.holders.running import Running

STARTS_CLASSED_A_STEP = 8
"""Starts that get a class in the time of one step."""


def starting(draft: Draft) -> list[Running]:
    """Return all gangs that start in this cycle."""
    return [_as_running(draft, each) for each in draft.admitted]


def newest(draft: Draft) -> Running:
    """Return the last of them."""
    return _as_running(draft, draft.admitted[-1])


def lower_starting(draft: Draft, project: str, priority: int) -> list[Running]:
    """Return those of `project` among them with lower priority."""
    lower = (each for each in draft.admitted_by[project] if each.shape.priority > priority)
    return [_as_running(draft, each) for each in lower]


def borrowing(draft: Draft, project: str) -> list[Running]:
    """Return those that the next cycle will see as borrowers which another project may stop."""
    if not (draft.starts_beyond and draft.parts.preemption.reclaims):
        return []
    new = starting(draft)
    _classify(draft, new)
    return [each for each in new if each.project != project and draft.is_open_to(each, project)]


def _classify(draft: Draft, new: Sequence[Running]) -> None:
    """Give `new`, all starting gangs, the classes and covers that they will have."""
    version = len(draft.promises), draft.victims.version, tuple(new)
    if draft.search.classified == version:
        return
    draft.search.classified = version
    draft.search.effort.spend(1 + len(new) // STARTS_CLASSED_A_STEP)
    classes = classes_after(draft)
    cover = covers_after(draft, classes) if draft.shares.is_nested else {}
    for each in new:
        each.job_class, each.cover = classes[each.name], cover.get(each.name, "")


def _as_running(draft: Draft, admitted: Admitted) -> Running:
    name = admitted.gang[0].id
    known = draft.starting.get(name)
    if known is None:
        jobs = tuple(
            replace(
                job,
                attempt=Attempt(
                    number=0,
                    nonce="",
                    admitted_at=draft.now,
                    placement=place,
                    hosts=initial_hosts(place),
                ),
            )
            for job, place in zip(admitted.gang, admitted.placed.placements)
        )
        known = draft.starting[name] = Running(jobs, admitted.shape, draft.capacity)
    return known


def waits_for_its_rest(draft: Draft, gang: Gang) -> bool:
    """
    Whether the rest of `gang`, which runs, must stop now; `gang` is then set aside.

    Once the rest has ended, all of them start together again.
    """
    if len(gang) >= len(gang[0].gang):
        return False
    rest = {draft.of_job[job].name for job in gang[0].gang if job in draft.of_job}
    told = [
        name
        for name in sorted(rest & draft.victims.keys())
        if draft.victims[name].stop_at <= draft.now
    ]
    if told:
        on = tuple(job for name in told for job in draft.running[name].ids)
        reason = Dependency(on=on, state="being preempted")
        draft.aside.update((job.id, reason) for job in gang)
        draft.search.apart.add(gang[0].project)
    return bool(told)


def take_back(draft: Draft, victims: Sequence[Running]) -> tuple[Running, ...]:
    """
    Undo the starts of those `victims` that start in this cycle, and return the rest.

    If a victim must stop now, jobs of its gang that restart do not start, either.
    """
    back = [each for each in victims if each.name in draft.starting]
    parts = (each for each in victims if len(each.gang) > len(each.jobs))
    torn = {each.gang for each in parts if stop_at(draft, each) <= draft.now}
    if torn:
        back += [each for each in starting(draft) if each.gang in torn and each not in back]
    if not back:
        return tuple(victims)
    ids = {running.ids for running in back}
    for admitted in (draft.admitted, *(draft.admitted_by[each.project] for each in back)):
        admitted[:] = [each for each in admitted if ids_of(each.gang) not in ids]
    with reopened(draft, draft.reservations.drained()):
        _undo(draft, back)
    return tuple(each for each in victims if each not in back)


def _undo(draft: Draft, back: Sequence[Running]) -> None:
    """Undo these starts; what is closed in their places then closes what is left."""
    for running in back:
        waiting = draft.reservations.waiting_for([running.name])
        closed = [each for each in waiting if each.hold is not None]
        with lent(draft, closed):  # else what they leave would be closed, and idle
            for each in waiting:
                left = [other for other in each.waits if other is not running]
                draft.reservations.wait_for(each, left)
            Release(draft.capacity, running)
            draft.shares.let_end([running])
        del draft.starting[running.name]
        gang = tuple(draft.snapshot.jobs[name] for name in running.ids)
        draft.taken_back.append(draft.wait_again(gang))
        draft.search.loosened.add(running.project)
