"""The regular cleaning of the agent's home: folders of ended jobs, unused environments."""

from __future__ import annotations

from collections.abc import Collection
from functools import partial

from bastion.agent.host.context import Surroundings
from bastion.agent.settings import KEEP_ENVIRONMENT_S
from bastion.clock import Clock

_CLEAN_S = 600.0
"""Longest time between two cleanings of old work directories."""

_CLEAN_WHEN_FULL_S = 30.0
"""The same on a machine that can start nothing."""

_KEEP_WHEN_FULL_S = 3600.0
"""
Minimum time for which the folders of ended jobs stay while the disk has little room: their output
is in the bucket, and running jobs need the room.
"""

_CLEANINGS = 10
"""Minimum number of cleanings in the time that folders are kept."""

_LEAST_CLEAN_S = 1.0
"""Shortest time between two cleanings if folders are kept briefly: each looks at all folders."""


class Cleaning:
    """
    The cleaning of one agent's home.

    Args:
        around: The agent's parts.
        clock: Time on this machine.
    """

    def __init__(self, around: Surroundings, clock: Clock) -> None:
        self._home = around.home
        self._errands = around.errands
        self._say = around.say
        self._clock = clock
        self._keep_s = around.settings.keep_work_s
        self._every_s = max(_LEAST_CLEAN_S, min(_CLEAN_S, self._keep_s / _CLEANINGS))
        self._clean_at = clock.monotonic() + self._every_s
        self.is_due = False
        """Whether the next turn cleans, even if the time has not come."""
        self._spared: frozenset[str] = frozenset()

    def turn(self, now: float, spared: Collection[str], *, is_full: bool) -> None:
        """Clean when it is time, and more if the machine can start nothing."""
        left, self._spared = self._spared.difference(spared), frozenset(spared)
        if left and is_full:
            self.is_due = True  # their files may be what fills the disk
        is_time = now >= self._clean_at or self.is_due
        if not is_time or not self._errands.is_free("clean", now):
            return
        self.is_due = False
        self._clean_at = now + (_CLEAN_WHEN_FULL_S if is_full else self._every_s)
        today = self._clock.wall()
        work = partial(
            self._home.clean,
            ended=today - self._keep_s,
            needed=today - _KEEP_WHEN_FULL_S,
            taken=today - (_KEEP_WHEN_FULL_S if is_full else KEEP_ENVIRONMENT_S),
            spared=self._spared,
        )
        self._errands.send(
            "clean", work, lambda _: None, otherwise=self._not_cleaned, is_long=True, now=now
        )

    def _not_cleaned(self, error: Exception) -> None:
        self._say(f"old working directories cannot be cleaned: {error}")
