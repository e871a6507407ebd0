"""Facts about a job: its state for users, what it holds, whether it failed."""

from __future__ import annotations

from dataclasses import replace

import pytest

from bastion.job import (
    FAILURES,
    End,
    JobRecord,
    Outcome,
    OutcomeKind,
    Phase,
    StopReason,
    state_of,
)
from tests.rigs import job_records
from tests.rigs.job_records import ended, exited


@pytest.mark.parametrize(
    ("job", "state"),
    [
        (job_records.queued(), "queued"),
        (job_records.queued(held="ann"), "held"),
        (
            job_records.queued(last=Outcome(kind=OutcomeKind.PREEMPTED, text="")),
            "preempted",
        ),
        (job_records.queued(last=Outcome(kind=OutcomeKind.FAILED, text="")), "queued"),
        (job_records.starting(), "starting"),
        (job_records.running(), "running"),
        (job_records.stopping(), "stopping"),
        (job_records.draining(), "draining"),
        (job_records.done(), "succeeded"),
    ],
    ids=lambda each: each if isinstance(each, str) else "",
)
def test_users_see_one_word(job: JobRecord, state: str) -> None:
    """It is the phase, except for `held`, `preempted` and, at the end, the outcome."""
    assert state_of(job) == state


@pytest.mark.parametrize("phase", list(Phase))
def test_devices_are_held_while_admitted(phase: Phase) -> None:
    """A job holds devices from its admission to its last end, but not while logs are shipped."""
    job = job_records.RECORDS[phase]()
    admitted = phase in (Phase.STARTING, Phase.RUNNING, Phase.STOPPING)
    assert job.is_admitted == admitted
    assert bool(job.alive) == admitted


@pytest.mark.parametrize("kind", list(OutcomeKind))
def test_only_a_failure_without_retries_is_final(kind: OutcomeKind) -> None:
    """A failure without a remaining retry is final as soon as it is known; nothing else is."""
    last = Outcome(kind=kind, text="")
    job = replace(job_records.draining(), last=last)
    assert job.has_failed == (kind in FAILURES)
    assert not replace(job, retries=1).has_failed
    assert not replace(job, cancelled_by="ann").has_failed
    assert replace(job_records.done(), outcome=last).has_failed == (kind in FAILURES)


def test_a_failing_attempt_is_known_early() -> None:
    """A first failure, or a stop for a loss, is known while the rest still runs."""
    assert ended(job_records.running(replicas=2), exited(1)).is_failing
    assert job_records.stopping(StopReason.HOST_LOST).is_failing
    assert not job_records.stopping(StopReason.PREEMPT).is_failing
    assert not ended(job_records.running(replicas=2), exited(0)).is_failing
    assert not job_records.queued().is_failing


def test_the_detail_of_an_end_is_bounded() -> None:
    """Root keeps the last lines of a failure, not all of its output."""
    end = End(kind="setup_failed", detail="x" * 100_000 + "end")
    assert len(end.detail) == 4096
    assert end.detail.endswith("end")
