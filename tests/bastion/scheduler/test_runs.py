"""A limited number of informative durations of earlier runs is kept."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pytest

from bastion.job import End, StopReason
from bastion.lifecycle import DrainEnded, HostEnded
from bastion.records.root import Root
from bastion.scheduler.runs import (
    MAX_KINDS,
    MAX_KINDS_OF_USER,
    MAX_LENGTHS,
    Runs,
    kind_of,
    with_end,
)
from bastion.service.draft.root_draft import Draft
from tests.rigs.job_records import T0, ended, exited, queued, running, stopping


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("train", "blue/ann/train"),
        ("sweep-7-lr0.1", "blue/ann/sweep-#-lr#.#"),
        ("sweep-12-lr0.03", "blue/ann/sweep-#-lr#.#"),
        ("", "blue/ann/"),
    ],
)
def test_numbers_do_not_make_another_kind(name: str, kind: str) -> None:
    """Names that differ only in numbers are of one kind, for one user of one project."""
    assert kind_of(queued(name=name)) == kind


SUCCEEDS = exited(0)


@pytest.mark.parametrize(
    ("end", "counts"),
    [
        (SUCCEEDS, True),
        (exited(1, finished=True, notice="preempt"), True),
        (exited(1), False),
        (exited(-15, notice="preempt"), False),
        (exited(-15, notice="time limit"), False),
        (End(kind="lost"), False),
        (End(kind="setup_failed"), False),
    ],
)
def test_what_succeeded_counts(end: End, counts: bool) -> None:
    """A run that failed or was cut off does not show how long the work takes."""
    job = ended(stopping(StopReason.PREEMPT), end, now=T0 + 90.4)
    expected = {"blue/ann/": Runs(at=int(T0 + 90), lengths=(90,))} if counts else {}
    assert with_end({}, job, T0 + 90.4) == expected


def test_a_later_attempt_does_not_count() -> None:
    """It may have resumed from a checkpoint, and be shorter than the work."""
    job = ended(running(attempts=1), SUCCEEDS)
    assert job.attempt is not None
    assert job.attempt.number == 2
    assert with_end({}, job, T0 + 9) == {}


def _after(
    runs: Mapping[str, Runs], name: str, now: float, user: str = "ann"
) -> Mapping[str, Runs]:
    return with_end(runs, replace(ended(running(), SUCCEEDS), name=name, user=user), now)


def test_the_latest_are_kept() -> None:
    """Each kind keeps as many as there is room for; the oldest are removed first."""
    runs: Mapping[str, Runs] = {}
    for second in range(MAX_LENGTHS + 3):
        runs = _after(runs, "train", T0 + second)
    assert runs["blue/ann/train"].lengths == tuple(range(3, MAX_LENGTHS + 3))


def test_names_made_at_random_cost_their_own_user_only() -> None:
    """A user's oldest kind is dropped for a new one; other users keep theirs up to a limit."""
    runs = _after({}, "train", T0, user="ben")
    for number in range(MAX_KINDS_OF_USER + 1):
        runs = _after(runs, f"x{chr(97 + number)}", T0 + number)
    assert len(runs) == MAX_KINDS_OF_USER + 1
    assert "blue/ann/xa" not in runs
    assert "blue/ben/train" in runs
    for number in range(MAX_KINDS):
        runs = _after(runs, "train", T0 + 100 + number, user=f"u{number}")
    assert len(runs) == MAX_KINDS
    assert "blue/ben/train" not in runs


def test_an_end_is_noted_in_the_commit_that_sees_it() -> None:
    """It is noted once, whatever follows, and root keeps it after the job is removed."""
    job = running(name="train-7")
    root = Root(epoch=1, seq=1, now=T0, write_id="w", jobs={job.id: job})
    draft = Draft(root, T0 + 300)
    draft.apply(job.id, HostEnded(replica=0, host=0, end=SUCCEEDS))
    draft.apply(job.id, DrainEnded())
    draft = Draft(draft.finish(write_id="x"), T0 + 900)
    draft.result_written(job.id)
    after = draft.finish(write_id="y")
    assert not after.jobs
    assert after.runs == {"blue/ann/train-#": Runs(at=int(T0 + 300), lengths=(300,))}
