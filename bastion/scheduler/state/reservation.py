"""
What is closed for one waiting gang until a time: a promise, or a planned start.

This module must not know how it was found.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from bastion.scheduler.placement.hold import Charge, Hold
from bastion.scheduler.queue.order import Gang, Line, Rank, place_of
from bastion.scheduler.state.holders.footprint import Located
from bastion.scheduler.state.holders.running import Running
from quota.amounts import Amounts


class Reserved:
    """Devices closed for one waiting gang until a time."""

    def __init__(
        self,
        *,
        gang: Gang,
        at: Located,
        until: float,
        is_promise: bool,
        victims: tuple[Running, ...] = (),
        waits: Sequence[Running] = (),
        rank: Rank = (0.0, 0.0),
    ) -> None:
        self.gang = gang
        self.at = at
        self.shape, self.placed, self.footprint = at
        self.until = until
        self.is_promise = is_promise
        """Otherwise a planned start, which a gang of another project within its share may break."""
        self.rank = rank
        """Of the gang of a planned start, in the order of its project."""
        self.victims = victims
        self.waits = tuple(waits)
        """What must have ended before it starts; `Reservations.wait_for` changes it."""
        self.holds_quota = is_promise
        """Whether its project already counts as holding it."""
        self.gifts: list[tuple[Running, Amounts]] = []
        """(gang that it waits for, what of its room in the quota that gang holds now)"""
        self.lent: Sequence[tuple[Running, Amounts]] = ()
        """The value of these when it was last lent."""
        self.paid: list[tuple[Running, int, Amounts]] = []
        """(gang that it waits for, tier, what of its charge that gang pays now)"""
        self.owed: Sequence[tuple[Running, int, Amounts]] = ()
        """What was paid when it was lent; the same gangs pay again, if they can."""
        self.name, self.project = gang[0].id, gang[0].project
        self.holders: list[Running] | None = None
        """The gangs that run where it lies, once known; see `holders_of`."""
        self.hold: Hold | None = None
        """None while it is open."""
        self.before: Hold | None = None
        """Its hold when it was last lent; None if what it waits for has changed since."""
        self.number = 0
        """Higher for later reservations."""
        self.is_dropped = False
        """Whether it is given up, or carried out: what was temporarily opened stays open."""

    @property
    def swapped(self) -> Amounts:
        """Return what gangs of its own project give it of their room in the quota."""
        own = (gift for running, gift in self.gifts if running.project == self.project)
        return Amounts.sum(own)

    def draw(self) -> Charge:
        """Let the gangs that it waits for pay what they can of its charge; return the rest."""
        net = []
        for tier, left in enumerate(self.placed.charge):
            for running, at, units in self.owed:
                if at == tier and running in self.waits:
                    left = left - self._pay(running, tier, left & units)
            for running in self.waits:
                if not left:
                    break
                left = left - self._pay(running, tier, left)
            net.append(left)
        return tuple(net)

    def _pay(self, running: Running, tier: int, wanted: Amounts) -> Amounts:
        """Let `running` pay what it can of `wanted`; return how much that is."""
        has = running.left[tier]
        units = (wanted & has).positive() if has else has
        if units:
            self.paid.append((running, tier, units))
            running.pay(tier, units)
        return units

    @property
    def drains(self) -> bool:
        """
        Whether it waits for jobs without a known end.

        It is then closed only while later gangs of its own project are considered.
        """
        return math.isinf(self.until)


class Reservations:
    """Promises and planned starts by project, and by what they wait for."""

    def __init__(self) -> None:
        self.weak: dict[str, Reserved] = {}
        """Promises that rest on priority alone, by the name of the gang."""
        self.shared: dict[str, Reserved] = {}
        """Those of earlier cycles that rest on the share of a group, by the name of the gang."""
        self._promises: dict[str, dict[str, Reserved]] = {}
        """By project, then by the name of the gang."""
        self._lowest: dict[str, int] = {}
        """Project -> the largest priority number of all promises to it so far."""
        self._plans: dict[str, dict[str, Reserved]] = {}
        """Planned starts, in the same way."""
        self._drains: dict[str, dict[str, Reserved]] = {}
        """Drains, in the same way."""
        self._waiting: dict[str, dict[int, Reserved]] = {}
        """Running gang -> what waits for it, by number."""
        self._made = 0

    def add(self, reserved: Reserved, *, is_firm: bool, is_shared: bool) -> None:
        """Add it: to `weak` unless it `is_firm`, to `shared` if it `is_shared`."""
        self._made += 1
        reserved.number = self._made
        kept = self._promises if reserved.is_promise else self._plans
        project, priority = reserved.project, reserved.shape.priority
        kept.setdefault(project, {})[reserved.name] = reserved
        if reserved.is_promise:
            self._lowest[project] = max(priority, self._lowest.get(project, priority))
        if not is_firm:
            self.weak[reserved.name] = reserved
        if is_shared:
            self.shared[reserved.name] = reserved
        self._link(reserved)

    def remove(self, reserved: Reserved) -> None:
        """Remove it."""
        self._unlink(reserved)
        kept = self._promises if reserved.is_promise else self._plans
        kept[reserved.project].pop(reserved.name, None)
        self.weak.pop(reserved.name, None)
        self.shared.pop(reserved.name, None)

    def drain(self, reserved: Reserved) -> None:
        """Keep it for a gang from those of its project that come after it."""
        self._drains.setdefault(reserved.project, {})[reserved.name] = reserved

    def end_drain(self, gang: Gang) -> None:
        """Drop the drain of `gang`, if there is one."""
        self._drains.get(gang[0].project, {}).pop(gang[0].id, None)

    def drained(self) -> list[Reserved]:
        """Return all drains."""
        return [each for found in self._drains.values() for each in found.values()]

    def drained_for(self, project: str) -> Iterable[Reserved]:
        """Return the drains for gangs of `project`."""
        return self._drains.get(project, {}).values()

    def kept_for(self, gang: Gang) -> Reserved | None:
        """Return what is planned or drained for `gang`."""
        project, name = gang[0].project, gang[0].id
        planned = self._plans.get(project, {}).get(name)
        return planned or self._drains.get(project, {}).get(name)

    def drained_before(self, line: Line) -> list[Reserved]:
        """Return drains of the types of `line` for earlier gangs of its project."""
        found = self._drains.get(line.project)
        return [each for each in found.values() if _is_behind(line, each)] if found else []

    def wait_for(self, reserved: Reserved, running: Sequence[Running]) -> None:
        """Replace the gangs that `reserved`, which is included, waits for."""
        self._unlink(reserved)
        reserved.waits = tuple(running)
        reserved.before = None
        self._link(reserved)

    def _link(self, reserved: Reserved) -> None:
        for running in reserved.waits:
            self._waiting.setdefault(running.name, {})[reserved.number] = reserved

    def _unlink(self, reserved: Reserved) -> None:
        for running in reserved.waits:
            self._waiting.get(running.name, {}).pop(reserved.number, None)

    def below(self, project: str, priority: int) -> list[Reserved]:
        """Return the promises of lower priority to gangs of `project`, in their order."""
        if priority >= self._lowest.get(project, priority):
            return []
        found = self._promises[project].values()
        return [each for each in found if each.shape.priority > priority]

    def ahead_of(self, line: Line) -> list[Reserved]:
        """Return the planned starts of its project that precede the head of `line`."""
        plans = self._plans.get(line.project)
        if not plans:
            return []
        gang, rank = line.head, line.first.rank
        return [plan for plan in plans.values() if plan.gang is not gang and plan.rank <= rank]

    def planned_for(self, project: str) -> Iterable[Reserved]:
        """Return the planned starts of gangs of `project`."""
        return self._plans.get(project, {}).values()

    def waiting_for(self, running: Iterable[str]) -> list[Reserved]:
        """Return what waits for any gang of these names: promises first, each in order."""
        found = {n: each for name in running for n, each in self._waiting.get(name, {}).items()}
        return [found[n] for n in sorted(found, key=lambda n: (not found[n].is_promise, n))]


def _is_behind(line: Line, drain: Reserved) -> bool:
    place = drain.rank, drain.gang[0].submitted_at, drain.name
    if place >= place_of(line.first):
        return False
    return not drain.shape.scarce.isdisjoint(line.shape.scarce)
