"""
The harm of stopping a gang: the order in which victims are tried.

It is constant within a cycle, so it is computed once, and gangs are sorted once.

This module must not know which victims are legal.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from heapq import merge

from bastion.scheduler.state.draft import Draft
from bastion.scheduler.state.holders.excess import Excess
from bastion.scheduler.state.holders.running import Running

RECENT_S = 4 * 3600.0
"""
Gangs preempted within this time are chosen last.

It is long enough for a job to see at most one interruption per working morning. The number is our
own choice.
"""

Harm = tuple[bool, bool, float, float, str]
"""(is not grown, recently preempted, lost work, age, name): the lowest is stopped first."""


def least_lost(draft: Draft, running: Running) -> Harm:
    """
    Return the sort key among equals: the lowest is stopped first.

    Grown gangs come first, recently preempted ones last; then the least lost work, then the newest.
    """
    known = draft.search.harm.get(running.name)
    if known is None:
        times = [job.preempted_at for job in running.jobs if job.preempted_at is not None]
        is_recent = any(draft.now - at < RECENT_S for at in times)
        lost = draft.shares.dominant_share(running.held) * max(0.0, draft.now - running.saved_at)
        known = not running.is_grown, is_recent, lost, -running.admitted_at, running.name
        draft.search.harm[running.name] = known
    return known


def borrowers_of(draft: Draft, project: str) -> Sequence[Running]:
    """
    Return those of `project` that nothing stops yet, or that may be spared, in order.

    The result is the same object until a victim of the project is named or spared.
    """
    search = draft.search

    def harm(running: Running) -> Harm:
        return least_lost(draft, running)

    # Updated victim by victim: sorting thousands again after each would cost a third of a cycle.
    for name in draft.victims.changed[search.victims_seen :]:
        running = draft.running[name]
        ordered = search.borrowers.get(running.project)
        if ordered is None or not running.is_borrowed or running.is_leaving:
            continue
        at = bisect_left(ordered, harm(running), key=harm)
        is_in = at < len(ordered) and ordered[at] is running
        if draft.is_departing(running, firm=True):
            search.borrowers[running.project] = [*ordered[:at], *ordered[at + is_in :]]
        elif not is_in:
            search.borrowers[running.project] = [*ordered[:at], running, *ordered[at:]]
    search.victims_seen = len(draft.victims.changed)
    if project not in search.borrowers:
        found = (r for r in draft.borrowers[project] if not draft.is_departing(r, firm=True))
        search.borrowers[project] = sorted(found, key=harm)
    return search.borrowers[project]


def excess_of(draft: Draft, project: str) -> Excess:
    """Return the excess that earlier searches of the cycle computed, while it is valid."""
    running, now = borrowers_of(draft, project), draft.shares.excess(project)
    known = draft.search.excess.get(project)
    if known is None or known.running is not running or known.before is not now:
        known = draft.search.excess[project] = Excess(draft.shares, project, running)
    return known


def first_to_yield(draft: Draft, running: Running) -> tuple[float | str, ...]:
    """
    Return the sort key of gangs to stop for one of their own project: the lowest goes first.

    The lowest priority goes first, then `least_lost`. Under the preemption policy `order` it is the
    last in the order: the stopped gang then stops no other in turn.
    """
    if draft.parts.preemption.follows_order:
        priority, rank = draft.rank(tuple(running.jobs))
        return -priority, -rank, -running.admitted_at, running.name
    return -running.priority, *least_lost(draft, running)


def in_project(
    draft: Draft,
    project: str,
    new: Sequence[Running],
    allows: Callable[[Running], bool],
    *,
    firm: bool,
) -> Iterator[Running]:
    """
    Return gangs of `project` that `allows` to be stopped, with `new` ones that start now, in order.

    The draft must not change meanwhile. `firm` as in `Draft.departing`.
    """
    order = partial(first_to_yield, draft)
    ordered = draft.search.by_priority.get(project)
    if ordered is None:
        found = draft.occupancy.by_project.get(project, ())
        ordered = draft.search.by_priority[project] = sorted(found, key=order)
    near = (r for r in ordered if allows(r) and not draft.is_departing(r, firm=firm))
    return merge(near, sorted(filter(allows, new), key=order), key=order) if new else near
