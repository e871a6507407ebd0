"""
Growth: elastic gangs get what nothing else can use.

An elastic gang starts with its minimum replicas, as any other gang does. After all others have been
considered, starting gangs get more, one replica each in turn. Where `min_runtime_s` is 0, they do
so only if nothing waits for what they ask for, because a waiting gang could immediately take it
back. A running gang is stopped to start again with more replicas only if nothing waits for what it
asks for, it has run for `min_runtime_s`, and it gains at least a quarter of its replicas. A gang
with a replica that has ended does not grow: the work of that replica would be repeated. A replica
above the minimum is placed on existing machines, unless the gang waits for new ones anyway.

This module must not know how gangs give back what they hold above the minimum: see
`preemption.victims`.
"""

from __future__ import annotations

from collections.abc import Iterable

from bastion.job import Phase, Placement
from bastion.scheduler.effort import Effort, beside_searches
from bastion.scheduler.placement.blocks import block_of, same_of
from bastion.scheduler.placement.hold import machines_of
from bastion.scheduler.placement.place import Placed
from bastion.scheduler.preemption.stop_times import stop_now
from bastion.scheduler.queue.order import Gang
from bastion.scheduler.queue.shape import Shape
from bastion.scheduler.reasons.reason import Resized
from bastion.scheduler.state.decisions import Admitted
from bastion.scheduler.state.draft import Draft
from bastion.scheduler.state.holders.running import Running
from quota.amounts import NOTHING, Amounts

LEAST_GAIN = 0.25
"""Fraction of its current replicas: a restart costs the work since the last checkpoint."""
WAITS_S = 300.0
"""
How long after it was queued a gang that needs new machines also asks for more replicas.

After that a shortage has occurred, and only its minimum is served.
"""


def widen(draft: Draft) -> None:
    """Give gangs that start now more than their minimum replicas, as far as they fit."""
    effort = beside_searches(draft.snapshot.steps)
    wanted = frozenset() if draft.options.min_runtime_s else _wanted(draft)
    growing = [
        at
        for at, each in enumerate(draft.admitted)
        if each.shape.may_grow and not each.shape.types & wanted
    ]
    new = {at: _may_make(draft, draft.admitted[at]) for at in growing}
    projects = {draft.admitted[at].gang[0].project for at in growing}
    while growing and not effort.is_spent:
        growing = [at for at in growing if _widen(draft, at, new[at], effort)]
    for project in projects:
        draft.admitted_by[project] = [e for e in draft.admitted if e.gang[0].project == project]


def _may_make(draft: Draft, admitted: Admitted) -> frozenset[str] | None:
    """Return the new machines that its additional replicas may use; None for any."""
    new = _new_machines(draft, admitted.placed)
    is_patient = draft.now - admitted.gang[0].queued_at < WAITS_S
    return None if new and is_patient else new


def _widen(draft: Draft, at: int, new: frozenset[str] | None, effort: Effort) -> bool:
    """Add one replica to a gang that starts."""
    admitted = draft.admitted[at]
    gang, placed = admitted.gang, admitted.placed
    (places,) = placed.placements
    if len(places) >= admitted.shape.most or effort.is_spent:
        return False
    effort.spend()
    more = _one_more(draft, gang, places, new)
    if more is None:
        return False
    within = admitted.within_share and draft.shares.is_own(gang[0].project, more.total)
    draft.shares.add(gang[0].project, more.total)
    charge = tuple(has + gets for has, gets in zip(placed.charge, more.charge))
    both = Placed(placements=((*places, *more.placements[0]),), charge=charge)
    draft.admitted[at] = admitted._replace(placed=both, within_share=within)
    return True


def grow(draft: Draft) -> None:
    """Name the running gangs that stop to start again with more replicas."""
    growing = [each for each in draft.occupancy.elastic.values() if _may_grow(draft, each)]
    if not growing or draft.search.unseen:
        return
    wanted, effort = _wanted(draft), beside_searches(draft.snapshot.steps)
    draft.capacity.begin()
    for running in sorted(growing, key=lambda each: (each.priority, each.admitted_at, each.name)):
        if running.shape.types & wanted:
            continue
        has, more = len(running.places), _room(draft, running, effort)
        if more >= LEAST_GAIN * has:
            stop_now(draft, running, Resized(replicas=has, fits=has + more))
    draft.capacity.undo()


