"""Which window closes a machine, and what may still start before it."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quota.maintenance import Window, closes_at, may_start, next_window

ALL = Window(starts_at=100.0, ends_at=200.0)
POOL = Window(starts_at=50.0, ends_at=60.0, pools=("pod",))
ONE = Window(starts_at=20.0, ends_at=80.0, machines=("host-1",), reason="new fans")


@pytest.mark.parametrize(
    ("pool", "machine", "now", "closes"),
    [
        ("x", "y", 0.0, 100.0),
        ("pod", "y", 0.0, 50.0),
        ("pod", "host-1", 0.0, 20.0),
        ("pod", "host-1", 79.9, 20.0),
        ("pod", "host-1", 80.0, 100.0),
        ("x", "y", 200.0, math.inf),
    ],
)
def test_a_machine_closes_with_the_first_window_that_has_not_ended(
    pool: str, machine: str, now: float, closes: float
) -> None:
    """Windows of its pool, of itself and of everything count, each until its end."""
    assert closes_at((ALL, POOL, ONE), now, pool=pool, machine=machine) == closes


def test_a_machine_is_named_by_its_host_too() -> None:
    """A host of your own keeps its name while machines on it come and go."""
    assert closes_at((ONE,), 0.0, pool="ssh", machine="ssh-17-0", host="host-1") == 20.0
    assert closes_at((ONE,), 0.0, pool="ssh", machine="ssh-17-0", host="host-2") == math.inf


def test_a_window_says_what_it_closes_when_and_why() -> None:
    """Users see one line, in UTC."""
    assert str(ALL) == "everything from 1970-01-01 00:01 to 1970-01-01 00:03 UTC"
    assert str(ONE) == "host-1 from 1970-01-01 00:00 to 1970-01-01 00:01 UTC: new fans"
    assert next_window((ALL, POOL), 55.0, pool="pod", machine="y") is POOL


@given(
    closes=st.floats(0, 1000),
    now=st.floats(0, 1000),
    limit=st.none() | st.floats(0, 1000),
    grace=st.floats(0, 100),
    resumes=st.booleans(),
    least=st.floats(0, 1000),
)
def test_what_starts_ends_before_the_window_or_resumes_after_it(
    closes: float, now: float, limit: float | None, grace: float, resumes: bool, least: float
) -> None:
    """A started job is dead in time, and one that is stopped for it has had its minimum run."""
    runs = may_start(
        closes, now, max_runtime_s=limit, grace_s=grace, resumes=resumes, min_runtime_s=least
    )
    left = closes - now - grace
    ends = limit is not None and limit <= left
    stopped_in_time = resumes and left > 0 and left >= least
    assert runs == (ends or stopped_in_time)
    if runs:
        assert now + min(left, math.inf if limit is None else limit) + grace <= closes + 1e-6


def test_nothing_starts_in_a_window_and_anything_where_none_comes() -> None:
    """A closed machine has no time left; one that never closes has unlimited time."""
    assert not may_start(5.0, 5.0, max_runtime_s=0.5, grace_s=0.0, resumes=True, min_runtime_s=0.0)
    assert may_start(
        math.inf, 5.0, max_runtime_s=None, grace_s=30.0, resumes=False, min_runtime_s=600.0
    )
