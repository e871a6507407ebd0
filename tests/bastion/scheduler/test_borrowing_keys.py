"""`borrow = false` and `weight`: non-borrowers are never reclaimed; weight divides the rest."""

from __future__ import annotations

from dataclasses import replace
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bastion.job import JobClass
from bastion.scheduler.cycle import decide
from bastion.scheduler.plan import Admit, Keep, Plan, Preempt
from bastion.scheduler.reasons.reason import Reclaimed, Rotated
from bastion.scheduler.snapshot import Snapshot
from quota import Amounts
from tests.bastion.scheduler import histories, laws
from tests.bastion.scheduler.world import Decide, World, machines_of, quota_of
from tests.rigs.length import at_length

HALVES = {"A": {"gpu": 0.5}, "B": {"gpu": 0.5}}


def world(options: str = "", shares: dict[str, dict[str, float]] = HALVES) -> World:
    """Return two machines of eight devices, half for A, with these options, and half for B."""
    quota = quota_of({"gpu": 16}, shares, options={"A": options}, min_runtime_s=0)
    return World(quota, machines_of(2, gpu=8))


def ask(w: World, project: str, name: str, *, gpu: int, borrow: bool = False) -> None:
    """Queue a job that by default does not borrow."""
    w.ask(project, name, gpu=gpu)
    w.jobs[name] = replace(w.jobs[name], request=replace(w.jobs[name].request, borrow=borrow))


def test_a_job_that_does_not_borrow_waits_for_its_share() -> None:
    """Half of the pool is idle, and the job still waits until its project has room."""
    w = world()
    w.ask("A", "first", gpu=8)
    w.cycle()
    w.pass_time(1)
    ask(w, "A", "own", gpu=4)
    w.ask("A", "guest", gpu=4)
    w.cycle()
    assert w.runs("guest")
    assert w.reason("own") == "ShareInUse"
    assert "A holds 12 gpu with a share of 8 gpu, and it may not borrow" in w.why("own")
    w.end("first")
    w.cycle()
    assert w.runs("own")


def test_a_project_that_does_not_borrow_starts_within_its_share_alone() -> None:
    """The same holds for all jobs of such a project, whatever the jobs say."""
    w = world("borrow = false")
    for name in ("a", "b", "c"):
        w.ask("A", name, gpu=4)
    w.cycle()
    assert [w.runs(name) for name in ("a", "b", "c")] == [True, True, False]
    assert w.reason("c") == "ShareInUse"


def test_it_takes_back_what_its_share_lent() -> None:
    """The guarantee is the same: borrowers make room for the job."""
    w = world("borrow = false")
    w.ask("B", "guest", gpu=8)
    w.ask("B", "own", gpu=8)
    w.cycle()
    w.pass_time(100)
    w.ask("A", "a", gpu=8)
    w.run(200)
    assert w.runs("a")


def test_what_does_not_borrow_stays_after_a_cut_of_its_share() -> None:
    """The share of A is cut to zero: its borrower is stopped, and its other job stays."""
    w = world()
    ask(w, "A", "own", gpu=4)
    ask(w, "A", "guest", gpu=4, borrow=True)
    w.cycle()
    w.quota = quota_of({"gpu": 16}, {"A": {"gpu": 0}, "B": {"gpu": 1}}, min_runtime_s=0)
    w.pass_time(100)
    w.ask("B", "b", gpu=8)
    w.ask("B", "more", gpu=4)
    w.ask("B", "rest", gpu=4)
    w.run(300)
    assert w.runs("own")
    assert not w.runs("guest")


def test_idle_devices_go_by_share() -> None:
    """Of two owners, the larger one borrows more; a guest without a share comes last."""
    shares = {"A": {"gpu": 0.25}, "B": {"gpu": 0.125}, "C": {"gpu": 0.0}, "D": {"gpu": 0.625}}
    w = world(shares=shares)
    for number in range(16):
        for project in "ABC":
            w.ask(project, f"{project}{number:02}", gpu=1)
    w.cycle()
    assert (w.units("A"), w.units("B"), w.units("C")) == (10, 5, 1)


