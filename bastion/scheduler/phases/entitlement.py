"""
What a gang within a share is entitled to, and whether it would get what is freed for it.

It may start within the share, have others stopped, and break promises that rest on less. Nothing is
stopped for a gang that would not get the freed capacity.

This module must not know which gang is next.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import chain

from bastion.scheduler.phases.reservations.breakable import (
    breakable_by,
    on_shared_shares,
    outranked,
)
from bastion.scheduler.phases.reservations.lending import (
    called_in,
    closed,
    counted,
    discounted,
    lent,
)
from bastion.scheduler.phases.reservations.starts import borrowing, lower_starting
from bastion.scheduler.preemption.borrowers import borrowers_for
from bastion.scheduler.preemption.harm import in_project
from bastion.scheduler.preemption.victims import Found, find, is_legal
from bastion.scheduler.queue.order import Gang, Line
from bastion.scheduler.queue.shape import Shape
from bastion.scheduler.state.draft import Draft
from bastion.scheduler.state.holders.running import Running
from bastion.scheduler.state.reservation import Reserved
from quota.amounts import Amounts


def may_be_within(
    draft: Draft, project: str, shape: Shape, *, own: bool = False, later: bool = False
) -> bool:
    """
    Whether a gang of `shape` may be within a share, or if `own` within that of `project`.

    The charge of whole machines is known only when they are found. `later` as in `outranked`.
    """
    if shape.takes_whole and not shape.asked:
        return True
    own = own or not shape.borrows
    if draft.shares.is_within(project, shape.asked, own=own):
        return True
    lower = outranked(draft, project, shape.priority, later=later)
    if not lower:
        return False
    with discounted(draft, lower):
        return draft.shares.is_within(project, shape.asked, own=own)


def found_within_share(
    draft: Draft,
    line: Line,
    *,
    without: Collection[Running],
    going: Sequence[Running] = (),
    staying: Collection[Running] = (),
    others: Collection[str] = (),
) -> Found | None:
    """
    Return where the head of `line` may start within a share, and for which victims.

    Victims make no room in the share of its project. Victims, and gangs that are `going`, make room
    in the groups around it.

    Args:
        draft: Unchanged when this returns.
        line: Whose head is to start.
        without: Gangs that must not be victims.
        going: As in `find`, like `staying`.
        staying: Departing gangs that will not be gone.
        others: Projects that lose something to it, beside those of its victims.
    """
    gang, shape, project, shares = line.head, line.shape, line.project, draft.shares
    legal = (each for each in legal_victims(draft, gang, shape) if each not in without)
    also_gone = set(going)

    def allows(units: Amounts, victims: Sequence[Running]) -> bool:
        if not shares.is_within(project, units, own=not shape.borrows):
            return False
        if not shares.is_nested:
            return True
        departing = draft.departing(firm=True)
        leaving = {*going, *victims}
        gone = [running for running in leaving if running not in departing]
        stay = [each for each in staying if each in departing and each not in leaving]
        with shares.without(gone, standing=departing.sums, staying=stay):
            met = {*others, *(running.project for running in victims)}
            return shares.may_reclaim(project, units, met)

    def may_stop(running: Running) -> bool:
        return running in also_gone or is_legal(draft, running, gang, shape, within_share=True)

    return find(
        draft,
        shape,
        legal,
        allows,
        guaranteed=True,
        going=going,
        staying=staying,
        may_stop=may_stop,
    )


def breakable(draft: Draft, line: Line) -> list[Reserved]:
    """Return promises that the head of `line` may break after all its possible victims are gone."""
    if not draft.reservations.shared or not draft.snapshot.quota.groups_of(line.project):
        return []
    gone = {*draft.departing(firm=True), *legal_victims(draft, line.head, line.shape)}
    return on_shared_shares(draft, line.project, line.shape.asked, gone)


def legal_victims(draft: Draft, gang: Gang, shape: Shape) -> Iterator[Running]:
    """Return borrowers of other projects, those that start now first; then its own lower gangs."""
    project = gang[0].project
    policy = draft.parts.preemption
    new = lower_starting(draft, project, shape.priority)
    lower = in_project(draft, project, new, lambda r: r.priority > shape.priority, firm=True)
    return chain(
        borrowing(draft, project),
        borrowers_for(draft, project, shape.asked) if policy.reclaims else (),
        lower if policy.outranks else (),
    )


def is_in_vain(
    draft: Draft, gang: Gang, going: Sequence[Running], *, group: str = "", nested: bool = False
) -> bool:
    """
    Whether another project's gang is entitled to what `going` leave for `gang`, and takes it.

    What is closed for `gang` itself is already open. The other gang waits within its share, and
    only borrowers may be preempted for it: where `going` stand on a share, their own project would
    have preempted them. If `gang` is on the share of a `group`, only gangs nearer to their own
    share, in that group, have the right. `nested` as in `would_be_taken`.
    """
    stays = (r for r in going if not r.is_leaving)
    is_any_safe = any(r.cover or not r.is_borrowed for r in stays)
    return is_any_safe and would_be_taken(draft, gang, going, group=group, nested=nested)


def would_be_taken(
    draft: Draft, gang: Gang, going: Sequence[Running], *, group: str = "", nested: bool = False
) -> bool:
    """
    Whether another project's gang, within its share, would start once `going` stop for `gang`.

    Args:
        draft: Unchanged when this returns.
        gang: The gang for which they would be stopped.
        going: The gangs that would be stopped.
        group: If given, only projects in it count, and only within the share on which each meets
            that of `gang`.
        nested: Whether this is asked about a gang that would take what others leave. The question
            is then not repeated for what its own victims leave.
    """
    if not draft.search.hopeless:
        return False
    others = [name for name in draft.rest if name != gang[0].project]
    if group:
        groups_of = draft.snapshot.quota.groups_of
        others = [name for name in others if any(g.name == group for g in groups_of(name))]
    losers = [gang[0].project] if group else []
    return any(
        _would_take(draft, line, gang, going, losers, nested=nested)
        for line in chain.from_iterable(draft.rest[name] for name in others)
        if line.key in draft.search.hopeless and not line.is_over
        if not is_out_of_reach(draft, line, going)
    )


def is_out_of_reach(draft: Draft, line: Line, going: Iterable[Running] = ()) -> bool:
    """Whether the head of `line` has no room even with all its possible victims gone."""
    if draft.shares.is_nested or line.shape.priority < draft.lowest_priority(line.project):
        return False
    if not all(running.is_borrowed or running.is_leaving for running in going):
        return False
    if 2 * sum(map(len, draft.borrowers.values())) < len(draft.capacity.rooms):
        return False  # iterating over the borrowers is faster
    return not draft.upper_bound.may_fit(line.shape)


def _would_take(
    draft: Draft,
    line: Line,
    gang: Gang,
    going: Sequence[Running],
    losers: Collection[str],
    *,
    nested: bool,
) -> bool:
    """
    Whether the head of `line`, within its share, could start once `going` are gone.

    It could not if it needs victims of its own and a sibling would take what they leave.
    """
    ahead = draft.reservations.ahead_of(line)
    drained = draft.reservations.drained_before(line)
    with (
        closed(draft, [each for each in drained if each.hold is None]),  # others are closed
        called_in(draft, [plan for plan in ahead if plan.hold is None]),
        counted(draft, [plan for plan in ahead if not plan.holds_quota]),
    ):
        found = _found_beside(draft, line, gang, going, ahead, losers)
        if found is None or not found.victims or nested:
            return found is not None
        gone, units = [*going, *found.victims], found.placed.total
        return not goes_to_a_sibling(draft, line, gone, units, nested=True)


def _found_beside(
    draft: Draft,
    line: Line,
    gang: Gang,
    going: Sequence[Running],
    ahead: Sequence[Reserved],
    losers: Collection[str],
) -> Found | None:
    """
    Return where the head of `line` would start once `going` are gone, and for which victims.

    The start is within the share on which it meets each of the `losers`.
    """
    own = draft.plans.get(line.head[0].id)
    with discounted(draft, [own] if own is not None and own.holds_quota else []):
        if not may_be_within(draft, line.project, line.shape, later=True):
            return None
    weak = breakable_by(draft, line.project, line.shape.asked, ahead)
    weak = [each for each in weak if each.gang is not gang]
    weak += outranked(draft, line.project, line.shape.priority, later=True)
    weak = [each for each in weak if each.hold is not None]  # the others are already lent
    with lent(draft, weak, [*draft.reservations.drained_before(line), *ahead]):
        return found_within_share(draft, line, without={*going}, going=going, others=losers)


def goes_to_a_sibling(
    draft: Draft, line: Line, going: Sequence[Running], units: Amounts, *, nested: bool = False
) -> bool:
    """
    Whether a gang nearer to its own share takes what `going` leave on the share of a group.

    They would be stopped for the head of `line`, charged `units`. `nested` as in `would_be_taken`.
    """
    shares = draft.shares
    if not shares.is_nested or shares.is_own(line.project, units):
        return False
    departing = draft.departing(firm=True)
    gone = [running for running in going if running not in departing]
    with shares.without(gone, standing=departing.sums):
        group = shares.cover(line.project, units)
    return is_in_vain(draft, line.head, going, group=group, nested=nested)
