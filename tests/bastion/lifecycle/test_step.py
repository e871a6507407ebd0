"""The table of a job's life: which event may meet which phase, and the result."""

from __future__ import annotations

import re
import sys
from dataclasses import replace
from typing import get_args

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bastion.job import (
    ADMITTED,
    Claim,
    Dependency,
    End,
    Hold,
    JobClass,
    JobRecord,
    Outcome,
    OutcomeKind,
    Phase,
    StopReason,
    state_of,
)
from bastion.lifecycle import LifecycleError, kept_outcome, remark, step
from bastion.lifecycle import events as ev
from bastion.lifecycle.step import (
    GOOD_RUN_S,
    LOSS_BACKOFF_S,
    MAX_UNSTARTED_IN_ROW,
    TABLE,
)
from bastion.spec.launch import MAX_BACKOFF_S
from tests.rigs import job_records
from tests.rigs.job_records import EVENTS, RECORDS, T0, drained, ended, exited

PHASES_OF = {
    "Admitted": "queued",
    "Withdrawn": "starting",
    "Reclassed": "starting running stopping",
    "Instructed": "starting running",
    "StopInstructed": "starting running stopping",
    "HostClaimed": "starting running stopping draining",
    "HostPrepares": "starting running stopping draining",
    "HostStarted": "starting running stopping draining",
    "HostCheckpointed": "starting running stopping draining",
    "HostReported": "starting running stopping draining",
    "HostIdle": "starting running stopping draining",
    "HostUnkept": "starting running stopping draining",
    "HostHeld": "starting running stopping draining",
    "HostEnded": "starting running stopping draining",
    "HostDrained": "starting running stopping draining",
    "GoWanted": "starting running",
    "GoGiven": "starting running stopping",
    "GoRevoked": "starting running stopping",
    "StopWanted": "starting running",
    "CancelWanted": "queued starting running stopping draining done",
    "DrainEnded": "draining",
    "HeldBack": "queued",
    "Released": "queued running",
    "DependenciesEnded": "queued",
    "LimitInstructed": "starting running",
    "Updated": "queued starting running",
}
"""Event -> the phases in which it may happen."""

DIAGRAM = {
    (move[1], move[2], move[3])
    for move in re.finditer(
        r"^    (\w+) +──(\w+)─+> (\w+)",
        str(sys.modules["bastion.lifecycle.step"].__doc__),
        re.MULTILINE,
    )
}
"""The moves in the docstring's diagram of the table: phase, event, next phase."""

MOVES = {
    ("starting", "Withdrawn"): "queued",
    ("queued", "Admitted"): "starting",
    ("queued", "CancelWanted"): "done",
    ("starting", "HostStarted"): "running",
    ("starting", "HostEnded"): "draining",
    ("starting", "StopWanted"): "stopping",
    ("starting", "CancelWanted"): "stopping",
    ("running", "HostEnded"): "draining",
    ("running", "StopWanted"): "stopping",
    ("running", "CancelWanted"): "stopping",
    ("stopping", "HostEnded"): "draining",
    ("draining", "DrainEnded"): "done",
}
"""Every move from phase to phase that the example events make; all others stay where they are."""


def test_every_event_has_an_example() -> None:
    """The examples of these tests cover all events."""
    assert {type(event) for event in EVENTS} == set(get_args(ev.Event))


@pytest.mark.parametrize("phase", list(Phase))
@pytest.mark.parametrize("event", EVENTS, ids=lambda event: type(event).__name__)
def test_every_pair_of_phase_and_event_is_decided(phase: Phase, event: ev.Event) -> None:
    """An event moves a job as the table says, or is an error that names phase and event."""
    job = RECORDS[phase]()
    assert job.phase is phase
    name = type(event).__name__
    if phase.value not in PHASES_OF[name].split():
        with pytest.raises(LifecycleError, match=f"train-1 is {phase}: no {name} can happen"):
            step(job, event, T0)
        return
    after = step(job, event, T0 + 1)
    assert after.phase.value == MOVES.get((phase.value, name), phase.value)


