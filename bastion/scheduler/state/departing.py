"""
The departing: running gangs that are being stopped, or will be.

A cycle asks for them at every search, and names a few more victims between two searches. So they
are kept in order, with the sum of what they leave in the quota, and only what was named or spared
since the last question is counted.

This module must not know for which gang a victim was named.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from operator import attrgetter

from bastion.scheduler.placement.capacity import Capacity
from bastion.scheduler.state.decisions import Victims
from bastion.scheduler.state.holders.running import Running
from bastion.scheduler.state.holders.shares import Shares

_name = attrgetter("name")


class Departing(Collection[Running]):
    """
    Those already `leaving`, with the victims of a cycle; in the order of their names.

    If `firm`, without victims that may still be spared.
    """

    def __init__(self, leaving: Iterable[Running], shares: Shares, *, firm: bool = False) -> None:
        self._members = sorted(leaving, key=_name)
        self.shares, self._firm = shares, firm
        self.sums = shares.standing(self._members)
        """What they leave in the quota."""
        self.useful = set(self._members)
        """Those with which something might become free and open; see `leaves_nothing`."""
        self._seen = 0

    def __iter__(self) -> Iterator[Running]:
        return iter(self._members)

    def __len__(self) -> int:
        return len(self._members)

    def __contains__(self, running: object) -> bool:
        return running in self.sums

    def catch_up(self, victims: Victims, running: Mapping[str, Running]) -> None:
        """Apply what has been named and spared since."""
        for name in victims.changed[self._seen :]:
            self._be(running[name], is_in=victims.departs(running[name], firm=self._firm))
        self._seen = len(victims.changed)

    def _be(self, running: Running, *, is_in: bool) -> None:
        if running.is_leaving or is_in is (running in self):
            return
        if is_in:
            insort(self._members, running, key=_name)
            self.useful.add(running)
        else:
            del self._members[bisect_left(self._members, running.name, key=_name)]
            self.useful.discard(running)
        self.sums.count(running, sign=1 if is_in else -1)

    def may_leave_more(self, running: Iterable[Running]) -> None:
        """Something was opened on their machines, or paid back to them."""
        self.useful.update(each for each in running if each in self)

    def leaves_nothing(self, running: Running) -> None:
        """Nothing becomes free and open with it, until something is opened."""
        self.useful.discard(running)

    def leaving_devices(self, capacity: Capacity) -> Iterator[Running]:
        """Yield those that free open devices; gangs that leave nothing are not asked again."""
        for running in [*self.useful]:
            wanted = running.footprint
            if wanted.whole or wanted.opens(capacity):
                yield running
            elif running.is_spent:
                self.leaves_nothing(running)


class Departures:
    """The departing of one cycle, each kind computed on request."""

    def __init__(self, leaving: Mapping[str, Running], victims: Victims) -> None:
        self._leaving, self._victims = leaving, victims
        self._kinds: dict[bool | None, Departing] = {}

    def of(self, shares: Shares, running: Mapping[str, Running], *, firm: bool) -> Departing:
        """Return those with the victims; `firm`: without those that may still be spared."""
        found = self._of(shares, firm)
        found.catch_up(self._victims, running)
        return found

    def stopping(self, shares: Shares) -> Departing:
        """Return those without any victims."""
        return self._of(shares, None)

    def _of(self, shares: Shares, kind: bool | None) -> Departing:
        known = self._kinds.get(kind)
        if known is None or known.shares is not shares:
            known = Departing(self._leaving.values(), shares, firm=bool(kind))
            self._kinds[kind] = known
        return known

    def may_leave_more(self, running: Sequence[Running]) -> None:
        """Something was opened on their machines, or paid back to them."""
        for each in self._kinds.values():
            each.may_leave_more(running)
