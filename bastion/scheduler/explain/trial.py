"""
`Change`: the cause named by a reason, changed temporarily on the cycle's working copies.

This module must not know reasons: it is given what to change, and undoes every change.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace

from bastion.scheduler.phases.reservations.lending import lent
from bastion.scheduler.phases.reservations.starts import starting
from bastion.scheduler.placement.capacity import Occupied
from bastion.scheduler.placement.repair import repaired
from bastion.scheduler.placement.room import Shelf
from bastion.scheduler.state.draft import Draft
from bastion.scheduler.state.holders.release import Release
from bastion.scheduler.state.holders.shares import Shares
from bastion.value import value
from quota.tree import Quota


@value
class Change:
    """What differs from the actual state."""

    gone: tuple[str, ...] = ()
    """Gangs that run, or start now, and have ended."""
    machines: tuple[str, ...] = ()
    """Back in use, with all of their devices."""
    opened: tuple[str, ...] = ()
    """Gangs that no longer have a reservation."""
    ceiling: str = ""
    """The project or group that may hold everything."""
    is_restocked: bool = False
    """Whether providers create machines."""
    maintained_until: float | None = None
    """When it would start: all maintenance that ends by then is over."""


@contextmanager
def made(draft: Draft, change: Change) -> Iterator[None]:
    """Apply `change` temporarily."""
    capacity, shares, names = draft.capacity, draft.shares, set(change.gone)
    gone = [each for each in (*draft.running.values(), *starting(draft)) if each.name in names]
    with ExitStack() as stack:
        if change.maintained_until is not None:
            stack.enter_context(capacity.maintained_until(change.maintained_until))
        stack.enter_context(lent(draft, [r for r in draft.closed if r.name in change.opened]))
        stack.enter_context(capacity.trial())
        if change.is_restocked:
            stack.enter_context(_restocked(capacity.shelves.values()))
        rooms = [(capacity.by_name[name], _on(draft, name)) for name in change.machines]
        stack.enter_context(repaired(capacity, rooms))
        for running in gone:
            Release(capacity, running)
        if change.ceiling:
            held = {name: shares.held(name) for name in shares.names()}
            draft.shares = Shares(_raised(shares.quota, change.ceiling), held)
        stack.enter_context(draft.shares.without(gone))
        try:
            yield
        finally:
            draft.shares = shares


@contextmanager
def _restocked(shelves: Iterable[Shelf]) -> Iterator[None]:
    """Temporarily let providers create machines."""
    dry = [(shelf, shelf.stockout, shelf.left) for shelf in shelves if shelf.stockout is not None]
    for shelf, *_ in dry:
        shelf.stockout, shelf.left = None, shelf.could_make
    yield
    for shelf, stockout, left in dry:
        shelf.stockout, shelf.left = stockout, left


def _on(draft: Draft, machine: str) -> list[Occupied]:
    return [
        each
        for running in draft.on(machine)
        for each in running.on(machine, is_guaranteed=not running.is_borrowed)
    ]


def _raised(quota: Quota, name: str) -> Quota:
    """Return `quota`, with the total as the ceiling of the project or group `name`."""
    group = quota.groups.get(name)
    if group is not None:
        return replace(quota, groups={**quota.groups, name: replace(group, ceiling=quota.totals)})
    project = replace(quota.project(name), ceiling=quota.totals)
    return replace(quota, projects={**quota.projects, name: project})
