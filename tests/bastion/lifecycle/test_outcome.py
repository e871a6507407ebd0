"""How an attempt ends: every row of the table, and the words for users."""

from __future__ import annotations

from dataclasses import replace

import pytest

from bastion.job import End, JobRecord, OutcomeKind, Phase, StopReason
from bastion.lifecycle import events as ev
from bastion.lifecycle import step
from bastion.lifecycle.outcome import exit_text, failed_first
from tests.rigs.job_records import T0, drained, ended, exited, running, stop, stopping

LOST = End(kind="lost", detail="machine m0-0 is gone")
REVOKED = End(kind="revoked")


def outcome(job: JobRecord, *ends: End) -> tuple[OutcomeKind, str]:
    """Return kind and text of the attempt of `job` after its replicas ended with `ends`."""
    last = ended(job, *ends).last
    assert last is not None
    return last.kind, last.text


ASKED = [None, *StopReason]


def _job(asked: StopReason | None, replicas: int = 1) -> JobRecord:
    return running(replicas=replicas) if asked is None else stopping(asked, replicas=replicas)


@pytest.mark.parametrize("asked", ASKED)
def test_all_exited_0_before_any_notice(asked: StopReason | None) -> None:
    """All exited 0 and no notice was delivered: succeeded, whatever stop was requested."""
    assert outcome(_job(asked), exited(0, 0)) == (OutcomeKind.SUCCEEDED, "exited with code 0")
    assert outcome(_job(asked, 2), exited(0), exited(0)) == (
        OutcomeKind.SUCCEEDED,
        "both replicas exited with code 0",
    )


@pytest.mark.parametrize("code", [0, 1, 143, -15, -9])
def test_after_a_preemption_notice(code: int) -> None:
    """Exited with any code after a preemption notice: preempted, with the preemptor."""
    job = stopping(StopReason.PREEMPT)
    assert outcome(job, exited(code, notice="preempt")) == (
        OutcomeKind.PREEMPTED,
        "preempted for owner",
    )


def test_after_a_notice_to_grow() -> None:
    """It is requeued with any code; the text says how many replicas fit."""
    wanted = replace(stop(StopReason.RESIZE), by="8 in place of 4")
    job = step(running(), ev.StopWanted(stop=wanted), T0)
    assert outcome(job, exited(143, notice="resize")) == (
        OutcomeKind.STOPPED,
        "stopped to grow: 8 in place of 4 replicas",
    )
    requeued = drained(ended(job, exited(143, notice="resize")))
    assert (requeued.phase, requeued.preemptions, requeued.failures) == (Phase.QUEUED, 0, 0)


def test_finished_after_a_preemption_notice() -> None:
    """A process that wrote the *finished* mark has succeeded, whatever its code."""
    end = exited(143, notice="preempt", finished=True)
    assert outcome(stopping(), end)[0] is OutcomeKind.SUCCEEDED
    assert outcome(stopping(replicas=2), end, exited(0))[0] is OutcomeKind.SUCCEEDED


def test_one_finished_replica_is_not_all() -> None:
    """A gang is preempted while one of its stopped replicas has not finished."""
    finished, not_yet = (exited(143, notice="preempt", finished=mark) for mark in (True, False))
    assert outcome(stopping(replicas=2), finished, not_yet)[0] is OutcomeKind.PREEMPTED


@pytest.mark.parametrize(
    ("other", "text"),
    [
        (
            exited(143, notice="finished"),
            "its first replica succeeded, and the others were stopped",
        ),
        (exited(1), "its first replica succeeded"),
        (LOST, "its first replica succeeded"),
        (REVOKED, "its first replica succeeded"),
    ],
)
def test_where_the_first_replica_decides_its_success_is_all(other: End, text: str) -> None:
    """Whatever happens to the workers after its success, the job has succeeded."""
    job = running(replicas=2, stops_others=True, first_decides=True)
    assert outcome(job, exited(0), other) == (OutcomeKind.SUCCEEDED, text)
    without = outcome(replace(job, first_decides=False), exited(0), other)
    assert without[0] is not OutcomeKind.SUCCEEDED


