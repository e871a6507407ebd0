"""Budgets: calendar periods in UTC, and unit hours that add up whenever they are charged."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quota import Amounts, Budget
from quota.budget import PERIODS, Period

DAY_S = 86_400.0
TIMES = st.floats(0, 4e9)


def at(text: str) -> float:
    """Return a time in UTC, as seconds."""
    return datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp()


@pytest.mark.parametrize(
    ("period", "now", "began", "ends"),
    [
        ("day", "2026-11-30T13:57", "2026-11-30", "2026-12-01"),
        ("week", "2026-11-30T00:00", "2026-11-30", "2026-12-07"),
        ("week", "2026-11-29T23:59:59", "2026-11-23", "2026-11-30"),
        ("month", "2026-12-31T23:59", "2026-12-01", "2027-01-01"),
        ("month", "2028-02-29T12:00", "2028-02-01", "2028-03-01"),
        ("quarter", "2026-11-30T13:57", "2026-10-01", "2027-01-01"),
        ("quarter", "2026-06-30T13:57", "2026-04-01", "2026-07-01"),
        ("year", "2026-11-30T13:57", "2026-01-01", "2027-01-01"),
    ],
)
def test_periods_are_those_of_the_calendar(period: Period, now: str, began: str, ends: str) -> None:
    """They begin at midnight UTC, weeks on Monday."""
    assert Budget(hours={"gpu": 1}, period=period).period_at(at(now)) == (at(began), at(ends))


@given(now=TIMES, period=st.sampled_from(PERIODS))
def test_every_moment_is_in_one_period(now: float, period: Period) -> None:
    """The end of a period is the beginning of the next."""
    budget = Budget(hours={"gpu": 1}, period=period)
    began, ends = budget.period_at(now)
    assert began <= now < ends
    assert budget.period_at(ends)[0] == ends
    assert budget.period_at(began) == (began, ends)


@given(
    start=TIMES,
    gaps=st.lists(st.floats(0, 5 * DAY_S), min_size=1, max_size=8),
    period=st.sampled_from(PERIODS),
)
def test_the_moments_of_charging_change_nothing(
    start: float, gaps: list[float], period: Period
) -> None:
    """What is held from `start` on counts from there, or from the beginning of the period."""
    budget, held = Budget(hours={"gpu": 1}, period=period), Amounts({"gpu": 3, "cpu": 9})
    spending, now = None, start
    for gap in gaps:
        spending = budget.charged(spending, held, since=now, now=now + gap)
        now += gap
    began, _ = budget.period_at(now)
    assert spending is not None
    assert spending.since == began
    expected = 3 * (now - max(start, began)) / 3600
    assert spending.hours == {"gpu": pytest.approx(expected, abs=1e-3)}


def test_what_was_used_in_another_period_does_not_count() -> None:
    """Neither last month counts, nor the same time with another period."""
    monthly = Budget(hours={"gpu": 1})
    november = monthly.charged(
        None, Amounts({"gpu": 1}), since=at("2026-11-30"), now=at("2026-11-30T05:00")
    )
    assert monthly.hours_spent(november, at("2026-11-30T06:00")) == {"gpu": 5.0}
    assert monthly.hours_spent(november, at("2026-12-01T06:00")) == {}
    weekly = Budget(hours={"gpu": 1}, period="week")
    assert weekly.hours_spent(november, at("2026-11-30T06:00")) == {}
    assert monthly.hours_spent(None, 0.0) == {}


def test_a_budget_is_told_in_words() -> None:
    """The words are those of `bastion quota diff`."""
    assert str(Budget(hours={"v4": 9, "gpu": 5000}, period="week")) == (
        "5000 gpu hours + 9 v4 hours a week"
    )
    assert str(Budget(hours={"gpu": 1})) == "1 gpu hour a month"
    assert str(Budget()) == "none"
    assert not Budget()
