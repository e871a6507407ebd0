"""Usage over time: charged while it is held, and halved every half-life."""

from __future__ import annotations

from dataclasses import replace

import pytest

from bastion.job import JobClass
from bastion.lifecycle import Reclassed, step
from bastion.machine import Machine
from bastion.records.root import Root
from bastion.service.decide.decayed_usage import accrued
from quota import Amounts, Budget, parse
from quota.budget import Spending
from tests.rigs import job_records
from tests.rigs.leader import QUOTA

HALVES = parse(f"{QUOTA}usage_half_life_s = 100.0\n")
SLOW = parse(f"{QUOTA}usage_half_life_s = 1e9\n")


def root(*, borrowed: bool = False, **more: object) -> Root:
    """Return a root with one job of 2 of 16 devices that was last charged at second 0."""
    job = job_records.running()
    if borrowed:
        job = step(job, Reclassed(job_class=JobClass.BORROWED), 0.0)
    given = {"jobs": {job.id: job}, **more}
    return Root(epoch=1, seq=1, now=0.0, write_id="w", **given)  # type: ignore[arg-type]


def test_a_user_pays_for_all_devices_held() -> None:
    """A guaranteed job is charged to its user, but not to its project."""
    books = accrued(root(), SLOW, 10.0)
    assert books.decayed_by_user == {"blue/ann": pytest.approx(2 / 16 * 10)}
    assert books.decayed == {}
    assert books.decayed_at == 10.0


def test_a_project_pays_for_what_it_borrows() -> None:
    """A borrowed job is charged to its project too."""
    books = accrued(root(borrowed=True), SLOW, 10.0)
    assert books.decayed == {"blue": pytest.approx(2 / 16 * 10)}


@pytest.mark.parametrize(("share", "charge"), [(0.0625, 1 / 16 * 10), (0.5, None)])
def test_a_group_pays_for_what_it_holds_beyond_its_share(
    share: float, charge: float | None
) -> None:
    """The members' total usage counts, but nothing while that is within the group's share."""
    text = QUOTA.replace("h100 = 0.5", "h100 = 0.0625", 1)
    groups = f"[project_groups.lab]\nmembers = ['blue']\nshare = {{ h100 = {share} }}\n"
    books = accrued(root(), parse(f"{text}usage_half_life_s = 1e9\n{groups}"), 10.0)
    assert books.decayed.get("lab") == (None if charge is None else pytest.approx(charge))


def test_a_job_that_takes_whole_machines_is_charged_for_them() -> None:
    """An exclusive job is charged for its whole machine, whatever it requests."""
    job = job_records.running()
    where = replace(job.request.where, exclusive=True)
    job = replace(job, request=replace(job.request, where=where))
    held = {host.machine for place in job.alive for host in place.hosts}
    machines = {n: Machine(name=n, pool="p", resources=Amounts({"h100": 8})) for n in held}
    books = accrued(root(jobs={job.id: job}, machines=machines), SLOW, 10.0)
    assert books.decayed_by_user == {"blue/ann": pytest.approx(8 * len(held) / 16 * 10)}


def test_old_usage_fades() -> None:
    """Usage is halved every half-life, and forgotten when almost nothing is left."""
    old = root(jobs={}, decayed={"blue": 8.0, "red": 1e-6}, decayed_by_user={"blue/ann": 4.0})
    books = accrued(old, HALVES, 200.0)
    assert books.decayed == {"blue": pytest.approx(2.0)}
    assert books.decayed_by_user == {"blue/ann": pytest.approx(1.0)}


def test_the_moments_of_commits_change_nothing() -> None:
    """Current usage decays like past usage, whether it is charged once or every second."""
    once = accrued(root(borrowed=True), HALVES, 50.0)
    often = root(borrowed=True)
    for second in range(1, 51):
        often = accrued(often, HALVES, float(second))
    assert often.decayed_by_user == pytest.approx(dict(once.decayed_by_user))
    assert often.decayed == pytest.approx(dict(once.decayed))
    assert once.decayed_by_user["blue/ann"] < 2 / 16 * 50


def test_what_waits_or_is_over_costs_nothing() -> None:
    """Only admitted jobs are charged."""
    jobs = {
        phase.value: make()
        for phase, make in job_records.RECORDS.items()
        if phase.value in ("queued", "draining", "done")
    }
    assert accrued(root(jobs=jobs), SLOW, 10.0).decayed_by_user == {}


def test_no_time_no_charge() -> None:
    """Time that stops or goes back charges nothing."""
    books = accrued(root(decayed_at=50.0), SLOW, 40.0)
    assert (books.decayed_by_user, books.decayed_at) == ({}, 50.0)


def test_no_project_pays_without_a_quota_file() -> None:
    """Without a quota file, the accounts do not change."""
    books = accrued(root(decayed={"blue": 8.0}), None, 1e6)
    assert books.decayed == {"blue": 8.0}
    assert books.decayed_at == 1e6


def test_the_books_are_those_of_the_root_they_are_made_from() -> None:
    """The root itself is not changed."""
    before = root(decayed={"blue": 8.0})
    copy = replace(before)
    accrued(before, HALVES, 100.0)
    assert before == copy


BUDGETS = parse(
    f"{QUOTA}[project_options.blue]\nbudget = {{ h100 = 9 }}\n"
    "[project_groups.lab]\nmembers = ['blue', 'red']\nbudget = { h100 = 9 }\n"
)


def test_what_is_held_counts_in_full_against_the_budgets_of_the_project_and_its_groups() -> None:
    """Guaranteed and borrowed usage is added to earlier usage; nothing of it decays."""
    before = {"lab": Spending(since=0.0, hours={"h100": 5.0})}
    books = accrued(root(spent=before), BUDGETS, 1800.0)
    assert {name: each.hours for name, each in books.spent.items()} == {
        "blue": {"h100": pytest.approx(1.0)},
        "lab": {"h100": pytest.approx(6.0)},
    }
    assert accrued(books, BUDGETS, 1800.0).spent == books.spent


def test_of_a_time_across_two_periods_the_part_in_the_newer_counts() -> None:
    """A bastion that was away at midnight counts from midnight on."""
    daily = Budget(hours={"h100": 9}, period="day")
    blue = replace(SLOW.projects["blue"], budget=daily)
    quota = replace(SLOW, projects={**SLOW.projects, "blue": blue})
    before = {"blue": Spending(since=0.0, hours={"h100": 5.0})}
    books = accrued(root(spent=before), quota, 86_400.0 + 1800.0)
    assert set(books.spent) == {"blue"}
    assert books.spent["blue"].since == 86_400.0
    assert books.spent["blue"].hours == pytest.approx({"h100": 1.0})


def test_what_was_used_is_kept_while_there_is_no_quota_file_and_forgotten_without_a_budget() -> (
    None
):
    """A file that cannot be read deletes no account."""
    before = {"blue": Spending(since=0.0, hours={"h100": 5.0})}
    assert accrued(root(spent=before), None, 10.0).spent == before
    assert accrued(root(spent=before), SLOW, 10.0).spent == {}
