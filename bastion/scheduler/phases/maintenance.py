"""
What must leave before maintenance: stopped in time, with its whole grace period.

Only gangs that resume are stopped: they continue elsewhere, or later. Gangs that cannot resume were
not started there since the window is known, and older ones are left to the admin.

This module must not know which gang gets the devices.
"""

from __future__ import annotations

from collections.abc import Iterator

from bastion.scheduler.preemption.stop_times import stop_now
from bastion.scheduler.reasons.reason import Vacated
from bastion.scheduler.state.draft import Draft
from bastion.scheduler.state.holders.running import Running
from quota.maintenance import Window


def vacate(draft: Draft) -> None:
    """Name the gangs that run into a window and must be stopped now; runs last in a cycle."""
    for name, at, window in stops(draft):
        if at <= draft.now:
            reason = Vacated(window=str(window), at=window.starts_at)
            stop_now(draft, draft.running[name], reason)


def stops(draft: Draft) -> Iterator[tuple[str, float, Window]]:
    """Yield the gangs to stop for maintenance, the time at which their grace fits, and why."""
    for running, window in running_into(draft):
        if running.shape.resumes:
            yield running.name, window.starts_at - running.grace_s, window


def running_into(draft: Draft) -> Iterator[tuple[Running, Window]]:
    """Yield the gangs that will not end by themselves before a window on their machines."""
    for running in draft.running.values() if draft.capacity.closures else ():
        window = None if running.is_leaving else _window_of(draft, running)
        if window is not None and draft.ends_at(running) > window.starts_at:
            yield running, window


def _window_of(draft: Draft, running: Running) -> Window | None:
    """Return the window that closes any of its machines first."""
    rooms = (draft.capacity.by_name.get(name) for name in sorted(running.footprint.masks))
    return draft.capacity.closures.first(room.machine for room in rooms if room is not None)