def test_a_first_replica_that_was_stopped_has_not_succeeded() -> None:
    """Code 0 after a notice is no success: its work was cut off, unless it says otherwise."""
    job = stopping(replicas=2, first_decides=True)
    told = {"notice": "preempt"}
    assert outcome(job, exited(0, **told), exited(0))[0] is OutcomeKind.PREEMPTED
    done = exited(0, finished=True, **told)
    assert outcome(job, done, exited(0, **told))[0] is OutcomeKind.SUCCEEDED


def test_a_worker_fails_the_job_unless_the_others_continue() -> None:
    """With `continue`, a head that outlives its worker decides alone, even if it fails."""
    job = running(replicas=2, first_decides=True)
    stopped = exited(143, notice="cancel")
    assert outcome(replace(job, stops_others=True), stopped, exited(3)) == (
        OutcomeKind.FAILED,
        "replica 1: exited with code 3",
    )
    assert outcome(job, exited(4), exited(3)) == (
        OutcomeKind.FAILED,
        "replica 0: exited with code 4; replica 1 failed: exited with code 3",
    )
    ended_so = outcome(replace(job, cancelled_by="ben"), stopped, exited(3))
    assert ended_so[0] is OutcomeKind.CANCELLED


def test_a_worker_that_failed_is_named_where_it_did_not_decide() -> None:
    """With `continue` it is not the reason of the outcome, but it must be reported."""
    job = running(replicas=4, first_decides=True)
    for r, end in ((3, exited(2)), (1, exited(-9))):
        job = step(job, ev.HostEnded(replica=r, host=0, end=end), T0 + 1)
    job = step(job, ev.HostEnded(replica=0, host=0, end=exited(0)), T0 + 2)
    # A worker that ends because its head has ended does not fail on its own.
    job = step(job, ev.HostEnded(replica=2, host=0, end=exited(1)), T0 + 3)
    assert job.last is not None
    assert (job.last.kind, job.last.text) == (
        OutcomeKind.SUCCEEDED,
        "its first replica succeeded; replica 1 failed: was killed by SIGKILL, and 1 more failed",
    )
    stopped = replace(running(replicas=2, first_decides=True), cancelled_by="ben")
    assert outcome(stopped, exited(143, notice="cancel"), exited(3)) == (
        OutcomeKind.CANCELLED,
        "cancelled by ben; replica 1 failed: exited with code 3",
    )


@pytest.mark.parametrize("end", [exited(0, notice="cancel"), exited(1, notice="cancel"), REVOKED])
def test_after_a_cancel_notice(end: End) -> None:
    """Exited after a cancel notice, or never started: cancelled, with the user."""
    assert outcome(stopping(StopReason.CANCEL), end) == (
        OutcomeKind.CANCELLED,
        "cancelled by owner",
    )


def test_a_cancel_overtakes_a_preemption() -> None:
    """A job that is cancelled while it is being preempted is cancelled."""
    job = stopping(StopReason.PREEMPT, cancelled_by="ben")
    assert outcome(job, exited(1, notice="preempt")) == (
        OutcomeKind.CANCELLED,
        "cancelled by ben",
    )


@pytest.mark.parametrize("asked", [None, StopReason.TIME_LIMIT, StopReason.PREEMPT])
def test_after_the_time_limits_notice(asked: StopReason | None) -> None:
    """Exited after the time limit's notice: timed out, even if only the keeper gave it."""
    assert outcome(_job(asked), exited(0, notice="time limit")) == (
        OutcomeKind.TIMED_OUT,
        "reached its max_runtime of 1m",
    )