def test_the_table_has_exactly_these_lines() -> None:
    """The table has exactly the pairs of `PHASES_OF`."""
    expected = {(phase, kind) for kind, phases in PHASES_OF.items() for phase in phases.split()}
    assert {(phase.value, kind.__name__) for phase, kind in TABLE} == expected


def test_the_diagram_draws_every_move() -> None:
    """The diagram has the moves of the examples and the two that depend on the job, no others."""
    requeued = drained(ended(job_records.stopping(), exited(143, notice="preempt")))
    assert requeued.phase is Phase.QUEUED
    waiting = replace(job_records.queued(), after=(Dependency(on="other-1"),))
    failed = Outcome(kind=OutcomeKind.FAILED, text="exited with code 1")
    never = ev.DependencyEnded(job="other-1", launch="other-1", outcome=failed, is_last=True)
    assert step(waiting, ev.DependenciesEnded(ends=(never,)), T0).phase is Phase.DONE
    moves = {(phase, event, after) for (phase, event), after in MOVES.items()}
    conditional = {("draining", "DrainEnded", "queued"), ("queued", "DependenciesEnded", "done")}
    assert moves | conditional == DIAGRAM


def test_an_attempt_counts_and_names_itself() -> None:
    """An admission makes the next attempt, with a barrier if there is more than one host."""
    job = job_records.starting()
    assert job.attempt is not None
    assert (job.attempt.number, job.attempts, job.attempt.go) == (1, 1, "unneeded")
    gang = job_records.starting(replicas=2)
    assert gang.attempt is not None
    assert gang.attempt.go == "awaited"


def test_admission_forgets_fail_when_busy() -> None:
    """A job that once started is never refused for being busy."""
    job = step(job_records.queued(fail_when_busy=True), job_records.admitted(), T0)
    assert not job.fail_when_busy


def test_usage_falls_replica_by_replica() -> None:
    """Devices of a replica count until it has ended, and in the admitted phases only."""
    job = job_records.running(replicas=3)
    assert len(job.alive) == 3
    job = ended(job, exited(0))
    assert len(job.alive) == 2
    job = step(job, ev.HostEnded(replica=2, host=0, end=exited(0)), T0)
    job = step(job, ev.HostEnded(replica=1, host=0, end=exited(0)), T0)
    assert job.phase is Phase.DRAINING
    assert not job.alive


def test_the_first_end_of_a_host_counts() -> None:
    """A second end of the same host, or a claim after it, changes nothing."""
    job = ended(job_records.running(replicas=2), exited(3))
    again = step(job, ev.HostEnded(replica=0, host=0, end=exited(0)), T0)
    claimed = step(again, ev.HostClaimed(replica=0, host=0, claim=Claim(machine="x", life=9)), T0)
    assert claimed == job


def test_the_last_numbers_count_even_if_the_end_is_read_first() -> None:
    """The end of a host can be read before the bell that reports its last numbers."""
    job = ended(job_records.running(), exited(0))
    assert job.phase is Phase.DRAINING
    job = drained(step(job, ev.HostReported(replica=0, host=0, numbers={"loss": 0.25}), T0))
    assert job.phase is Phase.DONE
    assert job.report == {"loss": 0.25}


def test_a_stop_that_came_too_late_changes_nothing() -> None:
    """A job that exits 0 before it sees the notice has succeeded."""
    job = drained(ended(job_records.stopping(), exited(0)))
    assert job.outcome is not None
    assert job.outcome.kind is OutcomeKind.SUCCEEDED


def test_preemption_resumes_without_limit() -> None:
    """A preempted job is immediately requeued, however often, and no failure is counted."""
    job = job_records.queued()
    for n in range(200):
        job = step(job, job_records.admitted(), T0)
        job = step(job, ev.HostStarted(replica=0, host=0), T0)
        job = step(job, ev.StopWanted(stop=job_records.stop()), T0)
        job = drained(ended(job, exited(143, notice="preempt")))
        assert job.phase is Phase.QUEUED
        assert (job.preemptions, job.failures, job.not_before) == (n + 1, 0, T0 + 2)
    assert len(job.past) == 50
    assert job.past[-1].number == 200


