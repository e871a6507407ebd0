"""What every keeper promises, tested against the real one and the fake."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from bastion.agent.attempt_key import command_key
from bastion.agent.keeper.port import (
    IDLE,
    LOST_CONTACT,
    SIBLING_FAILED,
    TIME_LIMIT,
    AttemptState,
    Ended,
    IdleRule,
    KeeperError,
    KeeperGoneError,
    MachineFaultError,
    ProcessStart,
    Running,
    WentIdle,
)
from bastion.errors import ConflictError, NotFoundError
from bastion.spec.names import job_id
from tests.rigs.keepers import (
    COMPLAINS,
    CRASHES,
    EXITS,
    FAILS,
    FAILS_ONCE_UP,
    HELLO,
    IGNORES,
    OBEYS_0,
    OBEYS_5,
    PAUSES,
    SAYS_BYE,
    SLEEPS,
    TICKS,
    TIDIES,
    FakeWorld,
    RealWorld,
    World,
    attempt,
    shell,
)

Make = Callable[..., World]

ROUNDING_S = 1e-6


@pytest.fixture(params=["real", "fake"])
def make(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Make]:
    """Make a world of either kind, with `permit_s` if given."""
    made: list[RealWorld] = []

    def world(*, permit_s: float = 0.0) -> World:
        if request.param == "fake":
            return FakeWorld(permit_s=permit_s)
        made.append(RealWorld(tmp_path, permit_s=permit_s))
        return made[0]

    yield world
    for each in made:
        each.close()


@pytest.fixture
def world(make: Make) -> World:
    """A world without a permit."""
    return make()


def stop(world: World, key: str, *, grace_s: float = 10.0, reason: str = "preempt") -> None:
    world.keeper.stop(key, reason=reason, by="alice", grace_s=grace_s)


def test_success_is_recorded(world: World) -> None:
    """An attempt whose processes exit 0 has a record without failure or notice."""
    world.keeper.start(attempt("p/j/a1-x/r0/h0", EXITS, EXITS))
    record = world.ended("p/j/a1-x/r0/h0")
    assert [process.code for process in record.processes] == [0, 0]
    assert record.first_failed is None
    assert record.notices == ()
    assert not (record.failed_by_itself or record.timed_out or record.lost)
    assert record.life == world.keeper.life == 1


def test_output_is_reported_and_kept(world: World) -> None:
    """The output of a process is in the spool, in order, and its size is in the record."""
    world.keeper.start(attempt("a", HELLO))
    record = world.ended("a")
    assert world.log("a") == b"hello\n"
    assert record.processes[0].log_size_bytes == 6
    assert world.keeper.read("a", 0, offset=4, size_bytes=1) == b"o"
    assert world.keeper.read("a", 0, offset=6, size_bytes=9) == b""


def test_growth_is_reported(world: World) -> None:
    """The first bytes of a running process are reported without a request."""
    world.keeper.start(attempt("a", SLEEPS))
    world.wrote("a", 3)
    (state,) = world.keeper.attempts()
    assert isinstance(state, Running)
    assert state.log_sizes_bytes == (3,)


def test_failure_is_recorded_with_its_last_lines(world: World) -> None:
    """A code other than 0 is the attempt's own failure, with the end of that process's log."""
    world.keeper.start(attempt("a", COMPLAINS))
    record = world.ended("a")
    assert record.processes[0].code == 7
    assert record.first_failed == 0
    assert record.last_lines == "why\n"
    assert record.failed_by_itself


def test_signals_are_recorded(world: World) -> None:
    """A process ended by a signal has that signal and no code."""
    world.keeper.start(attempt("a", CRASHES))
    process = world.ended("a").processes[0]
    assert (process.code, process.signal) == (None, 11)


def test_siblings_of_a_failure_are_stopped(world: World) -> None:
    """When one process fails the others get notice, and the failure stays the attempt's own."""
    world.keeper.start(attempt("a", SLEEPS, FAILS))
    record = world.ended("a")
    assert record.first_failed == 1
    assert record.failed_by_itself
    assert [(notice.reason, notice.by) for notice in record.notices] == [(SIBLING_FAILED, "p1")]
    assert record.processes[0].signal == 15


