"""
Spent budgets: which gangs may not start until the next period of the calendar.

A gang is blocked if it asks for a type of which its project, or a group around it, has no unit
hours left. A gang with a promise still starts, because others may have been stopped for it. So does
a lost job that rejoins its gang. Running jobs are not stopped.

This module must not know capacity.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping

from bastion.scheduler.queue.order import Line
from bastion.scheduler.queue.shape import Shape
from bastion.scheduler.reasons.next_wall import NextWall
from bastion.scheduler.reasons.reason import BudgetSpent
from quota.amounts import NOTHING, Amounts
from quota.budget import HOUR_S
from quota.tree import Quota

_ROUNDING_S = 1.0
"""Usage is a sum of many parts: at the exact end of a budget it may be slightly less."""

Spent = Mapping[str, Mapping[str, float]]
"""Project or group -> unit hours by type that count against its budget now."""


def spent_budgets(quota: Quota, spent: Spent) -> frozenset[tuple[str, str]]:
    """Return (project or group, type) of which nothing is left in this period."""
    return frozenset(
        (name, kind)
        for name, budget in quota.budgets.items()
        for kind, most in budget.hours.items()
        if spent.get(name, {}).get(kind, 0.0) >= most
    )


def carried(old: Quota, new: Quota, spent: Spent, now: float) -> Spent:
    """Return what of `spent` under `old` counts under `new`: nothing if the periods differ."""
    return {
        name: hours
        for name, hours in spent.items()
        if name in new.budgets
        and new.budgets[name].period_at(now)[0] == old.budgets[name].period_at(now)[0]
    }


class Budgets:
    """The budgets that are spent at `now`; false if none is."""

    def __init__(self, quota: Quota, spent: Spent, now: float) -> None:
        self._quota, self._used, self._now = quota, spent, now
        self._spent: dict[str, list[str]] = {}
        for name, kind in sorted(spent_budgets(quota, spent)):
            self._spent.setdefault(name, []).append(kind)
        self._renewed_at = {name: quota.budgets[name].period_at(now)[1] for name in self._spent}

    def __bool__(self) -> bool:
        return bool(self._spent)

    def renewals(self) -> Iterator[float]:
        """Return when the spent budgets are renewed, in seconds of the store's clock."""
        return iter(self._renewed_at.values())

    def ends(self, held: Mapping[str, Amounts]) -> Iterator[float]:
        """Yield when each budget will be used up, if projects keep holding `held`."""
        rates: dict[str, Amounts] = {}
        for project, units in held.items() if self._quota.budgets else ():
            for node in self._quota.chain(project):
                rates[node.name] = rates.get(node.name, NOTHING) + units
        for name, budget in self._quota.budgets.items():
            used, rate = self._used.get(name, {}), rates.get(name, NOTHING)
            for kind, most in budget.hours.items():
                left = most - used.get(kind, 0.0)
                if left > 0 and rate[kind]:
                    yield self._now + left * HOUR_S / rate[kind] + _ROUNDING_S

    def over(self, project: str, asked: Amounts) -> BudgetSpent | None:
        """
        Return why a gang of `project` that is charged `asked` may not start, or None.

        Of several budgets it names the one that is renewed last; the others are the next wall.
        """
        found: dict[str, Amounts] = {}
        for node in self._quota.chain(project):
            kinds = [kind for kind in self._spent.get(node.name, ()) if asked[kind]]
            if kinds:
                found[node.name] = Amounts({kind: node.budget.hours[kind] for kind in kinds})
        if not found:
            return None
        last = max(found, key=self._renewed_at.__getitem__)
        others = tuple(name for name in found if name != last)
        return BudgetSpent(
            of=last,
            hours=found[last],
            period=self._quota.budgets[last].period,
            until=self._renewed_at[last],
            then=NextWall(kind="BudgetSpent", names=others) if others else None,
        )

    def kept_out(
        self, lines: Iterable[Line], asks: Callable[[Shape], Amounts]
    ) -> Mapping[Line, BudgetSpent]:
        """Return the lines of which no gang may start, except promised or started ones, and why."""
        known: dict[tuple[str, int], BudgetSpent | None] = {}
        found: dict[Line, BudgetSpent] = {}
        for line in lines:
            key = line.project, line.shape.form
            if key not in known:
                known[key] = self.over(line.project, asks(line.shape))
            if (reason := known[key]) is not None:
                found[line] = reason
        return found