def test_a_job_without_resume_ends() -> None:
    """After a preemption its outcome is cancelled, and after the loss of its machine lost."""
    stopping = job_records.stopping(resume=False)
    job = drained(ended(stopping, exited(143, notice="preempt")))
    assert (job.phase, job.preemptions) == (Phase.DONE, 1)
    assert job.outcome is not None
    assert job.outcome.kind is OutcomeKind.CANCELLED
    assert job.outcome.text.startswith("preempted for ")
    assert job.outcome.text.endswith("; it does not resume")
    job = drained(ended(job_records.running(resume=False), End(kind="lost")))
    assert job.outcome is not None
    assert job.outcome.kind is OutcomeKind.LOST
    job = step(step(stopping, ev.CancelWanted(by="ada", grace_s=1), T0), ev.HostEnded(
        replica=0, host=0, end=exited(143, notice="preempt")), T0)  # fmt: skip
    job = drained(job)
    assert job.outcome is not None
    assert job.outcome.text == "cancelled by ada"
    assert (
        drained(ended(job_records.running(resume=False, retries=1), exited(1))).phase
        is Phase.QUEUED
    )


def test_backoff_doubles_up_to_an_hour() -> None:
    """The wait after a failure doubles, up to an hour, even after a thousand failures."""
    job = job_records.queued(retries=2000, retry_backoff_s=30.0)
    waits = []
    for _ in range(1100):
        job = drained(ended(step(job, job_records.admitted(), T0), exited(1)), T0)
        waits.append(job.not_before - T0)
    assert waits[:3] == [30.0, 60.0, 120.0]
    assert set(waits[7:]) == {MAX_BACKOFF_S}


@pytest.mark.parametrize(
    "end",
    [exited(1), End(kind="setup_failed"), exited(-9, out_of_memory=True)],
    ids=["failed", "setup_failed", "out_of_memory"],
)
def test_what_retries_count(end: End) -> None:
    """Failures, failed set-ups and killings by the memory limit use up retries."""
    job = drained(ended(job_records.running(retries=1), end))
    assert (job.phase, job.failures) == (Phase.QUEUED, 1)
    job = drained(ended(step(job, job_records.admitted(), T0), end))
    assert job.phase is Phase.DONE
    assert job.failures == 1


def test_a_time_limit_is_not_retried() -> None:
    """A job that reached its time limit has ended, even with retries left."""
    job = drained(ended(job_records.running(retries=5), exited(0, notice="time limit")))
    assert job.outcome is not None
    assert job.outcome.kind is OutcomeKind.TIMED_OUT


@pytest.mark.parametrize("is_started", [False, True])
def test_a_failed_start_by_a_machine_is_no_loss(is_started: bool) -> None:
    """A fault of its machine costs a job neither retry nor loss, whether reported as started."""
    job = job_records.queued()
    for times in range(1, MAX_UNSTARTED_IN_ROW + 1):
        job = step(job, job_records.admitted(), T0)
        assert job.attempt is not None
        if is_started:
            job = replace(job, phase=Phase.RUNNING, attempt=replace(job.attempt, started_at=T0))
        job = drained(ended(job, End(kind="lost", by_machine=True, detail="full")), T0)
        assert (job.failures, job.losses_in_row) == (0, 0)
        assert (job.phase is Phase.DONE) is (times == MAX_UNSTARTED_IN_ROW)
    assert job.outcome is not None
    assert job.outcome.text.startswith("machines could not start it 12 times in a row")


def test_what_no_machine_took_up_is_no_loss() -> None:
    """An attempt whose machine never existed, so that its start was revoked, costs no loss."""
    job = step(job_records.queued(), job_records.admitted(), T0)
    stop = job_records.stop(StopReason.HOST_LOST)
    job = step(job, ev.StopWanted(stop=stop), T0)
    job = drained(ended(job, End(kind="revoked")), T0)
    assert (job.phase, job.losses_in_row, job.unstarted_in_row) == (Phase.QUEUED, 0, 1)


