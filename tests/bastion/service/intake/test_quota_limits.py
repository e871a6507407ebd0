"""Refusals and defaults of a launch by the limits of the quota file."""

from __future__ import annotations

from typing import Any

import pytest

from bastion.records.requests.job_request import UpdateRequest
from bastion.spec import Array, Indices, Job, Process, Resources
from tests.rigs.leader import QUOTA, Rig

LIMITS = f"""{QUOTA}
[project_options.blue]
default_max_runtime = "8h"
max_max_runtime = "1d"
max_units_per_user = {{ h100 = 6 }}
max_running_per_user = 2
[project_options.blue.users.ben]
max_max_runtime = "2h"
default_max_runtime = "1h"
max_units = {{ h100 = 2 }}
[project_options.red]
lend = {{ h100 = 0.5 }}
"""
DAY_S = 86400.0


def job(name: str = "main", *, h100: int = 1, **fields: Any) -> Job:
    """Return a job of one process."""
    process = Process(["true"], resources=Resources(**({"h100": h100} if h100 else {})))
    return Job(name=name, processes=(process,), **fields)


def problems(rig: Rig, *jobs: Job, user: str = "ann", project: str = "blue") -> tuple[str, ...]:
    """Return why a launch of `jobs` is refused."""
    asked = rig.launch(jobs=jobs, user=user, project=project)
    rig.turn()
    answer = rig.answer(asked, user=user, project=project)
    assert not answer.accepted
    assert not rig.root.jobs
    return answer.problems


@pytest.mark.parametrize(
    ("user", "asked", "limit_s", "told_s"),
    [
        ("ann", None, 8 * 3600.0, 8 * 3600.0),
        ("ben", None, 3600.0, 3600.0),
        ("ann", "1d", DAY_S, None),
    ],
)
def test_a_job_without_a_limit_gets_the_default(
    user: str, asked: str | None, limit_s: float, told_s: float | None
) -> None:
    """It is the default of its user; the agents are told what the spec does not say."""
    rig = Rig(quota=LIMITS)
    name = rig.submit("one", user=user, jobs=(job(max_runtime=asked),))
    found = rig.root.jobs[name]
    assert found.request.max_runtime_s == limit_s
    assert found.revised_limit_s == told_s


def test_a_job_of_a_project_without_limits_stays_as_it_is() -> None:
    """No limit is added."""
    rig = Rig(quota=LIMITS)
    name = rig.submit("one", user="cat", project="red")
    assert rig.root.jobs[name].request.max_runtime_s is None
    assert rig.root.jobs[name].revised_limit_s is None


def test_tasks_of_an_array_get_the_default_too() -> None:
    """The record from which all tasks are made has it."""
    rig = Rig(quota=LIMITS)
    array = rig.submit("sweep", jobs=(job(),), array=Array(tasks=Indices([(0, 9)])))
    each = rig.root.arrays[array].each
    assert each.request.max_runtime_s == each.revised_limit_s == 8 * 3600.0


@pytest.mark.parametrize(("user", "longest", "line"), [("ann", "1d", 20), ("ben", "2h", 24)])
def test_a_longer_run_than_is_allowed_is_refused(user: str, longest: str, line: int) -> None:
    """The error has the limit of the user and the line of the file."""
    users = ".users.ben" if user == "ben" else ""
    assert problems(Rig(quota=LIMITS), job(max_runtime="2d"), user=user) == (
        f"jobs.main.max_runtime: 2d is more than the {longest} that blue allows; ask for less, or"
        f" an admin changes project_options.blue{users}.max_max_runtime, line {line}",
    )


def test_a_run_that_is_a_little_too_long_is_not_rounded() -> None:
    """Both durations are shown as they are: a day and a minute are more than a day."""
    (told,) = problems(Rig(quota=LIMITS), job(max_runtime="24h1m"))
    assert told.startswith("jobs.main.max_runtime: 1d1m is more than the 1d that blue allows;")


def test_what_can_never_be_lent_is_refused() -> None:
    """The error has the possible number, why, and the line that an admin would change."""
    quota = LIMITS.replace("max_units_per_user = { h100 = 6 }\n", "")
    assert problems(Rig(quota=quota), job("a", h100=7), job("b", h100=6)) == (
        "asks for 13 h100, and blue can never hold more than 12: red keeps 4 h100 that it does not"
        " lend; ask for less, or an admin changes project_options.red.lend.h100, line 27",
    )