@pytest.mark.parametrize("asked", ASKED)
def test_a_failure_stays_so(asked: StopReason | None) -> None:
    """A host that failed before any notice has failed, whatever stop is requested later."""
    end = End(kind="exited", codes=(0, 7), first_failed=1, detail="a\nValueError: x\n\n")
    assert outcome(_job(asked), end) == (
        OutcomeKind.FAILED,
        "process 1 exited with code 7: ValueError: x",
    )


def test_siblings_are_never_the_reason() -> None:
    """The replica that failed first is named, not those that were stopped because of it."""
    job = running(replicas=3, stops_others=True)
    job = step(job, ev.HostEnded(replica=2, host=0, end=exited(-11)), 1.0)
    sibling = exited(143, notice="sibling failed")
    late = exited(5)
    job = step(job, ev.HostEnded(replica=0, host=0, end=late), 2.0)
    job = step(job, ev.HostEnded(replica=1, host=0, end=sibling), 2.0)
    assert job.last is not None
    assert (job.last.kind, job.last.replica, job.last.code) == (OutcomeKind.FAILED, 2, -11)
    assert job.last.text == "replica 2: was killed by SIGSEGV"


@pytest.mark.parametrize("asked", ASKED)
def test_killed_by_the_memory_limit(asked: StopReason | None) -> None:
    """Killed by the memory limit: out of memory."""
    end = End(kind="exited", codes=(-9,), first_failed=0, out_of_memory=True)
    assert outcome(_job(asked), end) == (OutcomeKind.OUT_OF_MEMORY, "killed by its memory limit")


def test_set_up_failed() -> None:
    """Set-up, bundle, image or secret failed: what, with the last line of its output."""
    end = End(kind="setup_failed", detail="Collecting torch\nERROR: No matching distribution\n")
    assert outcome(running(), end) == (
        OutcomeKind.SETUP_FAILED,
        "set-up failed: ERROR: No matching distribution",
    )
    assert outcome(running(), End(kind="setup_failed"))[1] == "set-up failed: no output"
    long = End(kind="setup_failed", detail="a" * 100 + "b" * 299)
    assert outcome(running(), long)[1] == f"set-up failed: …{'b' * 299}"


@pytest.mark.parametrize("asked", ASKED)
def test_a_lost_machine_comes_first(asked: StopReason | None) -> None:
    """When a machine is lost, replicas that failed because of it are not the cause."""
    assert outcome(_job(asked, 2), exited(1), LOST) == (
        OutcomeKind.LOST,
        "machine m0-0 is gone",
    )
    unknown = outcome(_job(asked), End(kind="lost"))
    assert unknown == (OutcomeKind.LOST, "machine m0-0 was lost while replica 0 was on it")


@pytest.mark.parametrize("reason", [StopReason.HOST_LOST, StopReason.LOST_CONTACT])
def test_stopped_for_a_loss_is_lost(reason: StopReason) -> None:
    """An attempt that was stopped because a host was lost before it began is lost."""
    job = stopping(reason, replicas=2)
    kind, text = outcome(job, REVOKED, exited(0, notice=reason.value))
    assert kind is OutcomeKind.LOST
    assert text == f"stopped: {reason.value} (owner)"


def test_stopped_for_another_job() -> None:
    """Stopped because another job of its launch failed: stopped, with that job."""
    job = stopping(StopReason.SIBLING)
    assert outcome(job, exited(1, notice="sibling failed")) == (
        OutcomeKind.STOPPED,
        "stopped because owner failed",
    )


@pytest.mark.parametrize(
    ("code", "text"),
    [
        (0, "exited with code 0"),
        (3, "exited with code 3"),
        (-15, "was killed by SIGTERM"),
        (-200, "was killed by signal 200"),
        (None, "exited with an unknown code"),
    ],
)
def test_exit_codes_in_words(code: int | None, text: str) -> None:
    """Codes are codes, negative ones are signals by name."""
    assert exit_text(code) == text


