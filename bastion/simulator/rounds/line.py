"""
`Line`: the active jobs of a simulation in rounds, in the order of its policy.

It is carried from round to round: a waiting job keeps its place as long as its rank cannot change,
so a round does not cost more as the backlog grows. Ties of rank go by submission, then by ID.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Sequence

from bastion.scheduler.policies.order import OrderPolicy
from bastion.simulator.engine.jobs.life import Life, Place
from bastion.simulator.engine.state import State

_FEW = 32
"""Up to this many are inserted one by one; more are sorted in."""


class Line:
    """
    Waiting jobs, kept in order, and running jobs, ranked on demand.

    Args:
        order: The scheduler's.
        is_steady: The rank of a job does not change while it waits.
    """

    def __init__(self, order: OrderPolicy, *, is_steady: bool) -> None:
        self._order = order
        self._is_steady = is_steady
        self.is_lasting = order.is_lasting
        """Whether ranks never change."""
        self._waiting: list[Place] = []
        self._fresh: dict[Life, None] = {}
        """Jobs that wait and have no place yet."""

    def add(self, life: Life) -> None:
        """Add a job that waits from now on."""
        life.place = None
        self._fresh[life] = None

    def remove(self, life: Life) -> None:
        """Remove a job that no longer waits."""
        if life.place is None:
            del self._fresh[life]
        else:
            del self._waiting[bisect_left(self._waiting, life.place)]

    def ranked(self, state: State, now: float) -> tuple[Sequence[Place], Sequence[Place]]:
        """Return the running and the waiting jobs, each in order; do not change them."""
        rank = self._order.rank(state.snapshot(now), now)
        waiting = self._waiting
        if not self._is_steady:
            self._fresh |= dict.fromkeys(place[3] for place in waiting)
            waiting.clear()
        places = []
        for life in self._fresh:
            life.place = rank(life.gang), life.job.submit_s, life.record.id, life
            places.append(life.place)
        self._fresh.clear()
        if len(places) > _FEW:
            waiting += places
            waiting.sort()
        else:
            for place in places:
                insort(waiting, place)
        running = [
            (rank(life.gang), life.job.submit_s, life.record.id, life) for life in state.holding
        ]
        running.sort()
        return running, waiting