def test_a_gang_beyond_the_limits_of_its_user_is_refused() -> None:
    """Units and jobs that could never be held at the same time are named, each with its line."""
    gang = [job(name, h100=h100) for name, h100 in (("a", 4), ("b", 4), ("c", 0))]
    assert problems(Rig(quota=LIMITS), *gang) == (
        "asks for 8 h100 at once, and ann may have 6 in blue; ask for less, or an admin changes"
        " project_options.blue.max_units_per_user.h100, line 21",
        "starts 3 jobs together, and ann may have 2 running in blue; submit fewer, or an admin"
        " changes project_options.blue.max_running_per_user, line 22",
    )
    (told,) = problems(Rig(quota=LIMITS), job(h100=3), user="ben")
    assert told.endswith("project_options.blue.users.ben.max_units.h100, line 26")


def test_a_limit_is_named_where_the_file_has_it() -> None:
    """A user with a limit of one type has the project's limit of the others."""
    quota = LIMITS.replace("h100 = 16", "h100 = 16\nv4 = 16").replace("{ h100 = 2 }", "{ v4 = 2 }")
    (told,) = problems(Rig(quota=quota), job(h100=8), user="ben")
    assert told == (
        "asks for 8 h100 at once, and ben may have 6 in blue; ask for less, or an admin changes"
        " project_options.blue.max_units_per_user.h100, line 22"
    )


def test_jobs_that_start_apart_are_looked_at_apart() -> None:
    """Limits concern concurrent usage: three jobs that need not run together are accepted."""
    rig = Rig(quota=LIMITS)
    gang = tuple(job(name, h100=4) for name in "abc")
    asked = rig.launch(jobs=gang, together=False)
    rig.turn()
    assert rig.answer(asked).accepted


def test_a_job_that_must_not_borrow_fits_its_share() -> None:
    """More than the share is refused, and so is a job without a share."""
    quota = LIMITS.replace("{ h100 = 6 }", "{ h100 = 16 }")
    assert problems(Rig(quota=quota), job(h100=9, borrow=False)) == (
        "asks for 9 h100 with borrow = false, and the share of blue is 8: ask for less, let it"
        " borrow, or an admin changes project_resources.blue.h100, line 10",
    )
    assert problems(Rig(quota=quota), job(h100=0, borrow=False)) == (
        "jobs.main.borrow: false is not possible for a job that asks for nothing under quota: it"
        " can only borrow; submit it without --no_borrow",
    )
    assert problems(Rig(quota=quota), job("a", h100=8), job("b", h100=1, borrow=False)) == (
        "asks for 9 h100 with borrow = false, and the share of blue is 8: ask for less, let it"
        " borrow, or an admin changes project_resources.blue.h100, line 10",
    )
    rig = Rig(quota=quota)
    assert not rig.root.jobs
    name = rig.submit("one", jobs=(job(h100=8, borrow=False),))
    assert not rig.root.jobs[name].request.borrow


def test_what_is_not_under_quota_needs_a_project_that_borrows() -> None:
    """Such a job has no share, unless it starts together with one that has."""
    quota = LIMITS.replace("max_running_per_user = 2", "borrow = false")
    (told,) = problems(Rig(quota=quota), job(h100=0))
    assert told == (
        "jobs.main: asks for nothing under quota, so it can only borrow, and blue does not"
        " borrow; charge it to another project, or an admin changes project_options.blue.borrow,"
        " line 22"
    )
    for whole in (True, False):
        rig = Rig(quota=quota)
        asked = rig.launch(jobs=(job("a", h100=4), job("b", h100=0, borrow=whole)))
        rig.turn()
        assert rig.answer(asked).accepted


def test_an_update_keeps_to_the_longest_run() -> None:
    """The limit of the user who submitted it applies to a job and to an array."""
    rig = Rig(quota=LIMITS)
    one = rig.submit("one", jobs=(job(hold=True),))
    many = rig.submit("many", jobs=(job(hold=True),), array=Array(tasks=Indices([(0, 9)])))
    for target in (one, many):
        asked = rig.ask(
            "ann", "blue", "update", UpdateRequest(targets=(target,), max_runtime_s=2 * DAY_S)
        )
        rig.turn()
        (problem,) = rig.answer(asked).problems
        assert problem.startswith(f"{target}.max_runtime: 2d is more than the 1d that blue allows")
    asked = rig.ask("ann", "blue", "update", UpdateRequest(targets=(many,), max_runtime_s=DAY_S))
    rig.turn()
    assert rig.answer(asked).accepted
    assert rig.root.arrays[many].each.revised_limit_s == DAY_S