def test_a_stop_or_a_loss_is_no_failure_of_a_host() -> None:
    """A set-up, the memory limit or a first failure is one; a stop or a loss is not."""
    assert failed_first(exited(1))
    assert failed_first(End(kind="setup_failed"))
    assert failed_first(exited(-9, notice="preempt", out_of_memory=True))
    assert not failed_first(exited(1, notice="preempt"))
    assert not failed_first(LOST)
    assert not failed_first(REVOKED)


def test_long_output_is_cut() -> None:
    """The last line of a failure is shown up to a length that fits a table."""
    text = outcome(running(), exited(1, detail="x" * 5000))[1]
    assert len(text) < 350


def test_a_malformed_end_is_refused() -> None:
    """An end that names a process it has no code of cannot be made."""
    with pytest.raises(ValueError, match="first_failed: 3 is not a process; there are 2 codes"):
        End(kind="exited", codes=(0, 1), first_failed=3)


HUNG = exited(-15, notice="idle", detail="no output for 30 min; stacks are in its log")


def test_a_hang_is_a_failure_in_its_own_words() -> None:
    """A host that was stopped as idle has failed, and the text says so."""
    text = "no output for 30 min; stacks are in its log"
    assert outcome(running(), HUNG) == (OutcomeKind.FAILED, text)
    assert outcome(running(replicas=2), exited(0), HUNG)[1] == f"replica 1: {text}"
    assert failed_first(HUNG)


def test_a_hang_after_the_work_was_finished_is_none() -> None:
    """A process that wrote *finished* and hangs in its clean-up has succeeded."""
    end = exited(-9, notice="idle", finished=True)
    assert outcome(running(), end)[0] is OutcomeKind.SUCCEEDED
    assert not failed_first(end)


def test_a_failed_clean_up_changes_no_outcome() -> None:
    """A failed `on_end` is named in the text of the outcome, whatever that is."""
    untidy = exited(0, on_end="exited with code 9")
    assert outcome(running(), untidy) == (
        OutcomeKind.SUCCEEDED,
        "exited with code 0; its on_end exited with code 9",
    )


def test_bytes_missing_from_the_logs_are_in_the_outcome() -> None:
    """The result has the number of dropped bytes, in its text and as a number."""
    last = ended(running(), exited(0, dropped_bytes=1200)).last
    assert last is not None
    assert last.kind is OutcomeKind.SUCCEEDED
    assert last.text == "exited with code 0; 1,200 bytes of its output are missing from its log"
    assert last.dropped_bytes == 1200


def test_output_that_is_not_kept_is_in_the_outcome() -> None:
    """Known before or after the host's end, it is named once, with the replica."""
    told = ev.HostUnkept(replica=0, host=0, text="more than 9 files")
    before = ended(step(running(), told, T0), exited(0))
    after = step(ended(running(), exited(0)), told, T0)
    for job in (before, after, step(after, told, T0)):
        assert job.last is not None
        assert job.last.kind is OutcomeKind.SUCCEEDED
        assert job.last.text == "exited with code 0; the output is not kept: more than 9 files"
    kept = step(after, replace(told, text=""), T0).last
    assert kept is not None and kept.text == "exited with code 0"
    many = ended(step(running(replicas=2), replace(told, replica=1), T0), exited(0), exited(0)).last
    assert many is not None
    assert many.text.endswith("; the output of replica 1 is not kept: more than 9 files")


def test_what_becomes_of_output_changes_no_outcome() -> None:
    """A cancel after the end of a preempted attempt does not change it to cancelled."""
    job = ended(stopping(StopReason.PREEMPT), exited(1, notice="preempt"))
    job = step(job, ev.CancelWanted(by="ann", grace_s=5.0), T0)
    last = step(job, ev.HostUnkept(replica=0, host=0, text="x"), T0).last
    assert last is not None and last.kind is OutcomeKind.PREEMPTED
