"""
`Ends`: when running gangs end, as far as that does not depend on what needs their place.

Searches for planned starts follow each other and differ only in the gang. So running gangs are
divided once: with a known end, borrowing, or without any known end.

This module must not know what needs their place.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from itertools import chain
from operator import itemgetter

from bastion.scheduler.state.holders.footprint import Footprint
from bastion.scheduler.state.holders.running import Running

End = tuple[float, str, Running]
"""(when, its name, what ends)"""


class Ends:
    """
    What runs and what starts now, by its end.

    Args:
        running: What runs.
        starting: What starts in this cycle.
        ends_at: Returns when one of them has ended at the latest.
        on: Returns what runs on a machine.
        version: Of the victims that this knows.
    """

    def __init__(
        self,
        running: Sequence[Running],
        starting: Sequence[Running],
        ends_at: Callable[[Running], float],
        on: Callable[[str], Sequence[Running]],
        version: int,
    ) -> None:
        self._starting, self._version, self._on = starting, version, on
        self.known: list[End] = []
        """Those whose end is known, the first to end first, without borrowers."""
        self.borrowed: list[Running] = []
        """Borrowers: their end depends on the gang that needs them."""
        self.endless: dict[str, list[Running]] = {}
        """Project -> those without a known end, without borrowers."""
        for each in (*running, *starting):
            if each.is_borrowed:
                self.borrowed.append(each)
            elif (end := ends_at(each)) < math.inf:
                self.known.append((end, each.name, each))
            else:
                self.endless.setdefault(each.project, []).append(each)
        self.known.sort(key=itemgetter(0, 1))

    @cached_property
    def bounded(self) -> list[Running]:
        """Return all that may end at some time, for any gang that may stop it."""
        return [*(running for *_, running in self.known), *self.borrowed]

    @cached_property
    def footprint(self) -> Footprint:
        """Return what these take, all together."""
        return Footprint(chain.from_iterable(running.places for running in self.bounded))

    def by(self, until: float, project: str) -> Iterator[Running]:
        """Return all that may have ended at `until`, some of them only for a gang of `project`."""
        known = self.known[: bisect_right(self.known, until, key=itemgetter(0))]
        endless = self.endless.get(project, ())
        return chain((running for *_, running in known), self.borrowed, endless)

    def stands(self, starting: Sequence[Running], version: int) -> bool:
        """Whether nothing was started, named or spared since."""
        return version == self._version and starting == self._starting

    def crowd(self, running: Running) -> tuple[int, str, str]:
        """A sort key: gangs on machines with few others go first, since these drain soonest."""
        machines = running.footprint.masks
        most = max((len(self._on(machine)) for machine in machines), default=0)
        return most, min(machines, default=""), running.name