def test_losses_in_a_row() -> None:
    """Losses start the next attempt with a growing wait; the third in a row ends the job."""
    job = job_records.queued()
    waits = []
    for _ in range(3):
        job = step(job, job_records.admitted(), T0)
        job = drained(ended(job, End(kind="lost")), T0)
        waits.append(job.not_before - T0)
    assert waits[:2] == [0.0, LOSS_BACKOFF_S]
    assert job.outcome is not None
    assert job.outcome.kind is OutcomeKind.LOST
    assert job.outcome.text.startswith("its machine was lost 3 times in a row; the last time: ")


@pytest.mark.parametrize("good", ["ran long", "checkpoint"])
def test_a_good_run_restarts_the_count_of_losses(good: str) -> None:
    """After ten minutes of running, or a checkpoint, the count of losses restarts."""
    job = job_records.queued()
    for _ in range(5):
        job = step(job, job_records.admitted(), T0)
        job = step(job, ev.HostStarted(replica=0, host=0), T0)
        end_at = T0 + GOOD_RUN_S
        if good == "checkpoint":
            job, end_at = step(job, ev.HostCheckpointed(replica=0, host=0), T0), T0 + 1
        job = drained(ended(job, End(kind="lost"), now=end_at), end_at)
        assert job.phase is Phase.QUEUED
    assert job.losses_in_row == 1


@pytest.mark.parametrize("end", [exited(1), exited(143, notice="preempt"), End(kind="lost")])
def test_a_cancelled_job_is_never_queued_again(end: End) -> None:
    """A cancel while an attempt ends makes it the last one, whatever its outcome."""
    job = ended(job_records.stopping(retries=5, stops_others=True), end)
    job = step(job, ev.CancelWanted(by="ann", grace_s=1.0), T0)
    job = drained(job)
    assert job.outcome is not None
    assert (job.outcome.kind, job.outcome.text) == (OutcomeKind.CANCELLED, "cancelled by ann")


def test_a_cancel_of_what_succeeded_changes_nothing() -> None:
    """A job that succeeded stays so, even if it is cancelled while its logs are shipped."""
    job = drained(step(job_records.draining(), ev.CancelWanted(by="ann", grace_s=1.0), T0))
    assert job.outcome is not None
    assert job.outcome.kind is OutcomeKind.SUCCEEDED


def test_the_first_cancel_is_named() -> None:
    """If several users cancel a job, the first one is in its record."""
    job = step(job_records.running(), ev.CancelWanted(by="ann", grace_s=5.0), T0)
    job = step(job, ev.CancelWanted(by="ben", grace_s=5.0), T0)
    assert job.cancelled_by == "ann"
    assert job.attempt is not None
    assert job.attempt.stop is not None
    assert (job.attempt.stop.reason, job.attempt.stop.deadline) == (StopReason.CANCEL, T0 + 5)


def test_a_job_stopped_for_its_sibling_is_requeued() -> None:
    """It is requeued, and nothing is counted."""
    job = job_records.stopping(StopReason.SIBLING)
    job = drained(ended(job, exited(143, notice="sibling failed")))
    assert job.phase is Phase.QUEUED
    assert (job.failures, job.preemptions, job.losses_in_row) == (0, 0, 0)
    assert job.last is not None
    assert job.last.text == "stopped because owner failed"


_REPLICAS = 2


def _events() -> st.SearchStrategy[ev.Event]:
    replica = st.integers(0, _REPLICAS - 1)
    ends = st.builds(
        lambda kind, code, notice: (
            exited(code, notice=notice) if kind == "exited" else End(kind=kind, notice=notice)
        ),
        st.sampled_from(["exited", "setup_failed", "lost", "revoked"]),
        st.sampled_from([0, 1, -9]),
        st.sampled_from(["", *(reason.value for reason in StopReason)]),
    )
    return st.one_of(
        st.just(job_records.admitted(_REPLICAS)),
        st.builds(
            ev.HostClaimed,
            replica=replica,
            host=st.just(0),
            claim=st.just(Claim(machine="m", life=1)),
        ),
        st.builds(ev.HostStarted, replica=replica, host=st.just(0)),
        st.builds(ev.HostCheckpointed, replica=replica, host=st.just(0)),
        st.builds(ev.HostEnded, replica=replica, host=st.just(0), end=ends),
        st.builds(ev.HostDrained, replica=replica, host=st.just(0)),
        st.builds(
            ev.StopWanted, stop=st.builds(job_records.stop, st.sampled_from(list(StopReason)))
        ),
        st.sampled_from(EVENTS[1:2] + EVENTS[9:12] + EVENTS[13:]),
    )


