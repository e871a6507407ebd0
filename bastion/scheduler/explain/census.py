"""
Machine by machine, why a job that may not wait does not start: what it asks for, and what is free.

This module must not change anything.
"""

from __future__ import annotations

from bastion.job import JobRecord
from bastion.scheduler.explain.outage import outage_of
from bastion.scheduler.machine_report import MachineReport
from bastion.scheduler.placement.feasibility import filters_of
from bastion.scheduler.placement.room import Room, Shelf
from bastion.scheduler.placement.scope import can_make, passes
from bastion.scheduler.queue.order import Gang
from bastion.scheduler.queue.shape import MOST_BEST_EFFORT, Part
from bastion.scheduler.state.draft import Draft
from bastion.spec.request import Request
from bastion.spec.values.quantity import text_of_seconds
from bastion.spec.where import Where
from quota.amounts import NOTHING, Amounts, missing

MAX_MACHINES = 200
"""The most machines reported to one launch: the answer is kept in root until it is written."""


def censuses(draft: Draft, gang: Gang) -> dict[str, tuple[MachineReport, ...]]:
    """Return `census` of `gang` by job; of jobs with equal requests, only the first has one."""
    firsts: dict[Request, JobRecord] = {}
    for job in gang:
        firsts.setdefault(job.request, job)
    at_most = max(1, MAX_MACHINES // len(firsts))
    return {job.id: census(draft, job, at_most=at_most) for job in firsts.values()}


def census(draft: Draft, job: JobRecord, *, at_most: int) -> tuple[MachineReport, ...]:
    """
    Return every machine at the end of the cycle, as `job` sees it, the best matches first.

    If there are more than `at_most`, a last line counts the others.
    """
    part = Part(job.request, draft.snapshot.quota, resumes=job.resume)
    kept = _kept(draft, job.project)
    rooms = draft.capacity.rooms
    reports = [_of_room(draft, job, part, room, kept.get(room.name, "")) for room in rooms]
    for shelf in draft.capacity.shelves.values():
        if shelf.could_make:
            reports.append(_of_shelf(draft, job, part, shelf))
    key = part.leading[0]
    reports.sort(key=lambda each: (-each.fits, -each.free[key], each.machine))
    rest = len(reports) - at_most
    if rest <= 0:
        return tuple(reports)
    more = MachineReport(job=job.id, machine=f"{rest} more", asked=part.per_replica)
    return (*reports[:at_most], more)


def _kept(draft: Draft, project: str) -> dict[str, str]:
    """Return the gang for which something is kept from jobs of `project`, by machine."""
    found: dict[str, str] = {}
    for reserved in (*draft.closed, *draft.reservations.drained_for(project)):
        for machine in reserved.footprint.masks:
            found.setdefault(machine, reserved.name)
    return found


def _of_room(draft: Draft, job: JobRecord, part: Part, room: Room, kept_for: str) -> MachineReport:
    why_not = _unfit(part, room) or _unopened(room, draft.now)
    free = Amounts({t: max(0, room.free(t)) for t, _ in part.per_replica.items()})
    fits = 0
    if not why_not and part.hosts > 1:
        why_not = "" if room.is_vacant and room.is_whole else "its slice is not whole and free"
        rooms = room.shelf.slices.get(room.machine.slice, ())
        fits = int(not why_not and all(each.is_idle for each in rooms))
        why_not = why_not if fits else why_not or "another machine of its slice is not free"
    elif not why_not:
        fits = room.slots(part)
        why_not = "" if fits else _taken(part, room, free, kept_for)
    return MachineReport(
        job=job.id,
        machine=room.name,
        asked=part.per_replica,
        free=free,
        fits=fits,
        why_not=why_not,
    )


def _unfit(part: Part, room: Room) -> str:
    """Return what makes it the wrong machine permanently, or nothing."""
    sofar: dict[str, object] = {}
    for name, wanted, written in filters_of(part.where):
        sofar[name] = wanted
        if not passes(Where(**sofar), room.machine, room.shelf.pool):  # type: ignore[arg-type]
            return f"has not {written}"
    return _wrong_size(part, room.shelf, room.full)


def _wrong_size(part: Part, shelf: Shelf, full: Amounts) -> str:
    if part.hosts != shelf.hosts:
        if shelf.hosts > 1:
            return "belongs to a slice, which is given as a whole"
        return f"stands alone; a replica takes a slice of {part.hosts} machines"
    short = missing(part.per_replica, shelf.hosts * full)
    return f"too small: has {_only(full, part)} at all" if short else ""


def _unopened(room: Room, now: float) -> str:
    if room.machine.accepts:
        return ""
    outage = outage_of(room, ())
    is_away = outage.cause in ("silent", "deleting")
    return f"is {outage.cause}" if is_away else outage.clause(now)


def _taken(part: Part, room: Room, free: Amounts, kept_for: str) -> str:
    """Return why nothing fits on a machine of the right kind."""
    kept = f"; some of it is kept for {kept_for}" if kept_for else ""
    if room.closed:
        return f"all of it is kept for {kept_for}"
    if part.asks_nothing:
        return f"{MOST_BEST_EFFORT} jobs that ask for nothing are there already"
    if room.sealed:
        return "a job has all of it"
    if part.exclusive and not room.is_vacant:
        return f"in use, and a replica takes whole machines{kept}"
    lost = [t for t, _ in part.devices if room.lost(t)]
    sick = f"; {', '.join(f'{room.lost(t)} {t}' for t in lost)} out of order" if lost else ""
    return f"short by {missing(part.per_replica, free)}{sick}{kept}"


def _of_shelf(draft: Draft, job: JobRecord, part: Part, shelf: Shelf) -> MachineReport:
    assert shelf.pool is not None, "only a pool makes machines"
    number = shelf.could_make // shelf.hosts
    why_not, fits = "", 0
    if not can_make(part.where, shelf):
        why_not = "its machines do not match every filter"
    elif wrong := _wrong_size(part, shelf, shelf.pool.resources):
        why_not = wrong
    elif not shelf.left:
        stockout = shelf.stockout
        why_not = "the provider has none"
        if stockout is not None:
            said = f": {stockout.said}" if stockout.said else ""
            why_not += f"{said}; next try in {text_of_seconds(stockout.until - draft.now)}"
    else:
        size = shelf.hosts * shelf.pool.resources
        fits = min(part.replicas, part.most_on(size) * (shelf.left // shelf.hosts))
    return MachineReport(
        job=job.id,
        machine=f"{number} that {shelf.name} could create",
        asked=part.per_replica,
        free=_only(number * shelf.hosts * shelf.pool.resources, part) if fits else NOTHING,
        fits=fits,
        why_not=why_not,
    )


def _only(amounts: Amounts, part: Part) -> Amounts:
    return amounts.only(frozenset(part.per_replica.types()))
