"""
The second wall: what a reason names is changed on trial, and the same diagnosis asked again.

It must not change anything: what it tries, it undoes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from bastion.scheduler.explain.trial import Change, ending
from bastion.scheduler.reasons.next_wall import NextWall
from bastion.scheduler.reasons.reason import (
    BeyondShare,
    CapacityLost,
    Fragmented,
    Maintenance,
    OverCeiling,
    PlannedForOther,
    ProviderStockout,
    ShareInUse,
    WaitingForCapacity,
    WaitingReason,
)
from bastion.scheduler.reasons.words import positive

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from bastion.scheduler.state.draft import Draft

WithNext = (
    BeyondShare
    | CapacityLost
    | Maintenance
    | OverCeiling
    | PlannedForOther
    | ProviderStockout
    | ShareInUse
    | WaitingForCapacity
)
"""Reasons that name the next wall, too."""


def change_of(
    draft: Draft, reason: WithNext, members: Callable[[Iterable[str]], set[str]]
) -> Change:
    """What is changed when what `reason` names has come; `members` are the projects of groups."""
    match reason:
        case BeyondShare():
            fits = reason.asked <= reason.share
            named = set() if fits else members(reason.lenders)
            own = {reason.project} if fits or reason.own else set()
            return Change(gone=ending(draft, named | own))
        case CapacityLost():
            return Change(machines=reason.machines)
        case Maintenance():
            gone = (n for n, each in draft.running.items() if each.frees_at <= reason.until)
            return Change(is_maintained=True, gone=tuple(gone))
        case OverCeiling():
            return Change(ceiling=reason.project)
        case PlannedForOther():
            return Change(opened=(reason.other, *reason.more))
        case ProviderStockout():
            return Change(is_restocked=True)
        case ShareInUse():
            return Change(gone=ending(draft, {reason.project}))
        case WaitingForCapacity():
            return Change(gone=ending(draft, {name for name, _ in reason.holders}))


def wall_of(reason: WaitingReason) -> NextWall | None:
    """`reason`, as the second of two."""
    match reason:
        case BeyondShare():
            short = positive(reason.held + reason.asked + reason.others - reason.total)
            return NextWall(kind="BeyondShare", units=short, names=reason.lenders)
        case CapacityLost():
            return NextWall(kind="CapacityLost", units=reason.lost, names=reason.machines)
        case Fragmented():
            return NextWall(kind="Fragmented", units=reason.asked)
        case Maintenance():
            return NextWall(kind="Maintenance", names=(reason.window,))
        case OverCeiling():
            short = positive(reason.held + reason.asked - reason.ceiling)
            return NextWall(kind="OverCeiling", units=short, names=(reason.project,))
        case PlannedForOther():
            names = (reason.other, *reason.more)
            return NextWall(kind="PlannedForOther", units=reason.units, names=names)
        case ProviderStockout():
            return NextWall(kind="ProviderStockout", names=(reason.pool,))
        case ShareInUse():
            short = positive(reason.held + reason.asked - reason.share)
            return NextWall(kind="ShareInUse", units=short, names=(reason.project,))
        case WaitingForCapacity():
            names = tuple(name for name, _ in reason.holders)
            return NextWall(kind="WaitingForCapacity", units=reason.short, names=names)
        case _:
            return None