def test_setup_failure_stops_siblings(world: World) -> None:
    """A program that does not exist is a setup failure, not an error of `start`."""
    missing = ProcessStart(argv=("no-such-program",), env={}, cwd="/tmp")
    world.keeper.start(attempt("a", SLEEPS, missing, SLEEPS))
    record = world.ended("a")
    assert record.first_failed == 1
    assert "no such program" in record.processes[1].setup_failure
    assert record.processes[0].signal == 15
    assert record.processes[2].setup_failure == "not started: p1 could not be"


def test_a_start_that_cannot_be_recorded_is_a_fault_of_the_machine(world: World) -> None:
    """With a full disk, nothing is started, the error says so, and the key stays free."""
    world.keeper.start(attempt("before", EXITS))
    world.ended("before")
    with world.without_disk(), pytest.raises(MachineFaultError, match="no start can be recorded"):
        world.keeper.start(attempt("a", EXITS))
    assert world.keeper.attempts() == (Ended(record=world.record("before")),)
    world.keeper.start(attempt("a", EXITS))
    assert world.ended("a").processes[0].code == 0


def test_a_process_that_the_machine_has_no_room_for_is_its_fault(world: World) -> None:
    """The record has what the machine lacked; a program that does not exist is no such fault."""
    with world.without_files():
        world.keeper.start(attempt("a", EXITS, EXITS, hold_s=100.0))
        record = world.ended("a")
    assert record.machine_fault == "Too many open files"
    assert record.first_failed == 0
    assert record.processes[1].setup_failure == "not started: p0 could not be"
    assert record.hold_until is None
    missing = ProcessStart(argv=("no-such-program",), env={}, cwd="/tmp")
    world.keeper.start(attempt("b", missing))
    assert world.ended("b").machine_fault == ""


def test_what_a_full_disk_swallowed_is_counted(world: World) -> None:
    """Bytes that had no room are in no log; the record has their number, and those unreported."""
    world.keeper.start(attempt("a", SAYS_BYE))
    world.wrote("a")
    with world.without_disk():
        stop(world, "a")
        process = world.ended("a").processes[0]
    assert world.log("a") == b"up\n"
    assert (process.code, process.log_size_bytes) == (0, 3)
    assert (process.dropped_bytes, process.untold_bytes) == (4, 4)


def test_notice_is_delivered_and_recorded(world: World) -> None:
    """A stopped process ends in its own way within the grace period; the record has the reason."""
    world.keeper.start(attempt("a", OBEYS_5))
    world.wrote("a")
    stop(world, "a")
    record = world.ended("a")
    assert record.processes[0].code == 5
    assert [(notice.reason, notice.by) for notice in record.notices] == [("preempt", "alice")]
    assert record.notices[0].at <= record.processes[0].ended_at
    assert record.first_failed == 0
    assert not record.failed_by_itself


def test_obeying_with_code_0_is_no_failure(world: World) -> None:
    """A process that exits 0 after a notice has not failed; the notice is in the record."""
    world.keeper.start(attempt("a", OBEYS_0))
    world.wrote("a")
    stop(world, "a")
    record = world.ended("a")
    assert record.first_failed is None
    assert len(record.notices) == 1


def test_grace_ends_with_a_kill(world: World) -> None:
    """A process that ignores SIGTERM is killed when its grace period is over, not before."""
    world.keeper.start(attempt("a", IGNORES))
    world.wrote("a")
    stop(world, "a", grace_s=0.3)
    record = world.ended("a")
    assert record.processes[0].signal == 9
    assert record.ended_at - record.notices[0].at >= 0.3 - ROUNDING_S


