"""
`Books`: usage, decayed and against budgets, as the service keeps it from commit to commit.

A project is charged for what it borrows, a group for what it holds beyond its share, and a user for
everything held. The charge is the dominant share times seconds, halved every `usage_half_life_s`.
Everything held counts in full against a budget.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from bastion.job import JobClass
from bastion.scheduler.charge import faded
from quota import NOTHING, Amounts, Quota
from quota.budget import Spending
from quota.ledger import borrowed

Holding = tuple[str, str, Amounts, JobClass]
"""(project, user, units, class) of a job that holds devices."""


class Books:
    """Usage so far, and its current rate of growth."""

    def __init__(self, quota: Quota) -> None:
        self._quota = quota
        self.decayed: dict[str, float] = {}
        self.decayed_by_user: dict[tuple[str, str], float] = {}
        self._spent: dict[str, Spending] = {}
        self._at = 0.0
        self._by_project: dict[str, float] = {}
        self._by_user: dict[tuple[str, str], float] = {}
        self._usage: dict[str, Amounts] = {}
        self._shares: dict[Amounts, float] = {}
        self._held: dict[str, Amounts] = {}
        """Of projects and groups with a budget."""

    @property
    def spent(self) -> Mapping[str, Mapping[str, float]]:
        """Project or group -> unit hours by type that count against its budget now."""
        return {
            name: budget.hours_spent(self._spent.get(name), self._at)
            for name, budget in self._quota.budgets.items()
        }

    def govern(self, quota: Quota, held: Iterable[Holding]) -> None:
        """Apply another quota file: what is held is charged by its totals from now on."""
        self._quota = quota
        for charges in (self._by_project, self._by_user, self._usage, self._shares, self._held):
            charges.clear()
        for project, user, units, job_class in held:
            self.hold(project, user, units, job_class)

    def advance(self, now: float) -> None:
        """Charge what was held since the last call."""
        passed_s = now - self._at
        if passed_s <= 0.0:
            return
        kept, counted_s = faded(passed_s, self._quota.scheduler.usage_half_life_s)
        self._spent = {
            name: budget.charged(
                self._spent.get(name), self._held.get(name, NOTHING), since=self._at, now=now
            )
            for name, budget in self._quota.budgets.items()
        }
        self._at = now
        for user, used in self.decayed_by_user.items():
            self.decayed_by_user[user] = used * kept + self._by_user.get(user, 0.0) * counted_s
        rates = self._rates()
        for project, used in self.decayed.items():
            self.decayed[project] = used * kept + rates.get(project, 0.0) * counted_s

    def _rates(self) -> dict[str, float]:
        if not self._quota.groups:
            return self._by_project
        groups = {
            group: self._share(borrowed(self._quota, self._usage, group))
            for group in self._quota.groups
        }
        return {**self._by_project, **groups}

    def hold(
        self, project: str, user: str, units: Amounts, job_class: JobClass, sign: int = 1
    ) -> None:
        """Start to charge for `units`, or with `sign` -1 stop."""
        share = sign * self._share(units)
        key = project, user
        self._by_user[key] = self._by_user.get(key, 0.0) + share
        self.decayed_by_user.setdefault(key, 0.0)
        if job_class is JobClass.BORROWED:
            self.reclass(project, units, sign)
        for node in self._quota.chain(project) if self._quota.budgets else ():
            self._held[node.name] = self._held.get(node.name, NOTHING) + sign * units
        if self._quota.groups:
            self._usage[project] = self._usage.get(project, NOTHING) + sign * units
            for group in self._quota.groups:
                self.decayed.setdefault(group, 0.0)

    def reclass(self, project: str, units: Amounts, sign: int) -> None:
        """Count what was own as borrowed, or with `sign` -1 the reverse."""
        self._by_project[project] = self._by_project.get(project, 0.0) + sign * self._share(units)
        self.decayed.setdefault(project, 0.0)

    def _share(self, units: Amounts) -> float:
        known = self._shares.get(units)
        if known is None:
            totals = self._quota.totals
            shares = [n / totals[kind] for kind, n in units.items() if totals[kind]]
            known = self._shares[units] = max(shares, default=0.0)
        return known
