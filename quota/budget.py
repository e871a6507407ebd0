"""
`Budget`: how many unit hours a project or a group may use per calendar period.

Periods begin at midnight UTC; weeks begin on Monday. Usage counts from the moment at which the
budget is written. Running jobs are not stopped: a spent budget only keeps jobs from starting. Times
are epoch seconds of one clock, the bastion's.

This module must not know jobs: usage is an argument.

Source: Slurm, association limit GrpTRESMins with PriorityUsageResetPeriod.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, get_args

from quota.amounts import Amounts
from quota.value import field, value

Period = Literal["day", "week", "month", "quarter", "year"]
PERIODS: tuple[Period, ...] = get_args(Period)

HOUR_S = 3600.0

_MONTHS: Mapping[Period, int] = {"month": 1, "quarter": 3, "year": 12}


def text_of_unit_hours(hours: Mapping[str, int]) -> str:
    """Format as `1 h100 hour + 50 v4 hours`."""
    each = (f"{number} {kind} hour{'s' * (number != 1)}" for kind, number in sorted(hours.items()))
    return " + ".join(each)


@value
class Spending:
    """What was used of a budget in one period."""

    since: float
    """When the period began."""
    hours: Mapping[str, float]
    """Unit hours by type, of the types that the budget limits."""


@value
class Budget:
    """Unit hours by type per period; false if nothing is limited."""

    hours: Mapping[str, int] = field(default_factory=dict)
    period: Period = "month"

    def __bool__(self) -> bool:
        return bool(self.hours)

    def __str__(self) -> str:
        """Format for people: `5000 h100 hours a month`."""
        return f"{text_of_unit_hours(self.hours)} a {self.period}" if self.hours else "none"

    def period_at(self, now: float) -> tuple[float, float]:
        """Return when the period of `now` began, and when the next one begins."""
        from datetime import UTC, datetime, timedelta

        day = datetime.fromtimestamp(now, UTC).replace(hour=0, minute=0, second=0, microsecond=0)
        if months := _MONTHS.get(self.period):
            first = day.replace(day=1, month=(day.month - 1) // months * months + 1)
            after = first.month + months
            end = first.replace(year=first.year + (after > 12), month=(after - 1) % 12 + 1)
        else:
            is_week = self.period == "week"
            first = day - timedelta(days=day.weekday() if is_week else 0)
            end = first + timedelta(days=7 if is_week else 1)
        return first.timestamp(), end.timestamp()

    def hours_spent(self, spending: Spending | None, now: float) -> Mapping[str, float]:
        """Return what of `spending` counts at `now`: nothing from another period."""
        if spending is None or spending.since != self.period_at(now)[0]:
            return {}
        return spending.hours

    def charged(
        self, spending: Spending | None, held: Amounts, *, since: float, now: float
    ) -> Spending:
        """
        Return what was used up to `now`.

        Args:
            spending: Up to `since`; None if the budget is new.
            held: From `since` to `now`, constant.
            since: Before `now`; time in an earlier period does not count.
            now: In the period of the result.
        """
        began, _ = self.period_at(now)
        before = self.hours_spent(spending, now)
        passed_h = max(0.0, now - max(since, began)) / HOUR_S
        return Spending(
            since=began,
            hours={kind: before.get(kind, 0.0) + held[kind] * passed_h for kind in self.hours},
        )


UNBOUNDED = Budget()
"""The default of the file."""