def test_a_second_stop_can_only_hasten(world: World) -> None:
    """A further stop with less grace brings the kill nearer and is a separate notice."""
    world.keeper.start(attempt("a", IGNORES))
    world.wrote("a")
    stop(world, "a", grace_s=1000.0)
    stop(world, "a", grace_s=0.1, reason="cancel")
    stop(world, "a", grace_s=1000.0, reason="cancel")
    record = world.ended("a")
    assert [notice.reason for notice in record.notices] == ["preempt", "cancel"]


def test_stop_after_the_end_changes_nothing(world: World) -> None:
    """A stop that comes too late leaves the record as it is."""
    world.keeper.start(attempt("a", EXITS))
    before = world.ended("a")
    stop(world, "a")
    assert world.record("a") == before


def test_stop_of_an_unknown_key_is_an_error(world: World) -> None:
    """Stopping an unknown key is `NotFoundError`."""
    with pytest.raises(NotFoundError):
        stop(world, "unknown")


def test_time_limit_needs_no_agent(world: World) -> None:
    """At `max_runtime_s`, the keeper itself gives notice, and the record says so."""
    world.keeper.start(attempt("a", SLEEPS, max_runtime_s=0.2))
    record = world.ended("a")
    assert record.timed_out
    assert [notice.reason for notice in record.notices] == [TIME_LIMIT]
    assert 0.2 - ROUNDING_S <= record.ended_at - record.started_at < 5


def test_a_key_is_started_once(world: World) -> None:
    """A second start of a key is refused while it runs, and when it has ended."""
    world.keeper.start(attempt("a", EXITS))
    with pytest.raises(ConflictError):
        world.keeper.start(attempt("a", EXITS))
    world.ended("a")
    with pytest.raises(ConflictError):
        world.keeper.start(attempt("a", EXITS))


def test_the_longest_names_make_a_key(world: World) -> None:
    """Dots, like every character of a name, leave room for a command beside the longest host."""
    name = "a" + "." * 61 + "b"
    host = f"{name}/{job_id(name, '0' * 26)}.29999/a9999-{'f' * 16}/r29999/h9999"
    for key in (host, command_key(host, "0" * 26)):
        world.keeper.start(attempt(key, HELLO))
        assert world.ended(key).processes[0].code == 0
        assert world.log(key) == b"hello\n"
        world.keeper.forget(key)
    assert world.keeper.attempts() == ()


def test_many_are_started_at_once(world: World) -> None:
    """Each is started or refused on its own: a refused one does not keep others from running."""
    world.keeper.start(attempt("a", EXITS))
    starts = [attempt("a", EXITS), attempt("b", HELLO), attempt("c"), attempt("d", FAILS)]
    again, begun, malformed, failing = world.keeper.start_all(starts)
    assert isinstance(again, ConflictError)
    assert type(malformed) is KeeperError
    assert (begun, failing) == (None, None)
    assert world.ended("b").processes[0].code == 0
    assert world.ended("d").processes[0].code != 0
    assert world.keeper.start_all([]) == ()


def test_many_are_forgotten_at_once(world: World) -> None:
    """Each is forgotten or refused on its own."""
    world.keeper.start_all([attempt("a", EXITS), attempt("b", SLEEPS), attempt("c", EXITS)])
    world.ended("a")
    world.ended("c")
    gone, running, unknown, last = world.keeper.forget_all(["a", "b", "x", "c"])
    assert isinstance(running, ConflictError)
    assert (gone, unknown, last) == (None, None, None)
    (left,) = world.keeper.attempts()
    assert isinstance(left, Running)
    assert left.key == "b"


def test_a_later_life_refuses_it_too(world: World) -> None:
    """A key that an older life started can never be started again, ended or not."""
    world.keeper.start(attempt("a", EXITS))
    world.keeper.start(attempt("b", SLEEPS))
    ended = world.ended("a")
    world.wrote("b")
    world.crash()
    world.next_life()
    for key in ("a", "b"):
        with pytest.raises(ConflictError):
            world.keeper.start(attempt(key, EXITS))
    assert world.record("a") == ended


