"""
The outcome of a cycle: stops, promises, plans, new machines, and the classes at its end.

This module must not know how any of it was found.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from bastion.job import JobClass
from bastion.machine import Machine
from bastion.scheduler.promise import PlannedStart, Promise
from bastion.scheduler.queue.order import ids_of
from bastion.scheduler.reasons.reason import Resized, Rotated, Shrunk, Vacated
from bastion.scheduler.state.decisions import PlannedStop
from bastion.scheduler.state.draft import Draft
from bastion.scheduler.state.holders.classes import Claimant, Newcomer, covers, derive, promised_by
from bastion.scheduler.state.holders.running import Running


def stopped_now(draft: Draft) -> dict[str, PlannedStop]:
    """Return the victims that must stop in this cycle, by name."""
    return {n: stop for n, stop in draft.victims.items() if is_told(draft, draft.running[n])}


def promises_of(draft: Draft) -> tuple[Promise, ...]:
    """Return the promises of `draft` in their order; the first stops a shared victim."""
    return tuple(sorted(draft.promises.values(), key=lambda p: p.made_at))


def planned_of(draft: Draft) -> tuple[PlannedStart, ...]:
    """Return the planned starts of `draft`, then the plans that drain."""
    kept = [*draft.plans.values(), *draft.reservations.drained()]
    kept.sort(key=lambda plan: (plan.until, ids_of(plan.gang)))
    return tuple(
        PlannedStart(
            gang=ids_of(plan.gang),
            placements=plan.placed.placements,
            at=None if plan.drains else plan.until,
        )
        for plan in kept
    )


def machines_made(draft: Draft) -> tuple[Machine, ...]:
    """Return the machines to create for the gangs that start."""
    return tuple(
        replace(room.machine, created_at=draft.now)
        for room in draft.capacity.created
        if not room.is_vacant  # a trial may have made more than it needed
    )


def classes_after(draft: Draft) -> dict[str, JobClass]:
    """
    Return the classes at the end of the cycle, for projects where a job starts or is promised.

    Elsewhere the classes are those at the beginning: deriving them again would give the same.
    """
    firm = {name for name, stop in draft.victims.items() if stop.is_firm}
    stopped = firm | stopped_now(draft).keys()
    return derive(draft.snapshot.quota, _claimants_after(draft), stopped=stopped)


def covers_after(draft: Draft, classes: Mapping[str, JobClass]) -> dict[str, str]:
    """Return the groups whose shares will cover gangs, given these results of `classes_after`."""
    others = [running for running in draft.running.values() if running.name not in classes]
    known = {running.name: running.job_class for running in others}
    claimants = [*others, *_claimants_after(draft)]
    return covers(draft.snapshot.quota, claimants, {**known, **classes})


def _claimants_after(draft: Draft) -> list[Claimant]:
    newcomers = [
        Newcomer(
            name=each.gang[0].id,
            project=each.gang[0].project,
            job_class=JobClass.GUARANTEED if each.within_share else JobClass.BORROWED,
            priority=each.shape.priority,
            admitted_at=draft.now,
            held=each.placed.total,
            borrows=each.shape.borrows,
        )
        for each in draft.admitted
    ]
    kept: list[Promise] = []
    new: list[Promise] = []
    for name, promise in draft.promises.items():
        (kept if _is_same(promise, draft.standing.get(name)) else new).append(promise)
    newcomers += [draft.newcomers[p.gang[0]] for p in kept if p.gang[0] in draft.newcomers]
    made = len(draft.snapshot.promises)
    newcomers += promised_by(new, draft.snapshot.jobs, draft.cost_of, made)
    changed = {each.project for each in newcomers}
    changed |= {draft.snapshot.jobs[name].project for name in draft.class_of_promise}
    by_project = draft.occupancy.by_project
    again = [r for name in sorted(changed) for r in by_project.get(name, ())]
    return [*again, *newcomers]


def _is_same(promise: Promise, before: Promise | None) -> bool:
    """Whether its gang counts in the shares exactly as at the beginning of the cycle."""
    return (
        before is not None
        and promise.placements is before.placements
        and promise.within_share == before.within_share
    )


def is_told(draft: Draft, running: Running) -> bool:
    """
    Whether it must stop now: its stop time has come, and the last cycle named it as well.

    What one cycle names, the next checks again, so that nothing is stopped in vain.
    """
    stop = draft.victims.get(running.name)
    if stop is None or stop.stop_at > draft.now or stop.by in draft.needless:
        return False
    if isinstance(stop.reason, Vacated | Resized) or stop.by in draft.aside:
        return True
    if isinstance(stop.reason, Shrunk) and stop.reason.user:
        return True
    if isinstance(stop.reason, Rotated):
        return any(each.gang[0] == stop.by for each in draft.snapshot.planned)
    known = draft.standing.get(stop.by)
    named = {job for job, _ in known.victims} if known is not None else set()
    return not named.isdisjoint(running.ids)
