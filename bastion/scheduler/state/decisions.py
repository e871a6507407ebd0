"""
Decisions: what starts and what is stopped.

This module must not know why.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from bastion.scheduler.placement.place import Placed
from bastion.scheduler.queue.order import Gang
from bastion.scheduler.queue.shape import Shape
from bastion.scheduler.reasons.reason import PreemptReason
from bastion.scheduler.state.holders.running import Running
from bastion.value import value


class Admitted(NamedTuple):
    """A gang that starts now."""

    gang: Gang
    shape: Shape
    placed: Placed
    within_share: bool
    """Whether it was within the share when it was admitted or promised its place."""


@value
class PlannedStop:
    """When a victim is stopped, and when it has ended at the latest."""

    by: str
    stop_at: float
    end_at: float
    reason: PreemptReason
    is_firm: bool = True
    """Otherwise it may still be spared: a gang within its share may break the promise behind it."""


class Victims(dict[str, PlannedStop]):
    """Victims by name."""

    def __init__(self) -> None:
        super().__init__()
        self.changed: list[str] = []
        """Victims that were named, renamed or spared, in that order."""

    @property
    def version(self) -> int:
        """Different after every change."""
        return len(self.changed)

    def departs(self, running: Running, *, firm: bool = False) -> bool:
        """Whether it is being stopped, or will be; `firm`: and may not be spared."""
        if running.is_leaving:
            return True
        stop = self.get(running.name)
        return stop is not None and (stop.is_firm or not firm)

    def __setitem__(self, name: str, stop: PlannedStop) -> None:
        self.changed.append(name)
        super().__setitem__(name, stop)

    def __delitem__(self, name: str) -> None:
        self.changed.append(name)
        super().__delitem__(name)

    def pop(self, name: str) -> PlannedStop:  # type: ignore[override]
        """Remove a named victim."""
        self.changed.append(name)
        return super().pop(name)

    def update(self, stops: Mapping[str, PlannedStop]) -> None:  # type: ignore[override]
        """Name all of `stops`."""
        self.changed.extend(stops)
        super().update(stops)

    def restore(self, stops: Mapping[str, PlannedStop | None]) -> None:
        """Undo what was named since: each gets its previous stop, or none."""
        for name, stop in stops.items():
            if stop is not None:
                self[name] = stop
            elif name in self:
                del self[name]