def test_attempts_of_a_dead_keeper_are_lost(world: World) -> None:
    """A new life has a record of every attempt, `lost` if the end is unknown, and its logs."""
    world.keeper.start(attempt("a", SLEEPS))
    world.wrote("a", 3)
    world.crash()
    with pytest.raises(KeeperGoneError):
        world.keeper.attempts()
    world.next_life()
    record = world.record("a")
    assert record.lost
    assert record.life == 1
    assert (record.processes[0].code, record.processes[0].signal) == (None, None)
    assert record.processes[0].log_size_bytes == 3
    assert world.log("a") == b"up\n"
    assert world.keeper.life == 2


def test_forget_deletes_record_and_log(world: World) -> None:
    """A forgotten attempt is in no list and has no log; forgetting twice is fine."""
    world.keeper.start(attempt("a", HELLO))
    world.ended("a")
    world.keeper.forget("a")
    world.keeper.forget("a")
    assert world.keeper.attempts() == ()
    with pytest.raises(NotFoundError):
        world.log("a")


def test_forget_refuses_a_running_attempt(world: World) -> None:
    """A running attempt cannot be forgotten."""
    world.keeper.start(attempt("a", SLEEPS))
    with pytest.raises(ConflictError):
        world.keeper.forget("a")


def test_states_are_listed_in_order(world: World) -> None:
    """`attempts` has running and ended ones, oldest first."""
    world.keeper.start(attempt("z", EXITS))
    world.ended("z")
    world.keeper.start(attempt("a", SLEEPS, EXITS))
    world.wrote("a")
    ended, running = world.keeper.attempts()
    assert isinstance(ended, Ended)
    assert isinstance(running, Running)
    assert (ended.record.key, running.key) == ("z", "a")
    assert running.pids[0] is not None


def test_permit_that_runs_out_stops_everything(make: Make) -> None:
    """Without renewal, everything is stopped when the permit expires, and the life ends."""
    world = make(permit_s=0.5)
    world.keeper.start(attempt("a", SLEEPS))
    record = world.ended("a")
    assert [notice.reason for notice in record.notices] == [LOST_CONTACT]
    with pytest.raises(KeeperError):
        world.keeper.permit(valid_for_s=100.0, sent_at=world.clock.monotonic())
    with pytest.raises(KeeperError):
        world.keeper.start(attempt("b", EXITS))
    with pytest.raises(KeeperGoneError):
        while True:
            world.keeper.poll(0.05)
    world.next_life()
    (state,) = world.keeper.attempts()
    assert isinstance(state, Ended)
    assert state.record.key == "a"


def test_a_renewed_permit_is_extended(make: Make) -> None:
    """A renewal counts from when it was sent, and never shortens the time."""
    world = make(permit_s=0.4)
    begun = world.clock.monotonic()
    world.keeper.start(attempt("a", SLEEPS))
    world.keeper.permit(valid_for_s=1.0, sent_at=begun)
    world.keeper.permit(valid_for_s=0.1, sent_at=begun)
    record = world.ended("a")
    assert 1.0 - ROUNDING_S <= record.notices[0].at - begun < 5.0


def test_permit_of_the_future_is_refused(make: Make) -> None:
    """A permit counted from a time that has not come is an error."""
    world = make(permit_s=1.0)
    with pytest.raises(KeeperError):
        world.keeper.permit(valid_for_s=1.0, sent_at=world.clock.monotonic() + 100.0)


def test_malformed_start_is_refused_and_leaves_the_key_free(world: World) -> None:
    """An attempt without processes is refused, and its key may still be used."""
    with pytest.raises(KeeperError):
        world.keeper.start(attempt("a"))
    world.keeper.start(attempt("a", EXITS))
    world.ended("a")


