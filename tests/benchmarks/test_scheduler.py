"""The table of the scheduler's speed: its states are hard, and its search is reproducible."""

from __future__ import annotations

from dataclasses import replace

import pytest

from benchmarks.scheduler import Limit, limits
from benchmarks.shapes import SHAPES, Shape, calls, cycles_of, search, state_of

TINY = Shape(jobs=20, machines=3, projects=3)


@pytest.mark.parametrize("name", SHAPES)
def test_in_a_hard_state_some_hold_devices_and_others_wait(name: str) -> None:
    """It comes to rest, with a size that suits a test."""
    pools = min(SHAPES[name].pools, 2)
    shape = replace(SHAPES[name], jobs=40, machines=4, projects=4, pools=pools)
    holding = {job.is_admitted for job in state_of(shape).jobs.values()}
    assert holding == {False, True}
    assert len(cycles_of(shape, most=12).costs) < 12


def test_a_search_finds_the_same_again() -> None:
    """It counts calls, so the machine and its load do not matter."""
    search(1, TINY)  # one-time work of a process is not counted again
    assert search(1, TINY) == search(1, TINY)


def test_a_search_keeps_what_is_worse() -> None:
    """The result is never below the start; one-time work of a process is part of the first."""
    most, worst = search(1, TINY)
    assert max(cycles_of(worst, most=6, cost=calls).costs) == pytest.approx(most, rel=0.01)
    assert most >= max(cycles_of(TINY, most=6, cost=calls).costs)


@pytest.mark.parametrize(("took", "verdict"), [(1.0, "met"), (2.5, "MISSED")])
def test_a_row_says_whether_its_limit_is_kept(took: float, verdict: str) -> None:
    """The row also has the limit and the measured value."""
    row = Limit(what="a state", wanted=2.0, unit="ms", measure=lambda: took).row()
    assert (row["wanted"], row["measured"], row[""]) == (2.0, took, verdict)


def test_every_hard_state_is_in_the_table() -> None:
    """None is only measured on demand."""
    named = {limit.what for limit in limits(is_long=False, trace="")}
    assert set(SHAPES) <= named
