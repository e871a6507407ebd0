"""A job that waits for other jobs delays no other job, and its reason shows their states."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bastion.job import Dependency, JobRecord, state_of
from bastion.scheduler.cycle import decide
from bastion.scheduler.plan import Admit, Plan, Preempt, Verdict, Wait
from bastion.scheduler.reasons.reason import WaitsFor
from bastion.scheduler.snapshot import Snapshot
from tests.bastion.scheduler import histories
from tests.bastion.scheduler.world import Decide
from tests.rigs.length import at_length

QUICK = settings(max_examples=8, deadline=None, database=None, derandomize=True)
LONG = settings(max_examples=at_length(350), deadline=None, database=None)
SEEDS = st.integers(0, 2**32)

BECOMES: dict[type[Verdict], str] = {Admit: "starting", Preempt: "stopping"}
"""The state that a verdict leads to, which one of several cycles may know already."""

WORLDS = pytest.mark.parametrize("make", histories.WORLDS)


def dependent(job: JobRecord) -> JobRecord:
    """Return a job that asks for the same as `job`, and waits until that has ended."""
    name = f"after-{job.id}"
    return JobRecord(
        id=name,
        project=job.project,
        user=job.user,
        launch=name,
        ulid=name,
        submitted_at=job.submitted_at,
        request=replace(job.request, priority=1),
        after=(Dependency(on=job.id),),
    )


def dependents_change_nothing(
    snapshot: Snapshot, now: float, plan: Plan, inner: Decide = decide
) -> None:
    """The plan does not change when every job gets a dependent of priority 1."""
    waiting = {each.id: each for each in map(dependent, snapshot.jobs.values())}
    beside = inner(replace(snapshot, jobs={**snapshot.jobs, **waiting}), now)
    verdicts = dict(beside.verdicts)
    told = {name: verdicts.pop(name) for name in waiting}
    assert verdicts == dict(plan.verdicts)
    assert (beside.promises, beside.planned) == (plan.promises, plan.planned)
    for name, job in snapshot.jobs.items():
        verdict = told[f"after-{name}"]
        assert isinstance(verdict, Wait)
        assert isinstance(verdict.reason, WaitsFor)
        ((on, when, state),) = verdict.reason.on
        assert (on, when) == (name, "ok")
        assert state in (state_of(job), BECOMES.get(type(verdicts[name])))


@WORLDS
@given(seed=SEEDS)
@QUICK
def test_a_job_that_waits_for_others_delays_no_other(seed: int, make: histories.Make) -> None:
    """It holds at every cycle of a random history."""
    histories.run(seed, (dependents_change_nothing,), steps=12, make=make)


def forgets_what_jobs_wait_for(snapshot: Snapshot, now: float) -> Plan:
    """Treat dependents like any other job."""
    jobs = {name: replace(job, after=()) for name, job in snapshot.jobs.items()}
    return decide(replace(snapshot, jobs=jobs), now)


def test_a_scheduler_that_starts_dependents_is_noticed() -> None:
    """It is noticed at the first cycle that has a job."""
    law = partial(dependents_change_nothing, inner=forgets_what_jobs_wait_for)
    with pytest.raises(AssertionError):
        histories.run(0, (law,), steps=12)


@pytest.mark.prove
@WORLDS
@given(seed=SEEDS)
@LONG
def test_a_job_that_waits_for_others_delays_no_other_at_length(
    seed: int, make: histories.Make
) -> None:
    """The same holds for two thousand histories of all kinds."""
    histories.run(seed, (dependents_change_nothing,), steps=25, make=make)