def test_poll_returns_in_time(world: World) -> None:
    """`poll` without events returns empty at its timeout."""
    begun = world.clock.monotonic()
    assert world.keeper.poll(0.05) == ()
    assert 0.05 - ROUNDING_S <= world.clock.monotonic() - begun < 2.0


def test_secrets_are_kept_in_memory_until_forgotten(world: World) -> None:
    """Every client gets the values to mask; a record of such an attempt has no output."""
    world.keeper.start(replace(attempt("a", SLEEPS), secrets=("s3cr3t-token",)))
    world.keeper.start(replace(attempt("b", COMPLAINS), secrets=("s3cr3t-token",)))
    world.keeper.start(attempt("c", SLEEPS))
    assert world.ended("b").last_lines == ""
    found = {_key(state): state.secrets for state in world.keeper.attempts()}
    assert found == {"a": ("s3cr3t-token",), "b": ("s3cr3t-token",), "c": ()}


def test_secrets_die_with_their_keeper(world: World) -> None:
    """The next life knows that there were secrets, but not the values."""
    world.keeper.start(replace(attempt("a", SLEEPS), secrets=("s3cr3t-token",)))
    world.keeper.start(attempt("b", SLEEPS))
    world.crash()
    world.next_life()
    assert {_key(state): state.secrets for state in world.keeper.attempts()} == {"a": None, "b": ()}


def _key(state: AttemptState) -> str:
    return state.record.key if isinstance(state, Ended) else state.key


SILENCE = IdleRule(timeout_s=0.3, signs=("output",))


def test_silence_ends_an_attempt(world: World) -> None:
    """An attempt without a sign of life for its timeout is stopped, and its log says so."""
    world.keeper.start(attempt("a", SLEEPS, idle=SILENCE))
    record = world.ended("a")
    assert [notice.reason for notice in record.notices] == [IDLE]
    assert "no output for 0.3 s" in record.idle
    assert record.ended_at - record.started_at >= 0.3 - ROUNDING_S
    log = world.log("a")
    assert log.startswith(b"up\n")
    assert b"no output for 0.3 s" in log
    assert record.processes[0].log_size_bytes == len(log)
    assert not record.failed_by_itself


def test_output_is_a_sign_of_life(world: World) -> None:
    """A process that prints repeatedly is not hung."""
    world.keeper.start(attempt("a", TICKS, idle=IdleRule(timeout_s=5.0, signs=("output",))))
    world.wrote("a", 40)
    stop(world, "a")
    record = world.ended("a")
    assert record.idle == ""
    assert [notice.reason for notice in record.notices] == ["preempt"]


def test_silence_may_only_be_reported(world: World) -> None:
    """If silence must not end the attempt, it is reported once, and so is the next sign of life."""
    rule = IdleRule(timeout_s=0.2, ends=False, signs=("output",))
    world.keeper.start(attempt("a", PAUSES, idle=rule))

    def told() -> list[str]:
        return [event.text for event in world.seen if isinstance(event, WentIdle)]

    world.until(lambda: len(told()) >= 3, "it is not told that it goes on")
    assert "no output for 0.2 s" in told()[0]
    assert told()[1] == ""
    assert told()[2] == told()[0]
    (state,) = world.keeper.attempts()
    assert isinstance(state, Running)
    assert state.idle == told()[0]
    assert state.notices == ()


@pytest.mark.parametrize("line", [EXITS, FAILS, CRASHES])
def test_a_clean_up_runs_however_it_ended(world: World, line: str) -> None:
    """`on_end` runs once, in the same log; its failure is recorded apart from the attempt's."""
    world.keeper.start(attempt("a", line, on_end=TIDIES, on_end_s=60.0))
    record = world.ended("a")
    assert world.log("a").count(b"tidy\n") == 1
    assert record.on_end == "exited with code 4"
    assert (record.first_failed is None) == (line == EXITS)
    assert record.last_lines == ""


