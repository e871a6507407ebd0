"""The harness: one actor at a time, one run for each seed, crashes that no handler catches."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.simulation.baton import Baton, Crash, SimClock, SimulationError
from tests.simulation.fates import Choice, Fate
from tests.simulation.port import Port
from tests.simulation.scenario import stormy

REPOSITORY = Path(__file__).parents[2]


def replayed(seed: int, hash_seed: str) -> str:
    """What the command prints for a seed, in a process of its own."""
    command = [sys.executable, "-m", "tests.simulation", "--seed", str(seed)]
    env = {**os.environ, "PYTHONHASHSEED": hash_seed}
    done = subprocess.run(
        command, cwd=REPOSITORY, env=env, capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_one_seed_is_one_run() -> None:
    """Two runs of one seed have the same trace, step by step."""
    first, second = stormy(7), stormy(7)
    first.run()
    second.run()
    assert first.baton.trace == second.baton.trace
    assert len(first.baton.trace) > 1000


def test_two_seeds_are_two_runs() -> None:
    """Another seed gives another trace."""
    first, second = stormy(7), stormy(8)
    first.run()
    second.run()
    assert first.baton.trace != second.baton.trace


def test_hash_seeds_do_not_matter() -> None:
    """A run is the same in another process with another PYTHONHASHSEED."""
    assert replayed(7, "1") == replayed(7, "2")


def test_one_actor_runs_at_a_time() -> None:
    """What actors do between two steps is never interleaved."""
    baton = Baton(3)
    inside: list[str] = []

    def body(name: str) -> None:
        for _ in range(200):
            assert not inside
            inside.append(name)
            inside.remove(name)
            baton.step("work", name)

    for name in ("a", "b", "c"):
        baton.spawn(name, lambda name=name: body(name))  # type: ignore[misc]
    baton.run(until=lambda: True, limit_s=10.0)
    order = [step.actor for step in baton.trace]
    assert len(order) == 600
    assert order != sorted(order)


def test_time_passes_when_all_sleep() -> None:
    """Sleepers wake in the order of their times, without real waiting."""
    baton = Baton(0)
    woken: list[tuple[str, int]] = []

    def body(name: str, seconds: float) -> None:
        SimClock(baton).sleep(seconds)
        woken.append((name, round(baton.now)))

    baton.spawn("late", lambda: body("late", 9000.0))
    baton.spawn("soon", lambda: body("soon", 10.0))
    baton.run(until=lambda: len(woken) == 2, limit_s=10_000.0)
    assert woken == [("soon", 10), ("late", 9000)]


@pytest.mark.parametrize("fate", [Fate.CRASH_BEFORE, Fate.CRASH_AFTER])
def test_a_crash_passes_through_everything(fate: Fate) -> None:
    """No `except Exception` catches a crash; the call is done after, and only after."""
    baton = Baton(0)
    done: list[str] = []
    died: list[str] = []

    def body() -> None:
        port = Port(baton, Choice("a", "write", "", fate), OSError)
        try:
            port.call("write", "key", lambda: done.append("key"), writes=True)
        except Exception:  # noqa: BLE001 - the point of the test
            died.append("caught")
        except Crash:
            died.append("crashed")

    baton.spawn("a", body)
    baton.run(until=lambda: True, limit_s=10.0)
    assert died == ["crashed"]
    assert done == (["key"] if fate is Fate.CRASH_AFTER else [])


def test_a_late_write_lands_after_its_writer_has_given_up() -> None:
    """The outcome is reported as unknown, and the write is done later, whatever the caller does."""
    baton = Baton(0)
    done: list[float] = []
    told: list[float] = []

    def body() -> None:
        port = Port(baton, Choice("a", "write", "", Fate.LATE), OSError)
        try:
            port.call("write", "key", lambda: done.append(baton.now), writes=True)
        except OSError:
            told.append(baton.now)
        baton.sleep(1000.0)

    baton.spawn("a", body)
    baton.run(until=lambda: len(done) == 1 and bool(told), limit_s=2000.0)
    assert len(done) == 1


def test_an_error_of_an_actor_is_the_end_of_the_run() -> None:
    """An actor that dies of an exception fails the run, with the end of the trace."""
    baton = Baton(5)

    def body() -> None:
        baton.step("read", "something")
        raise ValueError("a bug")

    baton.spawn("a", body)
    with pytest.raises(SimulationError, match=r"(?s)seed 5 .*a bug.*something"):
        baton.run(until=lambda: False, limit_s=10.0)


def test_a_run_without_an_end_is_a_failure() -> None:
    """A run that has not ended when virtual time is up fails and says what is left."""
    baton = Baton(5)
    baton.left = lambda: "a job"

    def body() -> None:
        while True:
            baton.sleep(10.0)

    baton.spawn("a", body)
    with pytest.raises(SimulationError, match=r"everything ends.*a job"):
        baton.run(until=lambda: False, limit_s=100.0)
