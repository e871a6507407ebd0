"""
Closures: from when maintenance closes machines, and what may still start there.

A window applies to existing machines and to those that a pool would create. A start needs `spare_s`
more time than the gang runs, because a gang with a promise starts only after its victims are gone.

This module must not know what is free.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

from bastion.machine import Machine
from bastion.scheduler.queue.shape import Part
from quota.maintenance import Window, closes_at, may_start, next_window
from quota.tree import Quota


class Closures:
    """The windows of one quota file, at one time."""

    def __init__(self, quota: Quota, now: float) -> None:
        options = quota.scheduler
        self._windows = tuple(each for each in quota.maintenance if each.ends_at > now)
        self._now = now
        self._min_runtime_s = options.min_runtime_s
        self.spare_s = options.min_runtime_s + options.max_grace_s
        """How long before a window a gang that starts now must have ended."""

    def __bool__(self) -> bool:
        return bool(self._windows)

    def of(self, machine: Machine) -> Window | None:
        """Return the window that closes `machine` now, or next."""
        return next_window(
            self._windows,
            self._now,
            pool=machine.pool,
            machine=machine.name,
            host=machine.hostname,
        )

    def lets_start(self, part: Part, machine: Machine, *, spare: bool = True) -> bool:
        """Whether a replica of `part` may start on `machine`, with time to `spare`."""
        window = self.of(machine)
        return self._lets_start(part, math.inf if window is None else window.starts_at, spare=spare)

    def lets_make(self, part: Part, pool: str) -> bool:
        """Whether a replica of `part` may start on a machine that `pool` creates now."""
        closes = closes_at(self._windows, self._now, pool=pool, machine="")
        return self._lets_start(part, closes, spare=True)

    def _lets_start(self, part: Part, closes: float, *, spare: bool) -> bool:
        return may_start(
            closes,
            self._now + (self.spare_s if spare else 0.0),
            max_runtime_s=part.max_runtime_s,
            grace_s=part.grace_s,
            resumes=part.resumes,
            min_runtime_s=self._min_runtime_s,
        )

    def first(self, machines: Iterable[Machine]) -> Window | None:
        """Return the window that closes any of `machines` first."""
        found = (window for machine in machines if (window := self.of(machine)) is not None)
        return min(found, key=lambda each: (each.starts_at, each.ends_at), default=None)

    def times(self) -> Iterable[float]:
        """Yield when windows begin and end."""
        for window in self._windows:
            yield from (window.starts_at, window.ends_at)