def test_weight_multiplies_the_share() -> None:
    """The shares are equal, and one project has three times the weight."""
    shares = {"A": {"gpu": 0.25}, "B": {"gpu": 0.25}, "D": {"gpu": 0.5}}
    w = world("weight = 3", shares=shares)
    for number in range(16):
        for project in "AB":
            w.ask(project, f"{project}{number:02}", gpu=1)
    w.cycle()
    assert (w.units("A"), w.units("B")) == (10, 6)


def never_borrows(snapshot: Snapshot, name: str) -> bool:
    """Whether a job can only be on its project's share."""
    job = snapshot.jobs[name]
    return not (job.request.borrow and snapshot.quota.project(job.project).borrow)


def what_never_borrows_is_not_reclaimed(snapshot: Snapshot, _: float, plan: Plan) -> None:
    """No other project stops such a job, and it is never reported as borrowing."""
    for name, verdict in plan.verdicts.items():
        if name not in snapshot.jobs or not never_borrows(snapshot, name):
            continue
        if isinstance(verdict, Preempt):
            assert not isinstance(verdict.reason, Reclaimed | Rotated), name
        if isinstance(verdict, Keep) and snapshot.jobs[name].request.units.only({"gpu"}):
            assert verdict.job_class is JobClass.GUARANTEED, name


def what_never_borrows_starts_within_its_share(snapshot: Snapshot, _: float, plan: Plan) -> None:
    """
    Such a job fits in the share, together with all that never borrow in its project, when it
    starts.
    """
    after: dict[str, Amounts] = {}
    for name, job in snapshot.jobs.items():
        starts = isinstance(plan.verdicts.get(name), Admit)
        if never_borrows(snapshot, name) and (job.attempt is not None or starts):
            after[job.project] = after.get(job.project, Amounts({})) + job.request.units
    for name, verdict in plan.verdicts.items():
        if isinstance(verdict, Admit) and never_borrows(snapshot, name):
            project = snapshot.jobs[name].project
            share = snapshot.quota.projects[project].nominal
            assert after[project].only(snapshot.quota.types) <= share, name


def careful_world_of(random: Random, decide: Decide) -> World:
    """Return a small world in which some projects and some jobs do not borrow."""
    w = histories.world_of(random, decide)
    projects = {
        name: replace(project, borrow=random.random() < 0.7)
        for name, project in w.quota.projects.items()
    }
    w.quota = replace(w.quota, projects=projects)
    plain = w.ask

    def ask_or_not(*args: Any, **options: Any) -> str:
        name = plain(*args, **options)
        if random.random() < 0.3:
            request = replace(w.jobs[name].request, borrow=False)
            w.jobs[name] = replace(w.jobs[name], request=request)
        return name

    w.ask = ask_or_not  # type: ignore[method-assign]
    return w


LAWS = (
    what_never_borrows_is_not_reclaimed,
    what_never_borrows_starts_within_its_share,
    laws.every_job_has_a_verdict,
    laws.no_device_is_shared,
    laws.gangs_are_whole,
    laws.borrowers_have_their_time,
)
SEEDS = st.integers(0, 2**32)


@given(seed=SEEDS)
@settings(max_examples=15, deadline=None, database=None, derandomize=True)
def test_the_promise_holds_in_random_histories(seed: int) -> None:
    """Such a job never starts on others' idle devices, and never leaves for another's share."""
    histories.run(seed, LAWS, steps=15, make=careful_world_of)


@pytest.mark.prove
@given(seed=SEEDS)
@settings(max_examples=at_length(700), deadline=None, database=None)
def test_the_promise_holds_in_many_histories(seed: int) -> None:
    """The same holds for a thousand histories."""
    histories.run(seed, LAWS, steps=25, make=careful_world_of)


@pytest.mark.parametrize("law", LAWS[:2])
def test_each_law_notices_a_scheduler_that_lets_all_borrow(law: laws.Law) -> None:
    """The scheduler sees requests and projects that all borrow."""

    def generous(snapshot: Snapshot, now: float) -> Plan:
        projects = {n: replace(p, borrow=True) for n, p in snapshot.quota.projects.items()}
        jobs = {
            n: replace(job, request=replace(job.request, borrow=True))
            for n, job in snapshot.jobs.items()
        }
        quota = replace(snapshot.quota, projects=projects)
        return decide(replace(snapshot, quota=quota, jobs=jobs), now)

    with pytest.raises(AssertionError):
        for seed in range(60):
            histories.run(seed, (law,), inner=generous, make=careful_world_of)