def test_where_the_log_is_that_of_the_clean_up_is_recorded(world: World) -> None:
    """It continues in the log of the first process; without one, nothing is recorded."""
    world.keeper.start(attempt("a", COMPLAINS, on_end=TIDIES, on_end_s=60.0))
    record = world.ended("a")
    assert record.cleaned_from == len(b"why\n")
    assert record.last_lines == "why\n"
    world.keeper.start(attempt("b", COMPLAINS))
    assert world.ended("b").cleaned_from is None


def test_a_clean_up_runs_after_a_stop_within_its_grace(world: World) -> None:
    """A process that ignores SIGTERM is killed at half of the grace; the clean-up has the rest."""
    world.keeper.start(attempt("a", IGNORES, on_end=IGNORES, on_end_s=60.0))
    world.wrote("a")
    stop(world, "a", grace_s=2.0)
    record = world.ended("a")
    told_at = record.notices[0].at
    assert record.processes[0].ended_at - told_at >= 1.0 - ROUNDING_S
    assert record.ended_at - told_at >= 2.0 - ROUNDING_S
    assert [notice.reason for notice in record.notices] == ["preempt"]
    assert world.log("a").count(b"up\n") == 2


def test_a_clean_up_is_bounded(world: World) -> None:
    """A clean-up that exceeds its time is killed, and the attempt's outcome does not change."""
    world.keeper.start(attempt("a", EXITS, on_end=SLEEPS, on_end_s=0.2))
    record = world.ended("a")
    assert record.ended_at - record.processes[0].ended_at >= 0.2 - ROUNDING_S
    assert record.processes[0].code == 0


def test_a_clean_up_that_died_with_its_keeper_is_not_run_again(world: World) -> None:
    """The next life records that, and runs nothing."""
    world.keeper.start(attempt("a", EXITS, on_end=SLEEPS, on_end_s=600.0))
    world.until(lambda: b"up\n" in world.log("a"), "no clean-up began")
    world.crash()
    world.next_life()
    record = world.record("a")
    assert record.lost
    assert record.on_end == "died with its keeper"
    assert world.log("a").count(b"up\n") == 1


def test_a_failed_attempt_is_held_as_requested(world: World) -> None:
    """After a failure or a hang, the record has the time until which devices are held."""
    world.keeper.start(attempt("a", FAILS, hold_s=50.0))
    record = world.ended("a")
    assert record.hold_until == pytest.approx(record.ended_at + 50.0)
    world.keeper.start(attempt("b", SLEEPS, hold_s=50.0, idle=SILENCE))
    assert world.ended("b").hold_until is not None
    world.keeper.start(attempt("c", FAILS, hold_s=50.0, max_runtime_s=20.0))
    short = world.ended("c")
    assert short.hold_until == pytest.approx(short.started_at + 20.0)


def test_a_stopped_or_successful_attempt_is_not_held(world: World, tmp_path: Path) -> None:
    """Devices are not held after a success or a stop."""
    world.keeper.start(attempt("a", EXITS, hold_s=50.0))
    assert world.ended("a").hold_until is None
    up = str(tmp_path / "up")
    os.mkfifo(up)
    processes = shell(FAILS_ONCE_UP, UP=up), shell(IGNORES, UP=up)
    world.keeper.start(attempt("b", *processes, hold_s=50.0))
    world.wrote("b", process=1)
    stop(world, "b", grace_s=0.0)
    assert world.ended("b").hold_until is None


def test_a_limit_can_be_changed_while_it_runs(world: World) -> None:
    """A new limit counts from the start, and immediately stops what exceeds it."""
    world.keeper.start(attempt("a", SLEEPS, max_runtime_s=1000.0))
    world.wrote("a")
    world.keeper.limit("a", max_runtime_s=0.2)
    record = world.ended("a")
    assert record.timed_out
    world.keeper.limit("a", max_runtime_s=1.0)
    assert world.record("a") == record
    with pytest.raises(NotFoundError):
        world.keeper.limit("unknown", max_runtime_s=1.0)
