"""No start exceeds a user's limit, the order within a user holds, and nothing is stopped."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bastion.scheduler.cycle import decide
from bastion.scheduler.plan import Admit, Plan, Preempt
from bastion.scheduler.reasons.reason import OverUserLimit
from bastion.scheduler.snapshot import Snapshot
from quota import Quota
from quota.limits import Limits
from tests.bastion.scheduler import histories, laws
from tests.bastion.scheduler.world import Decide, World, machines_of, quota_of
from tests.rigs.length import at_length

HALVES = {"A": {"gpu": 0.5}, "B": {"gpu": 0.5}}


def world(options: str, machines: int = 2, decide: Decide = decide) -> World:
    """Return machines of eight devices, half for A, with these options, and half for B."""
    quota = quota_of({"gpu": 8 * machines}, HALVES, options={"A": options}, min_runtime_s=0)
    return World(quota, machines_of(machines, gpu=8), decide=decide)


def test_a_user_gets_no_more_than_the_limit_and_another_does() -> None:
    """Units are counted over everything that the user has in the project."""
    w = world("max_units_per_user = { gpu = 4 }")
    for name in ("a", "b", "c"):
        w.ask("A", name, gpu=2)
    w.ask("A", "other", user="v", gpu=4)
    w.cycle()
    assert [w.runs(name) for name in ("a", "b", "c", "other")] == [True, True, False, True]
    reason = w.plan.verdicts["c"].reason
    assert reason == OverUserLimit(
        project="A", user="u", limit="gpu", asked=2, held=4, ahead=0, most=4
    )
    w.cycle()
    assert "u holds 4 gpu" in w.why("c")
    w.end("a")
    w.cycle()
    assert w.runs("c")


def test_jobs_are_counted_too() -> None:
    """`max_running_per_user` counts jobs, whatever they ask for."""
    w = world("max_running_per_user = 2")
    for name in ("a", "b", "c"):
        w.ask("A", name, cpu=1) if name == "a" else w.ask("A", name, gpu=1)
    w.machines = machines_of(2, gpu=8, cpu=8)
    w.cycle()
    assert [w.runs(name) for name in ("a", "b", "c")] == [True, True, False]
    assert "limit in A is 2 jobs at once: u runs 2," in w.why("c")


def test_limits_of_one_user_stand_before_those_of_all() -> None:
    """A table with the user's name takes precedence."""
    own = "max_running_per_user = 1\n[project_options.A.users.v]\nmax_running = 2"
    w = world(own)
    for user in ("u", "v"):
        for number in range(3):
            w.ask("A", f"{user}{number}", user=user, gpu=1)
    w.cycle()
    assert [name for name in w.jobs if w.runs(name)] == ["u0", "v0", "v1"]


def test_a_smaller_job_does_not_pass_the_one_that_is_counted_before_it() -> None:
    """The user's gang that waits for capacity keeps its part of the limit."""
    w = world("max_units_per_user = { gpu = 8 }", machines=1)
    w.ask("B", "b", gpu=4)
    w.cycle()
    w.ask("A", "wide", gpu=8)
    w.pass_time(1)
    w.ask("A", "small", gpu=1)
    w.cycle()
    assert w.reason("small") == "OverUserLimit"
    assert w.reason("wide") != "OverUserLimit"


def test_a_job_that_can_never_run_takes_nothing_of_the_limit() -> None:
    """It waits for a change that may never come."""
    w = world("max_units_per_user = { gpu = 16 }")
    w.ask("A", "huge", gpu=9)
    w.ask("A", "fits", gpu=8)
    w.cycle()
    assert "huge" not in w.jobs, "it was refused"
    assert w.runs("fits")


def test_a_limit_that_is_cut_stops_nothing() -> None:
    """The new limit only affects jobs that have not started."""
    w = world("max_units_per_user = { gpu = 8 }")
    w.ask("A", "runs", gpu=8)
    w.cycle()
    project = replace(w.quota.projects["A"], limits=Limits(max_units={"gpu": 1}))
    w.quota = replace(w.quota, projects={**w.quota.projects, "A": project})
    w.ask("A", "waits", gpu=1)
    w.cycle()
    assert w.runs("runs")
    assert w.reason("waits") == "OverUserLimit"


