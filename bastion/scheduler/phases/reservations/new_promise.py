"""
A new promise: where its gang will lie, which victims it names, and what it waits for.

This module must not know how it was found.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial

from bastion.scheduler.phases.reservations.awaited import awaited
from bastion.scheduler.phases.reservations.reserving import reserve
from bastion.scheduler.phases.reservations.starts import starting, take_back
from bastion.scheduler.preemption.stop_times import deadline_of, spare_until, stop_at
from bastion.scheduler.preemption.victims import Found, gives_way
from bastion.scheduler.promise import Promise
from bastion.scheduler.queue.order import Gang
from bastion.scheduler.queue.shape import Shape
from bastion.scheduler.reasons.reason import Outranked, PreemptReason, Reclaimed, Shrunk, Yielded
from bastion.scheduler.state.decisions import PlannedStop
from bastion.scheduler.state.draft import Draft
from bastion.scheduler.state.holders.running import Running
from bastion.scheduler.state.reservation import Reserved
from quota.amounts import Amounts
from quota.ledger import apart


def make_promise(
    draft: Draft, gang: Gang, shape: Shape, found: Found, *, within_share: bool
) -> Reserved:
    """
    Make the promise that `found` allows, and set what happens to its victims.

    Victims that start in this cycle do not start after all.
    """
    name = gang[0].id
    found = replace(found, victims=take_back(draft, found.victims))
    for victim in found.victims:
        name_victim(draft, victim, gang, shape, is_firm=within_share)
    sure, departing = [*found.ending, *found.victims], found.departing
    project = gang[0].project
    waits = awaited(draft, project, found.at, sure, departing, within_share=within_share)
    assert waits is not None, "it fits once all of them have ended: so it was found"
    shared = _shared(draft, gang, shape, found)
    deadline = deadline_of(draft, waits, found.victims, shared)
    victims = (*found.victims, *shared)
    draft.capacity.make_again(found.placed.placements)
    reserved = Reserved(
        gang=gang, at=found.at, until=deadline, is_promise=True, victims=victims, waits=waits
    )
    draft.promises.pop(name, None)  # remade, it may wait for others' victims, so it goes last
    draft.promises[name] = Promise(
        gang=tuple(job.id for job in gang),
        placements=found.placed.placements,
        deadline=deadline,
        victims=victims_of(draft, victims),
        made_at=draft.now,
        within_share=within_share,
    )
    reserve(draft, reserved)
    return reserved


def earlier_of(draft: Draft, found: Found, plan: Reserved | None) -> Found:
    """
    Return the `plan` lent to a gang, if it is earlier than what was `found`, and as certain.

    A published start is then not delayed only because the share of its project holds it now. A plan
    that rests on rotated borrowers is not certain: a gang of another project may use their slice.
    """
    if plan is None or _due(draft, found) <= plan.until:
        return found
    if any(draft.ends_at(running) > plan.until for running in plan.waits):
        return found
    there = [each.footprint for each in draft.closed if each.hold is not None]
    there += [running.footprint for running in starting(draft)]
    if any(each.meets(plan.footprint) for each in there):
        return found
    if awaited(draft, plan.project, plan.at, plan.waits, (), within_share=True) is None:
        return found
    return Found(at=plan.at, victims=(), ending=plan.waits, departing=())


def _due(draft: Draft, found: Found) -> float:
    """Return the earliest time at which `found` may be had."""
    stopped = (stop_at(draft, victim) + victim.grace_s for victim in found.victims)
    return max([draft.now, *map(draft.ends_at, found.ending), *stopped])


def let_victims_run_on(draft: Draft) -> None:
    """
    Let each victim of only one new promise run until that promise is due.

    An earlier promise, which was due sooner and was given up since, may have named it, too.
    """
    new = [r for r in draft.promised.values() if r.victims and _is_new(draft, r)]
    if not new:
        return
    named = Counter(victim for each in draft.promised.values() for victim in each.victims)
    for reserved in new:
        own = [v for v in reserved.victims if named[v] == 1 and _is_for(draft, v, reserved)]
        spare_until(draft, own, reserved.until)
        stops = dict(victims_of(draft, own))
        promise = draft.promises[reserved.name]
        told = tuple((job, stops.get(job, at)) for job, at in promise.victims)
        if told != promise.victims:
            draft.promises[reserved.name] = replace(promise, victims=told)


def _is_new(draft: Draft, reserved: Reserved) -> bool:
    """Whether it was promised in this cycle, though its gang had a promise that has lapsed."""
    known = draft.standing.get(reserved.name)
    return known is None or known.made_at != draft.promises[reserved.name].made_at


def _is_for(draft: Draft, victim: Running, reserved: Reserved) -> bool:
    """Whether `victim` stops for `reserved`, and not for a planned start or maintenance."""
    known = draft.victims.get(victim.name)
    return known is not None and known.by == reserved.name


def _shared(draft: Draft, gang: Gang, shape: Shape, found: Found) -> list[Running]:
    """
    Return victims of earlier promises whose devices it needs too, if it has a right to them.

    If the earlier promise is fulfilled otherwise, they are still stopped for this one. Victims of
    other projects are not shared while its own project temporarily holds too much.
    """
    project, total = gang[0].project, found.placed.total
    within_share = draft.shares.is_within(project, total)
    by_right = partial(gives_way, draft, gang=gang, shape=shape, asked=total)
    devices = [
        running
        for running in found.ending
        if running.name in draft.victims
        and not running.is_leaving
        and running.footprint.meets(found.at.footprint)
        and by_right(running, within_share=within_share)
    ]
    stopped = [running for running in (*found.victims, *devices) if running.project != project]
    if not (stopped and draft.shares.is_nested):
        return devices
    return [*devices, *filter(by_right, _needed_by_groups(draft, project, total, stopped))]


def _needed_by_groups(
    draft: Draft, project: str, total: Amounts, stopped: Sequence[Running]
) -> Iterator[Running]:
    """Yield other victims that must end before a group may have `stopped`, or is not too full."""
    quota, shares = draft.snapshot.quota, draft.shares
    meets = {apart(quota, project, running.project)[-1].name for running in stopped}
    departing, kin = draft.departing(firm=True), quota.kin(project)
    others = [r for r in departing if r.project in kin and not (r.is_leaving or r in stopped)]

    def are_needed(some: Sequence[Running]) -> bool:
        with shares.without(standing=departing.sums, staying=some):
            is_under = shares.is_under_group_ceilings(project, total)
            return not (is_under and meets <= shares.holding(project, total))

    if are_needed(others):
        yield from (running for running in others if are_needed([running]))


def victims_of(draft: Draft, victims: Sequence[Running]) -> tuple[tuple[str, float], ...]:
    """Return (job, stop time) of every job of `victims`."""
    return tuple((job, draft.victims[v.name].stop_at) for v in victims for job in v.ids)


def name_victim(draft: Draft, victim: Running, gang: Gang, shape: Shape, *, is_firm: bool) -> None:
    """Plan to stop `victim` for `gang`, with the reason; its grace period begins when it stops."""
    by, project = gang[0].id, gang[0].project
    is_own = victim.project == project
    reason: PreemptReason
    if is_own and victim.priority > shape.priority:
        reason = Outranked(by=by, priority=victim.priority, theirs=shape.priority)
    elif is_own and victim.is_grown:
        reason = Shrunk(by=by, replicas=len(victim.places), least=victim.shape.replicas)
    elif draft.shares.is_within(project, shape.asked):
        reason = Reclaimed(by=by, project=project, units=shape.asked)
    else:
        reason = Yielded(by=by, order=draft.options.order)
    stop = stop_at(draft, victim)
    draft.victims[victim.name] = PlannedStop(
        by=by, stop_at=stop, end_at=stop + victim.grace_s, reason=reason, is_firm=is_firm
    )
