"""
Running gangs that a question assumes gone, and what they leave in each project's quota.

Consecutive questions differ by a few gangs out of hundreds. So the last sums are kept, and only the
difference is counted.

This module must not know shares.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from itertools import chain
from typing import TypeVar

from bastion.scheduler.state.holders.running import Running
from quota.amounts import NOTHING, Amounts

_Key = TypeVar("_Key")

COUNTED_ONE_BY_ONE = 8
"""The most gangs counted one by one; more are added up project by project."""


class Leavers:
    """Some running gangs, added up; `gifts` as in the ledger, which changes them."""

    def __init__(self, gifts: Mapping[str, Mapping[str, Amounts]]) -> None:
        self._gifts = gifts
        self._members: set[Running] = set()
        self.held: dict[str, Amounts] = {}
        """Project -> what its gangs among them hold."""
        self.given: dict[tuple[str, str], Amounts] = {}
        """(project, where it meets the receivers) -> what its gangs among them give."""

    def __contains__(self, running: object) -> bool:
        return running in self._members

    def projects(self) -> Collection[str]:
        """Return the projects in which any of them leaves something."""
        return dict.fromkeys([*self.held, *(project for project, _ in self.given)])

    def distance(self, wanted: set[Running]) -> int:
        """Return how many gangs would have to be counted to become `wanted`."""
        return len(self._members) + len(wanted) - 2 * len(self._members & wanted)

    def be(self, wanted: set[Running]) -> None:
        """Become exactly these."""
        if not self._members and len(wanted) > COUNTED_ONE_BY_ONE:
            self._begin(wanted)
            return
        for running in self._members - wanted:
            self.count(running, sign=-1)
        for running in wanted - self._members:
            self.count(running, sign=1)

    def _begin(self, wanted: set[Running]) -> None:
        """Become these from nothing: all of a project are added up together."""
        self._members = set(wanted)
        held: dict[str, list[Amounts]] = {}
        given: dict[tuple[str, str], list[Amounts]] = {}
        for running in wanted:
            project = running.project
            held.setdefault(project, []).append(running.held)
            for inside, amounts in self._gifts.get(running.name, {}).items():
                given.setdefault((project, inside), []).append(amounts)
        self.held = {name: total for name, each in held.items() if (total := Amounts.sum(each))}
        self.given = {key: total for key, each in given.items() if (total := Amounts.sum(each))}

    def count(self, running: Running, *, sign: int) -> None:
        """Include `running`, or with `sign=-1` exclude it."""
        if sign > 0:
            self._members.add(running)
        else:
            self._members.discard(running)
        project = running.project
        _add(self.held, project, sign * running.held)
        for inside, amounts in self._gifts.get(running.name, {}).items():
            _add(self.given, (project, inside), sign * amounts)

    def gave(self, running: Running, amounts: Amounts, *, inside: str) -> None:
        """Record that `running`, included or not, gives `amounts` more to a start `inside`."""
        if running in self._members:
            _add(self.given, (running.project, inside), amounts)


def _add(sums: dict[_Key, Amounts], key: _Key, amounts: Amounts) -> None:
    total = sums.get(key, NOTHING) + amounts
    if total:
        sums[key] = total
    else:
        sums.pop(key, None)


MOST_KEPT = 4
"""Sums kept per depth of questions: this many kinds of questions alternate."""


class Questions:
    """The sums of the last questions; nested questions have their own."""

    def __init__(self, gifts: Mapping[str, Mapping[str, Amounts]]) -> None:
        self._gifts = gifts
        self._standing: list[Leavers] = []
        self._kept: list[list[Leavers]] = []
        self._depth = 0

    def begin(self, wanted: set[Running]) -> Leavers:
        """A question assumes all of `wanted` gone; return what they leave, the same until `end`."""
        if self._depth == len(self._kept):
            self._kept.append([])
        kept = self._kept[self._depth]
        self._depth += 1
        nearest = min(kept, key=lambda each: each.distance(wanted), default=None)
        is_far = nearest is None or 2 * nearest.distance(wanted) > len(wanted)
        if nearest is None or (is_far and len(kept) < MOST_KEPT):
            nearest = Leavers(self._gifts)
            kept.append(nearest)
        nearest.be(wanted)
        return nearest

    def standing(self, gone: Iterable[Running]) -> Leavers:
        """Return what `gone` leave, kept up to date by `gave`; more may be counted."""
        found = self.once(gone)
        self._standing.append(found)
        return found

    def once(self, gone: Iterable[Running]) -> Leavers:
        """Return what `gone`, which are few, leave now."""
        found = Leavers(self._gifts)
        found.be(set(gone))
        return found

    def end(self) -> None:
        """The innermost question is answered."""
        self._depth -= 1

    def gave(self, running: Running, amounts: Amounts, *, inside: str) -> None:
        """Record that `running` gives `amounts` more to a start `inside`."""
        for each in chain(self._standing, *self._kept):
            each.gave(running, amounts, inside=inside)
