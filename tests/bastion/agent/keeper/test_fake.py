"""What the fake keeper promises to a simulation beyond the contract."""

from __future__ import annotations

from math import inf

import pytest

from bastion.agent.keeper.fake import FakeHome, FakeKeeper, Script
from bastion.agent.keeper.port import (
    Exited,
    KeeperError,
    KeeperGoneError,
    OutputGrew,
    ProcessStart,
)
from bastion.clock import VirtualClock
from tests.rigs.keepers import attempt


def scripted(script: Script) -> tuple[FakeHome, VirtualClock, FakeKeeper]:
    """Return a keeper whose processes all follow one script."""
    home, clock = FakeHome(), VirtualClock()
    return home, clock, FakeKeeper(home, clock, lambda process: script)


def test_everything_due_happens_in_order() -> None:
    """A long leap of the clock reports every event in between, once and in order."""
    script = Script(output=((1.0, b"one"), (2.0, b"two")), runs_s=3.0)
    _, clock, keeper = scripted(script)
    keeper.start(attempt("a", "x"))
    assert keeper.due_at == clock.monotonic() + 1.0
    clock.advance(100.0)
    first, second, last = keeper.poll(0.0)
    assert isinstance(first, OutputGrew)
    assert isinstance(second, OutputGrew)
    assert (first.size_bytes, second.size_bytes) == (3, 6)
    assert isinstance(last, Exited)
    assert last.record.ended_at - last.record.started_at == 3.0
    assert keeper.due_at == inf


def test_poll_sleeps_no_longer_than_needed() -> None:
    """`poll` moves the clock to the next due event, not to its timeout."""
    _, clock, keeper = scripted(Script(runs_s=5.0))
    begun = clock.monotonic()
    keeper.start(attempt("a", "x"))
    (event,) = keeper.poll(100.0)
    assert isinstance(event, Exited)
    assert clock.monotonic() == begun + 5.0


def test_time_limits_hold_without_calls() -> None:
    """Limit, grace and kill have their exact times, however late the next call is."""
    _, clock, keeper = scripted(Script(runs_s=inf, on_notice=None))
    keeper.start(attempt("a", "x", max_runtime_s=50.0, grace_s=7.0))
    clock.advance(1000.0)
    (event,) = keeper.poll(0.0)
    assert isinstance(event, Exited)
    assert event.record.ended_at - event.record.started_at == 57.0
    assert event.record.timed_out


@pytest.mark.parametrize("leaves_strays", [True, False])
def test_a_crash_leaves_what_was_chosen(*, leaves_strays: bool) -> None:
    """Processes of a crashed keeper vanish, or run until the next life kills them."""
    home, clock, keeper = scripted(Script(runs_s=100.0))
    keeper.start(attempt("a", "x"))
    keeper.crash(leaves_strays=leaves_strays)
    with pytest.raises(KeeperGoneError):
        keeper.poll(0.0)
    clock.advance(50.0)
    assert home.living(clock.monotonic()) == (("a",) if leaves_strays else ())
    assert home.living(clock.monotonic() + 51.0) == ()
    FakeKeeper(home, clock, lambda process: Script(), life=2)
    assert home.living(clock.monotonic()) == ()
    assert home.executed == ["a"]


def test_lives_only_grow() -> None:
    """A life that is over cannot start again."""
    home, clock, _ = scripted(Script())
    with pytest.raises(KeeperError):
        FakeKeeper(home, clock, lambda process: Script(), life=1)


def test_terminate_waits_for_the_grace() -> None:
    """A terminated keeper is gone when everything has had its grace period."""
    home, clock, keeper = scripted(Script(runs_s=inf, on_notice=None))
    keeper.start(attempt("a", "x", grace_s=9.0))
    begun = clock.monotonic()
    keeper.terminate()
    assert clock.monotonic() == begun + 9.0
    assert home.living(clock.monotonic()) == ()
    with pytest.raises(KeeperGoneError):
        keeper.attempts()


def test_scripts_know_what_was_started() -> None:
    """A script is chosen by argv and environment of its process."""
    home, clock = FakeHome(), VirtualClock()

    def script(process: ProcessStart) -> Script:
        return Script(code=int(process.argv[-1]))

    keeper = FakeKeeper(home, clock, script)
    keeper.start(attempt("a", "0", "4"))
    (event,) = keeper.poll(0.0)
    assert isinstance(event, Exited)
    assert [process.code for process in event.record.processes] == [0, 4]
