"""
What a gang within a share may break: planned starts, and promises that rest on less.

This module must not know whether that helps it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from bastion.scheduler.phases.reservations.lending import discounted
from bastion.scheduler.state.draft import Draft
from bastion.scheduler.state.holders.running import Running
from bastion.scheduler.state.reservation import Reserved
from quota.amounts import Amounts
from quota.ledger import apart


def breakable_by(
    draft: Draft, project: str, asked: Amounts, ahead: Sequence[Reserved]
) -> list[Reserved]:
    """Return what a gang of `project` within a share may break for `asked`; not plans `ahead`."""
    plans = [plan for plan in draft.plans.values() if plan not in ahead]
    if not draft.may_break_promises:
        return plans
    found = draft.reservations.weak.values()
    promised = [each for each in found if each.project != project]
    return [*promised, *on_shared_shares(draft, project, asked), *plans]


def on_shared_shares(
    draft: Draft, project: str, asked: Amounts, gone: Iterable[Running] = ()
) -> list[Reserved]:
    """
    Return promises on the share of a group that contains `project`, which is nearer to its own.

    One made in this cycle stands: gangs nearer to their own share were considered before.

    Args:
        draft: Unchanged when this returns.
        project: That of the gang which may break them.
        asked: What the gang asks for.
        gone: Running gangs that do not count.
    """
    quota = draft.snapshot.quota
    groups = {group.name for group in quota.groups_of(project)}
    if not (groups and draft.reservations.shared):
        return []
    with draft.shares.without(gone):
        holding = draft.shares.holding(project, asked)
    found = []
    for reserved in draft.reservations.shared.values():
        owner = reserved.project
        meets = "" if owner == project else apart(quota, project, owner)[-1].name
        if meets in holding and cover_of(draft, reserved) in groups:
            found.append(reserved)
    return found


def cover_of(draft: Draft, reserved: Reserved) -> str:
    """Return the share on which a promise stands once departing gangs have ended, or none."""
    with (
        discounted(draft, [reserved]),
        draft.shares.without(standing=draft.departing().sums),
    ):
        return draft.shares.cover(reserved.project, reserved.placed.total)


def outranked(draft: Draft, project: str, priority: int, *, later: bool = False) -> list[Reserved]:
    """
    Return promises of `project` that a gang of it of that priority, within the share, may break.

    These have lower priority: the gang could stop their gangs if they ran. Promises of higher or
    equal priority are not among them: what preempted the gang would preempt it again, forever. A
    promise within the share that was made in this pass stands: all of higher priority were
    considered before it. But `later`, in another pass, it may be broken too.
    """
    if not draft.may_break_promises:
        return []
    return [
        reserved
        for reserved in draft.reservations.below(project, priority)
        if not draft.promises[reserved.name].within_share
        or (draft.parts.preemption.outranks and (later or reserved.name in draft.standing))
    ]


def stands_within(draft: Draft, reserved: Reserved, *, own: bool = False) -> bool:
    """
    Whether it fits in a share while it already counts as held.

    The share is that of its project, or if not `own` that of a group.
    """
    project, total = reserved.project, reserved.placed.total
    is_own = draft.shares.stands(project, total, reserved.swapped)
    if is_own or own or not (reserved.shape.borrows and draft.shares.is_nested):
        return is_own
    with discounted(draft, [reserved]):
        return draft.shares.is_within(project, total)