def grows_at(draft: Draft) -> Iterable[float]:
    """Yield when running gangs may be considered again, by time alone."""
    for running in draft.occupancy.elastic.values():
        if running.phase is Phase.RUNNING and _is_below_most(running):
            yield running.started_at + draft.options.min_runtime_s


def _may_grow(draft: Draft, running: Running) -> bool:
    if running.phase is not Phase.RUNNING or running.name in draft.victims:
        return False
    has_run = running.has_run_for(draft.options.min_runtime_s, draft.now)
    return has_run and _is_below_most(running)


def _is_below_most(running: Running) -> bool:
    """Whether all its replicas run, and it may have more."""
    count = len(running.places)
    return count == running.replicas < running.shape.most


def _wanted(draft: Draft) -> frozenset[str]:
    """Return the types for which any gang waits, and those that grown gangs give back."""
    shapes = {line.shape for line in draft.blocked if not line.is_over}
    shapes |= {each.shape for each in draft.closed}
    grown = (each for each in draft.occupancy.elastic.values() if each.is_grown)
    shapes |= {each.shape for each in grown if draft.is_departing(each)}
    return frozenset().union(*(shape.types for shape in shapes))


def _room(draft: Draft, running: Running, effort: Effort) -> int:
    """Return how many more replicas fit beside it; its devices stay taken, its shares do not."""
    taken: list[Amounts] = []
    places = tuple(place for _, place in running.places)
    while len(running.places) + len(taken) < running.shape.most and not effort.is_spent:
        effort.spend()
        more = _one_more(draft, tuple(running.jobs), places, frozenset())
        if more is None:
            break
        draft.shares.add(running.project, more.total)
        taken.append(more.total)
    draft.shares.add(running.project, -Amounts.sum(taken))
    return len(taken)


def _one_more(
    draft: Draft, gang: Gang, beside: Placement, new: frozenset[str] | None
) -> Placed | None:
    """
    Take devices for one more replica `beside` others, or take nothing and return None.

    It uses only `new` machines, or any if that is None; and the same block if they must share one.
    """
    shape = draft.shapes.one_more(gang)
    if draft.is_too_full(shape, guaranteed=False):
        return None
    draft.capacity.begin()
    placed = _placed_beside(draft, shape, beside)
    if (
        placed is not None
        and _may_have(draft, gang, shape, placed.total)
        and (new is None or _new_machines(draft, placed) <= new)
    ):
        draft.capacity.agree()
        return placed
    draft.capacity.undo()
    return None


def _placed_beside(draft: Draft, shape: Shape, beside: Placement) -> Placed | None:
    """Return a place in the block of the other replicas, if they must share one."""
    same = same_of(shape, draft.parts.placement)
    if not same:
        placed = draft.try_place(shape, guaranteed=False)
        if placed is None:
            draft.search.too_full.add((shape.form, False))
        return placed
    found = [block_of(draft.capacity, same, name) for name in machines_of((beside,))]
    block = found[0] if found and all(each == found[0] for each in found) else None
    inside = None if block is None else shape.inside(block)
    return None if inside is None else draft.try_place(inside, guaranteed=False)


def _may_have(draft: Draft, gang: Gang, shape: Shape, units: Amounts) -> bool:
    """Whether the quota allows it: shares, lending, budgets, and the limits of its user."""
    project, user = gang[0].project, gang[0].user
    shares, limited = draft.shares, draft.snapshot.quota.projects.get(project)
    if limited is None:
        return False
    if not shares.has_room(project, shape, units):
        return False
    if draft.budgets.over(project, units) is not None:
        return False
    if not limited.has_user_limits:
        return True
    held = [each.held for each in draft.occupancy.by_project.get(project, ()) if each.user == user]
    gangs = ((each.gang[0], each.placed.total) for each in draft.admitted)
    held += [total for job, total in gangs if (job.project, job.user) == (project, user)]
    has = Amounts.sum(held) if held else NOTHING
    return limited.limits_of(user).exceeded(has, units, running=0, jobs=0) is None


def _new_machines(draft: Draft, placed: Placed) -> frozenset[str]:
    """Return those of its machines that do not exist yet."""
    rooms = draft.capacity.by_name
    names = machines_of(placed.placements)
    return frozenset(name for name in names if name not in rooms or rooms[name].is_being_made)
