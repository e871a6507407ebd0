"""Which ends meet which conditions, and which make them impossible."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest

from bastion.job import Dependency, JobRecord, Outcome, OutcomeKind, Phase
from bastion.lifecycle import events as ev
from bastion.lifecycle import step
from bastion.lifecycle.dependencies import Ended, dependency_events, how, propagate_ends
from bastion.spec.after import When
from tests.rigs.job_records import T0, queued

GOOD = Outcome(kind=OutcomeKind.SUCCEEDED, text="exited with code 0")
BAD = Outcome(kind=OutcomeKind.FAILED, text="exited with code 1", code=1)


def waiting(*after: Dependency) -> JobRecord:
    """Return a queued job that waits."""
    return queued(after=after)


def after_ends(job: JobRecord, *ended: tuple[str, str, Outcome], unfinished: str = "") -> JobRecord:
    """Return `job` once it knows that these (job, launch, outcome) have ended."""
    every = [Ended(job=name, launch=launch, outcome=outcome) for name, launch, outcome in ended]
    if job.phase is not Phase.QUEUED:
        return job
    ends = tuple(dependency_events(every, unfinished={unfinished}))
    one_by_one = job
    for end in ends:
        if one_by_one.phase is Phase.QUEUED:
            one_by_one = step(one_by_one, ev.DependenciesEnded(ends=(end,)), T0 + 60)
    together = step(job, ev.DependenciesEnded(ends=ends), T0 + 60)
    assert together == one_by_one
    return together


@pytest.mark.parametrize(
    ("when", "outcome", "text"),
    [
        ("ok", GOOD, ""),
        ("any", GOOD, ""),
        ("any", BAD, ""),
        ("failed", BAD, ""),
        ("ok", BAD, "its dependency a-1 failed (exited with code 1)"),
        ("failed", GOOD, "its dependency a-1 succeeded, and it was to start on a failure"),
    ],
)
def test_one_job_meets_its_condition_or_ends_the_wait(
    when: When, outcome: Outcome, text: str
) -> None:
    """A met condition leaves the record; an impossible one ends the job, with a reason."""
    job = after_ends(waiting(Dependency(on="a-1", when=when)), ("a-1", "a-1", outcome))
    assert job.after == ()
    if not text:
        assert (job.phase, job.outcome, job.queued_at) == (Phase.QUEUED, None, T0 + 60)
        return
    assert job.phase is Phase.DONE
    assert job.outcome == Outcome(kind=OutcomeKind.CANCELLED, text=text)


def test_the_end_of_another_job_changes_nothing() -> None:
    """The end of a job that it does not wait for leaves the record unchanged."""
    job = waiting(Dependency(on="a-1"))
    assert after_ends(job, ("b-1", "b-1", BAD)) == job


def test_it_waits_for_the_last_of_several() -> None:
    """It joins the queue once everything it waits for has ended, and its age counts from then."""
    job = waiting(Dependency(on="a-1"), Dependency(on="b-1", when="any"))
    job = after_ends(job, ("a-1", "a-1", GOOD))
    assert [each.on for each in job.after] == ["b-1"]
    assert job.queued_at == T0
    assert after_ends(job, ("b-1", "b-1", BAD)).after == ()


def test_a_launch_counts_as_a_whole() -> None:
    """`ok` is met when every job succeeded, in any order; the same event twice is harmless."""
    job = waiting(Dependency(on="l-1"))
    first = ("l-a-1", "l-1", GOOD)
    once = after_ends(job, first, unfinished="l-1")
    assert once == after_ends(once, first, unfinished="l-1") == job
    assert after_ends(once, first, ("l-b-1", "l-1", GOOD)).after == ()
    never = after_ends(once, ("l-b-1", "l-1", BAD), unfinished="l-1")
    assert never.outcome is not None
    assert never.outcome.text == "its dependency l-b-1 failed (exited with code 1)"


def test_a_failure_in_a_launch_is_remembered_until_all_of_it_has_ended() -> None:
    """`failed` is met when all have ended and one did not succeed, though it left long ago."""
    job = waiting(Dependency(on="l-1", when="failed"))
    job = after_ends(job, ("l-a-1", "l-1", BAD), unfinished="l-1")
    assert job.after == (Dependency(on="l-1", when="failed", failed="l-a-1"),)
    assert after_ends(job, ("l-b-1", "l-1", GOOD)).after == ()
    assert after_ends(job, ("l-b-1", "l-1", GOOD)).phase is Phase.QUEUED


def test_two_jobs_that_end_at_once_both_count() -> None:
    """Only the last event of a launch says that all of it has ended."""
    job = waiting(Dependency(on="l-1", when="failed"))
    both = (("l-a-1", "l-1", GOOD), ("l-b-1", "l-1", BAD))
    assert after_ends(job, *both).phase is Phase.QUEUED
    assert after_ends(job, *both).after == ()


def test_one_job_of_a_launch_can_be_waited_for() -> None:
    """A job by its own id counts alone."""
    job = after_ends(waiting(Dependency(on="l-a-1")), ("l-a-1", "l-1", GOOD), unfinished="l-1")
    assert job.after == ()


def test_the_end_of_a_dependency_changes_no_ended_job() -> None:
    """A cancelled job stays cancelled."""
    cancelled = step(waiting(Dependency(on="a-1")), ev.CancelWanted(by="ann", grace_s=5.0), T0)
    assert after_ends(cancelled, ("a-1", "a-1", GOOD)) == cancelled


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        (OutcomeKind.SUCCEEDED, "succeeded"),
        (OutcomeKind.FAILED, "failed (x)"),
        (OutcomeKind.CANCELLED, "was cancelled"),
        (OutcomeKind.TIMED_OUT, "timed out (x)"),
        (OutcomeKind.OUT_OF_MEMORY, "ran out of memory (x)"),
        (OutcomeKind.SETUP_FAILED, "could not be set up (x)"),
        (OutcomeKind.LOST, "was lost (x)"),
    ],
)
def test_every_end_has_its_words(kind: OutcomeKind, words: str) -> None:
    """They say how the other ended, and do not grow with the length of a chain."""
    assert how(replace(BAD, kind=kind, text="x")) == words


def test_a_dependent_is_told_once_of_all_that_ended() -> None:
    """A job may wait for a hundred, and thousands for the same: there is one event for all."""
    names = [f"head-{number}" for number in range(50)]
    over = [Ended(job=name, launch=name, outcome=GOOD) for name in names]
    told: list[tuple[str, int]] = []

    def apply(name: str, event: ev.DependenciesEnded) -> None:
        told.append((name, len(event.ends)))

    dependents = ["one", "two", "three"]
    waiting = dict.fromkeys(names, dependents)
    propagate_ends(over, unfinished=Counter(), waiting=waiting, apply=apply)
    assert told == [(name, 50) for name in dependents]