def _holds(job: JobRecord) -> None:
    """What must hold for every record, whatever happened to it."""
    has_attempt = job.phase in {*ADMITTED, Phase.DRAINING}
    assert (job.attempt is not None) == has_attempt
    assert (job.outcome is not None) == (job.phase is Phase.DONE)
    assert (job.ended_at is not None) == (job.phase is Phase.DONE)
    assert job.failures <= job.retries
    assert len(job.past) == min(50, job.attempts - has_attempt)
    if job.attempt is not None:
        every = [state.end for _, _, _, state in job.attempt.each_host()]
        assert all(every) == (job.phase is Phase.DRAINING)
        assert (job.phase is Phase.STOPPING) <= (job.attempt.stop is not None)
    if job.phase is Phase.QUEUED:
        assert not job.cancelled_by


@settings(max_examples=150)
@given(st.lists(_events(), max_size=60), st.integers(0, 3))
def test_whatever_happens_the_record_is_sound(events: list[ev.Event], retries: int) -> None:
    """Random events in any order are either refused or leave a valid record."""
    job = job_records.queued(replicas=_REPLICAS, retries=retries)
    now = T0
    was_done: JobRecord | None = None
    for event in events:
        now += 1.0
        before = job.phase
        try:
            job = step(job, event, now)
            if job.phase is not before:
                assert (before.value, type(event).__name__, job.phase.value) in DIAGRAM
        except LifecycleError:
            assert (job.phase, type(event)) not in TABLE
        _holds(job)
        if was_done is not None:
            assert job == was_done, "what is over never changes"
        was_done = job if job.phase is Phase.DONE else None


def test_reclassing_changes_the_class_alone() -> None:
    """A gang that is demoted keeps running as it was."""
    job = job_records.running()
    after = step(job, ev.Reclassed(job_class=JobClass.BORROWED), T0)
    assert after.attempt is not None
    assert after.attempt.job_class is JobClass.BORROWED
    assert after.phase is job.phase


HOLD = Hold(until=T0 + 100, folder="/work/code", end=exited(3, detail="no such file"))


def held(replicas: int = 1, **more: object) -> JobRecord:
    """Return a running job whose first host failed and is held."""
    event = ev.HostHeld(replica=0, host=0, hold=HOLD)
    return step(job_records.running(replicas=replicas, **more), event, T0 + 5)


def test_a_held_host_uses_its_devices_until_it_ends() -> None:
    """A held host counts as used, makes its job held, and fails its job when it ends."""
    job = held()
    assert (job.phase, state_of(job), len(job.alive)) == (Phase.RUNNING, "held", 1)
    job = ended(job, HOLD.end)
    assert not job.alive
    assert job.last is not None
    assert (job.last.kind, job.last.code) == (OutcomeKind.FAILED, 3)


def test_a_job_is_held_only_when_no_other_host_runs() -> None:
    """While another replica runs, a job with a held host is running."""
    job = held(replicas=2)
    assert state_of(job) == "running"
    other = ev.HostEnded(replica=1, host=0, end=exited(0))
    assert state_of(step(job, other, T0 + 6)) == "held"


def test_the_outcome_of_a_held_job_is_known_before_it_ends() -> None:
    """It is known once no replica runs; before that another replica may still change it."""
    job = held(replicas=2)
    assert kept_outcome(job) is None
    job = step(job, ev.HostEnded(replica=1, host=0, end=exited(0)), T0 + 6)
    told = kept_outcome(job)
    job = step(job, ev.HostEnded(replica=0, host=0, end=HOLD.end), T0 + 7)
    assert told == job.last
    assert told is not None
    assert (told.kind, told.code) == (OutcomeKind.FAILED, 3)


def test_a_release_ends_the_held_hosts() -> None:
    """A release of a running job marks its held hosts with the user's name, and no other host."""
    job = step(held(replicas=2), ev.Released(by="ann"), T0 + 6)
    assert [hold.released_by for _, _, hold in job.kept] == ["ann"]
    assert job.attempt is not None
    assert job.attempt.hosts[1][0].hold is None


