"""The names of requests."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

from hypothesis import given
from hypothesis import strategies as st

from bastion.client.change.request_id import KEY_WINDOW_S, KEY_WINDOWS, Ulids, keyed
from bastion.records.keys.ulid import is_ulid, seconds_of
from bastion.spec import job_id

DAY_S = 86_400


@given(st.lists(st.floats(min_value=0, max_value=4e9), min_size=2, max_size=30))
def test_ulids_of_one_process_only_grow(walls: list[float]) -> None:
    """Whatever the clock does, each ULID of a source is higher than the last."""
    times = iter(walls)
    ulids = Ulids(lambda: next(times))
    made = [ulids.new() for _ in walls]
    assert made == sorted(set(made))
    assert all(map(is_ulid, made))


@given(st.floats(min_value=0, max_value=4e9))
def test_a_ulid_says_when_it_was_made(wall: float) -> None:
    """The time in a ULID is that of the clock, to the millisecond."""
    assert abs(seconds_of(Ulids(lambda: wall).new()) - wall) <= 0.001


def test_threads_never_get_the_same() -> None:
    """One client in many threads gives every request a different name."""
    ulids = Ulids(lambda: 1.0, lambda bits: 0)
    with ThreadPoolExecutor(8) as pool:
        made = list(pool.map(lambda _: ulids.new(), range(2000)))
    assert len(set(made)) == 2000


def test_a_full_millisecond_moves_on_to_the_next() -> None:
    """If there is no larger random part, the time part grows instead of wrapping."""
    ulids = Ulids(lambda: 1.0, lambda bits: (1 << bits) - 1)
    first, second = ulids.new(), ulids.new()
    assert second > first
    assert second.endswith("0" * 16)


# Whole seconds: a sum of floats may be rounded up beyond the thirty days.
@given(st.integers(min_value=10**9, max_value=4 * 10**9), st.integers(0, 30 * DAY_S))
def test_a_key_stands_for_the_same_name_for_thirty_days(now: int, later_s: int) -> None:
    """The first name of a key is among its possible names for up to thirty days."""
    first = next(keyed("ada", "blue", "nightly", turn=0, now=now))
    assert first in list(keyed("ada", "blue", "nightly", turn=0, now=now + later_s))


@given(st.floats(min_value=1e9, max_value=4e9))
def test_a_keyed_name_is_recent_enough_for_the_bastion(now: float) -> None:
    """The time in a new keyed name differs by at most the three days of its window."""
    newest = next(keyed("ada", "blue", "nightly", turn=0, now=now))
    assert 0 <= now - seconds_of(newest) + 0.001 <= KEY_WINDOW_S + 0.002


def test_a_key_gives_the_same_job_ids_in_every_window() -> None:
    """Names of one key differ only in time, so the jobs have the same ids."""
    names = list(keyed("ada", "blue", "nightly", turn=0, now=1.7e9))
    assert len(names) == KEY_WINDOWS == len(set(names))
    assert len({job_id("train", name) for name in names}) == 1


def test_a_name_depends_on_user_project_key_and_turn() -> None:
    """Another user, project, key or turn gives another name."""
    names = {
        next(keyed(user, project, key, turn=turn, now=1.7e9))
        for user in ("ada", "lin")
        for project in ("blue", "green")
        for key in ("a", "b")
        for turn in (0, 1)
    }
    assert len(names) == 16
