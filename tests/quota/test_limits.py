"""What one user may request and have at the same time."""

from __future__ import annotations

import pytest

from quota import Amounts, Limits
from quota.limits import UNLIMITED, Exceeded

LIMITS = Limits(max_units={"h100": 8, "v4": 0}, max_running=3)


def test_nothing_is_limited_where_nothing_is_said() -> None:
    """No limit is exceeded, and a job without a limit is endless."""
    assert UNLIMITED.exceeded(Amounts({"h100": 99}), Amounts({"h100": 99}), running=99) is None
    assert UNLIMITED.runtime_s(None) is None
    assert not UNLIMITED.is_too_long(1e9)
    assert not UNLIMITED
    assert LIMITS


@pytest.mark.parametrize(
    ("default", "longest", "asked", "holds"),
    [
        (None, None, 5.0, 5.0),
        (10.0, None, None, 10.0),
        (10.0, 20.0, None, 10.0),
        (None, 20.0, None, 20.0),
        (10.0, 20.0, 15.0, 15.0),
    ],
)
def test_a_job_that_names_no_run_time_gets_the_default(
    default: float | None, longest: float | None, asked: float | None, holds: float
) -> None:
    """It is the default, or else the longest allowed; a job's own value is left alone."""
    limits = Limits(default_max_runtime_s=default, max_max_runtime_s=longest)
    assert limits.runtime_s(asked) == holds


def test_the_longest_run_time_is_allowed() -> None:
    """Only more is too long."""
    limits = Limits(max_max_runtime_s=20.0)
    assert not limits.is_too_long(20.0)
    assert limits.is_too_long(20.1)


@pytest.mark.parametrize(
    ("held", "asked", "running", "jobs", "expected"),
    [
        ({"h100": 4}, {"h100": 4}, 2, 1, None),
        ({"h100": 4}, {"h100": 5}, 0, 1, Exceeded(limit="h100", most=8, held=4, asked=5)),
        ({"h100": 9}, {"cpu": 5}, 0, 1, None),
        ({}, {"v4": 1}, 0, 1, Exceeded(limit="v4", most=0, held=0, asked=1)),
        ({}, {}, 2, 2, Exceeded(limit="jobs", most=3, held=2, asked=2)),
        ({"h100": 8}, {"h100": 1}, 3, 1, Exceeded(limit="h100", most=8, held=8, asked=1)),
    ],
)
def test_the_first_limit_that_would_break_is_told(
    held: dict[str, int], asked: dict[str, int], running: int, jobs: int, expected: object
) -> None:
    """Types come first, only requested ones; then the number of jobs."""
    found = LIMITS.exceeded(Amounts(held), Amounts(asked), running=running, jobs=jobs)
    assert found == expected