def test_a_remark_names_what_users_must_know() -> None:
    """It says how a held host failed, its end, which host is silent, what a start waits for."""
    assert remark(held()) == (
        "exited with code 3: no such file; held for inspection until 1970-01-01 00:18:20 UTC"
        " on machine m0-0 in /work/code; bastion release train-1 ends it"
    )
    silent = step(
        job_records.running(), ev.HostIdle(replica=0, host=0, text="no output for 9 s"), T0
    )
    assert remark(silent) == "it shows no output for 9 s"
    assert remark(step(silent, ev.HostIdle(replica=0, host=0, text=""), T0)) == ""
    assert remark(job_records.running()) == ""
    unkept = ev.HostUnkept(replica=0, host=0, text="more than 9 files")
    assert remark(step(job_records.running(), unkept, T0)) == (
        "the output is not kept: more than 9 files"
    )
    some = ended(job_records.running(replicas=3), None, exited(3), exited(3))
    assert remark(some) == "replica 1 failed: exited with code 3, and 1 more failed"
    pulls = ev.HostPrepares(replica=1, host=0, text="pulling its image, 3 of 9 MiB so far")
    starting = job_records.starting(replicas=2)
    assert (
        remark(starting) == "waits for machine m0-0, which is not up yet; likewise 1 more machine"
    )
    starting = step(starting, ev.Instructed(replica=0, host=0, life=1), T0)
    assert remark(starting) == "waits for machine m1-0, which is not up yet"
    starting = step(starting, ev.Instructed(replica=1, host=0, life=1), T0)
    assert remark(starting) == ""
    starting = step(starting, pulls, T0)
    said = "pulling its image, 3 of 9 MiB so far"
    assert remark(starting) == f"replica 1: {said}"
    both = step(starting, replace(pulls, replica=0), T0)
    assert remark(both) == f"replica 0: {said}; likewise 1 more host"
    told = "exited with code 0; its last logs and output are being uploaded"
    assert remark(job_records.draining()) == told


def test_a_withdrawn_attempt_leaves_no_trace() -> None:
    """A job whose machines are not created is as it was in the queue."""
    queued = job_records.queued()
    starting = step(queued, job_records.admitted(), T0)
    withdrawn = step(starting, ev.Withdrawn(text="sold out"), T0 + 1)
    assert withdrawn == replace(queued, fail_when_busy=withdrawn.fail_when_busy)


def test_an_attempt_that_an_agent_may_know_is_not_withdrawn() -> None:
    """Once a host was instructed, only registers end the attempt."""
    starting = step(job_records.queued(), job_records.admitted(), T0)
    instructed = step(starting, ev.Instructed(replica=0, host=0, life=1), T0)
    assert step(instructed, ev.Withdrawn(text="sold out"), T0 + 1) == instructed


def test_a_job_that_starts_and_ends_in_one_commit_ran_as_long_as_its_machine_says() -> None:
    """Its machine reports the run time; it never starts before it was admitted."""
    short = job_records.running()
    assert short.attempt is not None
    admitted_at = short.attempt.admitted_at
    at = admitted_at + 9
    short = replace(short, attempt=replace(short.attempt, started_at=at))
    for ran_s, started_at in ((4.0, at - 4), (0.0, at), (60.0, admitted_at)):
        end = ev.HostEnded(replica=0, host=0, end=job_records.exited(0, ran_s=ran_s))
        over = step(short, end, at)
        assert over.attempt is not None
        assert over.attempt.started_at == started_at


def test_a_released_job_joins_the_queue_when_it_is_released() -> None:
    """Its wait counts from then; the release of a job that is not held changes nothing."""
    job = step(job_records.queued(), ev.HeldBack(by="ann"), T0 + 5)
    assert job.queued_at == T0
    released = step(job, ev.Released(by="ann"), T0 + 60)
    assert (released.held, released.queued_at, released.submitted_at) == ("", T0 + 60, T0)
    assert step(released, ev.Released(by="ann"), T0 + 90) == released
