"""
The harm of stopping a gang: in which order victims are tried.

It is the same for a whole cycle, so it is worked out once, and gangs are put in order once.

It must not know which victims are legal.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from heapq import merge

from bastion.scheduler.state.draft import Draft
from bastion.scheduler.state.holders.excess import Excess
from bastion.scheduler.state.holders.running import Running

RECENT_S = 4 * 3600.0
"""
What was preempted within that time is chosen last.

Long enough that a job comes through a working morning with one interruption; our own choice.
"""

Harm = tuple[bool, bool, float, float, str]
"""(is not grown, preempted lately, work lost, how old it is, name): the lowest is stopped first."""


def least_lost(draft: Draft, running: Running) -> Harm:
    """
    What is stopped first among equals: the lowest.

    Grown gangs come first, those preempted lately last; then the least work lost, then the newest.
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
    Those of `project` that may still be spared or are not to be stopped, in order.

    The same object until one comes or goes.
    """
    search = draft.search

    def harm(running: Running) -> Harm:
        return least_lost(draft, running)

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
    """What earlier searches of the cycle have worked out of it, while that holds."""
    running, now = borrowers_of(draft, project), draft.shares.excess(project)
    known = draft.search.excess.get(project)
    if known is None or known.running is not running or known.before is not now:
        known = draft.search.excess[project] = Excess(draft.shares, project, running)
    return known


def first_to_yield(draft: Draft, running: Running) -> tuple[float | str, ...]:
    """
    Which gang is stopped first for one of its own project that is before it: the lowest.

    That of the lowest priority, then by `least_lost`. Under the preemption policy
    `order` it is the last in the order: what is stopped then stops no other in turn.
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
    What of `project` runs on and may be stopped, with the `new` that start now, in order.

    Args:
        draft: Not changed while this is gone through.
        project: Whose gangs.
        new: Those of it that start in this cycle.
        allows: Whether one of these may be stopped.
        firm: As in `Draft.departing`.
    """
    ordered = draft.search.by_priority.get(project)
    if ordered is None:
        found = draft.occupancy.by_project.get(project, ())
        ordered = sorted(found, key=lambda running: first_to_yield(draft, running))
        draft.search.by_priority[project] = ordered
    near = (r for r in ordered if allows(r) and not draft.is_departing(r, firm=firm))
    if not new:
        return near
    more = sorted(filter(allows, new), key=lambda running: first_to_yield(draft, running))
    return merge(near, more, key=lambda running: first_to_yield(draft, running))