def test_another_limit_of_the_user_is_named_as_next() -> None:
    """A gang of two waits for devices of its user, and is one job too many anyway."""
    w = world("max_units_per_user = { gpu = 4 }\nmax_running_per_user = 1")
    w.ask("A", "runs", gpu=4)
    w.cycle()
    for name in ("a", "b"):
        w.ask("A", name, gang=("a", "b"), gpu=2)
    w.cycle()
    assert w.reason("a") == "OverUserLimit"
    assert w.why("a").endswith("; then a limit of u in its project is in the way")


def test_what_can_never_run_is_not_left_to_wait_for_a_limit() -> None:
    """It is refused when it is new, as if its user held nothing."""
    w = world("max_units_per_user = { gpu = 16 }", machines=1)
    w.ask("A", "runs", gpu=8)
    w.cycle()
    w.ask("A", "large", gpu=9)
    w.cycle()
    assert "large" not in w.jobs


def users_stay_within_limits(snapshot: Snapshot, _: float, plan: Plan) -> None:
    """After a start, its user holds no more than the limits of the project allow."""
    jobs: Counter[tuple[str, str]] = Counter()
    units: Counter[tuple[str, str, str]] = Counter()
    grown = set()
    for name, job in snapshot.jobs.items():
        starts = isinstance(plan.verdicts.get(name), Admit)
        if job.attempt is None and not starts:
            continue
        owner = job.project, job.user
        jobs[owner] += 1
        for resource, number in job.request.units.items():
            units[(*owner, resource)] += number
        if starts:
            grown.add(owner)
    for project, user in grown:
        limits = _limits(snapshot.quota, project, user)
        assert limits.max_running is None or jobs[project, user] <= limits.max_running
        for resource, most in limits.max_units.items():
            asked = any(
                isinstance(plan.verdicts.get(name), Admit) and job.request.units[resource]
                for name, job in snapshot.jobs.items()
                if (job.project, job.user) == (project, user)
            )
            assert not asked or units[project, user, resource] <= most


def _limits(quota: Quota, project: str, user: str) -> Limits:
    return quota.projects[project].limits_of(user)


def limited_world_of(random: Random, decide: Decide) -> World:
    """Return a small world whose users are limited in units, in jobs, or in both."""
    w = histories.world_of(random, decide)
    projects = dict(w.quota.projects)
    for name in projects:
        limits = Limits(
            max_units=random.choice(({}, {"gpu": random.choice((1, 4, 8))})),
            max_running=random.choice((None, 1, 3)),
        )
        projects[name] = replace(projects[name], limits=limits)
    w.quota = replace(w.quota, projects=projects)
    return w


LAWS = (
    users_stay_within_limits,
    laws.every_job_has_a_verdict,
    laws.no_device_is_shared,
    laws.gangs_are_whole,
    laws.no_guaranteed_victim,
)
SEEDS = st.integers(0, 2**32)


@given(seed=SEEDS)
@settings(max_examples=15, deadline=None, database=None, derandomize=True)
def test_no_start_breaks_a_limit(seed: int) -> None:
    """It holds at every cycle of a random history; a limit never stops a running job."""
    histories.run(seed, LAWS, steps=15, make=limited_world_of)


@pytest.mark.prove
@given(seed=SEEDS)
@settings(max_examples=at_length(700), deadline=None, database=None)
def test_no_start_breaks_a_limit_in_long(seed: int) -> None:
    """The same holds for a thousand histories."""
    histories.run(seed, LAWS, steps=25, make=limited_world_of)


def test_the_law_notices_a_scheduler_that_forgets_limits() -> None:
    """The same scheduler, shown a quota file without limits, breaks the law in some history."""

    def forgetful(snapshot: Snapshot, now: float) -> Plan:
        free = {n: replace(p, limits=Limits()) for n, p in snapshot.quota.projects.items()}
        return decide(replace(snapshot, quota=replace(snapshot.quota, projects=free)), now)

    with pytest.raises(AssertionError):
        for seed in range(20):
            histories.run(seed, (users_stay_within_limits,), inner=forgetful, make=limited_world_of)


def test_nothing_is_preempted_for_a_gang_that_is_over_its_limit() -> None:
    """A gang that must not start needs no victims."""
    w = world("max_units_per_user = { gpu = 1 }")
    w.ask("B", "b", gpu=8)
    w.ask("B", "more", gpu=8)
    w.cycle()
    w.pass_time(1000)
    w.ask("A", "a", gpu=8)
    w.cycle()
    assert not any(isinstance(verdict, Preempt) for verdict in w.plan.verdicts.values())
