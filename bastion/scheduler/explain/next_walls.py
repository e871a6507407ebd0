"""
The second wall: the cause named by a reason is changed on trial, and the diagnosis repeated.

This module must not change anything: whatever it tries, it undoes.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from bastion.scheduler.explain.trial import Change
from bastion.scheduler.phases.reservations.starts import starting
from bastion.scheduler.placement.feasibility import filters_of
from bastion.scheduler.reasons.next_wall import NextWall
from bastion.scheduler.reasons.reason import (
    BeyondShare,
    CapacityLost,
    Fragmented,
    Maintenance,
    NeverFits,
    NoMachineMatches,
    OverCeiling,
    PlannedForOther,
    ProviderStockout,
    ShareInUse,
    WaitingForCapacity,
    WaitingReason,
)
from bastion.spec.where import CONTAINERS, Where
from quota.amounts import Amounts

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from bastion.job import JobRecord
    from bastion.scheduler.queue.shape import Shape
    from bastion.scheduler.state.draft import Draft
    from bastion.scheduler.state.reservation import Reserved

WithNext = (
    BeyondShare
    | CapacityLost
    | Fragmented
    | Maintenance
    | OverCeiling
    | PlannedForOther
    | ProviderStockout
    | ShareInUse
    | WaitingForCapacity
)
"""Reasons that also name the next wall."""


def change_of(draft: Draft, reason: WithNext) -> Change:
    """Return what changes once the cause named by `reason` is gone."""
    match reason:
        case BeyondShare():
            fits = reason.asked <= reason.share
            named = set() if fits else _projects_of(draft, reason.lenders)
            own = {reason.project} if fits or reason.own else set()
            return Change(gone=_running_in(draft, named | own))
        case CapacityLost():
            return Change(machines=reason.machines)
        case Fragmented():
            named = {draft.of_job[job].name for job in reason.to_end}
            return Change(gone=tuple(n for n in draft.running if n in named or not named))
        case Maintenance():
            gone = (n for n, each in draft.running.items() if each.frees_at <= reason.until)
            return Change(maintained_until=reason.until, gone=tuple(gone))
        case OverCeiling():
            return Change(ceiling=reason.project)
        case PlannedForOther():
            return Change(opened=(reason.other, *reason.more))
        case ProviderStockout():
            return Change(is_restocked=True)
        case ShareInUse():
            return Change(gone=_running_in(draft, {reason.project}))
        case WaitingForCapacity():
            return Change(gone=_running_in(draft, {name for name, _ in reason.holders}))


def _running_in(draft: Draft, projects: set[str]) -> tuple[str, ...]:
    """Return the running gangs of `projects`, including those that start now."""
    there = [each for name in sorted(projects) for each in draft.occupancy.by_project.get(name, ())]
    new = [each for each in starting(draft) if each.project in projects]
    return tuple(each.name for each in (*there, *new))


def _projects_of(draft: Draft, names: Iterable[str]) -> set[str]:
    """Return the projects of `names`, and those in the groups among them."""
    groups = draft.snapshot.quota.groups
    found: set[str] = set()
    for name in names:
        found |= _projects_of(draft, groups[name].members) if name in groups else {name}
    return found


def user_wall(
    draft: Draft, gang: Sequence[JobRecord], shape: Shape, change: Change
) -> NextWall | None:
    """Return the limit of its user that `gang` would exceed once `change` has happened."""
    first = gang[0]
    project = draft.snapshot.quota.project(first.project)
    if not project.has_user_limits:
        return None
    holds = [
        (each.held, len(each.jobs))
        for each in draft.occupancy.by_project.get(first.project, ())
        if each.user == first.user and each.name not in change.gone
    ]
    ahead = [each.gang for each in reserved_of(draft, first) if each.name not in change.opened]
    new = (each.gang for each in draft.admitted_by.get(first.project, ()))
    ahead += [each for each in new if each[0].user == first.user and each[0].id not in change.gone]
    holds += [
        (draft.asks(draft.shapes.of(each)), len(each)) for each in ahead if each[0] not in gang
    ]
    over = project.limits_of(first.user).exceeded(
        Amounts.sum(units for units, _ in holds),
        draft.asks(shape),
        running=sum(jobs for _, jobs in holds),
        jobs=len(gang),
    )
    return None if over is None else NextWall(kind="OverUserLimit", names=(first.user,))


def reserved_of(draft: Draft, job: JobRecord) -> list[Reserved]:
    """Return what is reserved in its project for gangs of the user of `job`."""
    kept = (*draft.closed, *draft.reservations.drained_for(job.project))
    user = job.project, job.user
    return [each for each in kept if (each.project, each.gang[0].user) == user]


def without(where: Where, *, written: str) -> Where:
    """Return `where` without the filter that users write as `written`."""
    labels = where.labels.items()
    if written == CONTAINERS:
        return replace(where, labels={k: v for k, v in labels if k != CONTAINERS})
    names = [name for name, _, each in filters_of(where) if each == written]
    if not names:
        return where
    if names[0] == "labels":
        return replace(where, labels={k: v for k, v in labels if k == CONTAINERS})
    nothing: Any = () if names[0] == "hostnames" else ""
    return replace(where, **{names[0]: nothing})


def wall_of(reason: WaitingReason) -> NextWall | None:
    """Return `reason` as the second of two."""
    match reason:
        case BeyondShare():
            short = (reason.held + reason.asked + reason.others - reason.total).positive()
            return NextWall(kind="BeyondShare", units=short, names=reason.lenders)
        case CapacityLost():
            return NextWall(kind="CapacityLost", units=reason.lost, names=reason.machines)
        case Fragmented():
            return NextWall(kind="Fragmented", units=reason.asked, over=reason.over)
        case Maintenance():
            return NextWall(kind="Maintenance", names=(reason.window,))
        case NeverFits():
            return NextWall(kind="NeverFits", units=reason.asked)
        case NoMachineMatches():
            named = (reason.filter,) if reason.filter else ()
            return NextWall(kind="NoMachineMatches", names=named)
        case OverCeiling():
            short = (reason.held + reason.asked - reason.ceiling).positive()
            return NextWall(kind="OverCeiling", units=short, names=(reason.project,))
        case PlannedForOther():
            names = (reason.other, *reason.more)
            return NextWall(kind="PlannedForOther", units=reason.units, names=names)
        case ProviderStockout():
            return NextWall(kind="ProviderStockout", names=(reason.pool,))
        case ShareInUse():
            short = (reason.held + reason.asked - reason.share).positive()
            return NextWall(kind="ShareInUse", units=short, names=(reason.project,))
        case WaitingForCapacity():
            names = tuple(name for name, _ in reason.holders)
            return NextWall(kind="WaitingForCapacity", units=reason.short, names=names)
        case _:
            return None
