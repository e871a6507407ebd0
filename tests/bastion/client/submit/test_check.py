"""The check of a launch, as a function of the launch and its inputs."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from bastion.client.submit.check import check
from bastion.client.submit.context import LaunchContext, read_context
from bastion.errors import NotFoundError, SpecError
from bastion.spec import Job, Launch, Process, Resources
from bastion.value import replace
from quota.amounts import Amounts
from quota.file.config import parse
from tests.rigs.scripted_bastion import QUOTA


def launch_of(*, after: tuple[str, ...] = (), instance_type: str = "", **asked: int) -> Launch:
    """Return a launch of one job of one process."""
    process = Process(["true"], resources=Resources(**asked))
    job = Job(name="main", processes=(process,), instance_type=instance_type)
    return Launch(name="check", jobs=(job,), after=after)


def test_every_kind_of_problem_is_told_at_once() -> None:
    """A wrong type, instance type, project and target are one refusal."""
    context = LaunchContext(problems=("project: no", "after: no job 'x'"), hint="look")
    with pytest.raises(SpecError) as caught:
        check(launch_of(instance_type="a9", h1oo=1), context)
    wrong = caught.value.problems
    assert [text.split(":")[0] for text in wrong] == [
        "jobs.main.instance_type",
        "project",
        "after",
        "resources.h1oo",
    ]


def test_a_wait_before_a_retry_that_would_be_cut_is_refused() -> None:
    """An unlimited wait is refused, not silently cut to an hour."""
    context = LaunchContext(project="blue", user="ada", types=frozenset({"v4"}))
    for asked, is_good in (("1h", True), ("2h", False)):
        job = Job(processes=[Process(["true"])], retries=1, retry_backoff=asked)
        if is_good:
            assert check(Launch(name="x", jobs=[job]), context).jobs
            continue
        with pytest.raises(SpecError, match="retry_backoff: 2h is not allowed; at most 1h"):
            check(Launch(name="x", jobs=[job]), context)


def test_a_scope_of_a_stop_that_never_comes_is_refused() -> None:
    """Without a stop of others it would be ignored; with it, it is accepted."""
    context = LaunchContext(project="blue", user="ada", types=frozenset({"v4"}))
    job = Job(processes=[Process(["true"])], scope="launch", on_failure="stop_others")
    check(Launch(name="x", jobs=[job]), context)
    with pytest.raises(SpecError, match="scope: 'launch' is for on_failure='stop_others'"):
        check(Launch(name="x", jobs=[replace(job, on_failure="continue")]), context)


def test_what_is_right_is_written_out() -> None:
    """The request has the project, the ids of targets and the instance type's resources."""
    context = LaunchContext(project="blue", types=frozenset({"h100"}), targets={"prep": "prep-1"})
    made = check(launch_of(after=("prep",), instance_type="a3-highgpu-8g"), context)
    assert made.project == "blue"
    assert [each.job for each in made.waits_for] == ["prep-1"]
    assert made.jobs[0].per_replica["h100"] == 8


def test_what_the_quota_file_never_lets_start_is_refused_before_anything_is_sent() -> None:
    """The check knows the limits that the bastion would refuse by, with their lines."""
    quota = parse(QUOTA + "[project_options.green]\nlend = { v4 = 0 }\n")
    context = LaunchContext(project="blue", user="ada", types=frozenset({"v4"}), quota=quota)
    with pytest.raises(SpecError) as caught:
        check(launch_of(v4=513), context)
    assert caught.value.problems == (
        "asks for 513 v4, and blue can never hold more than 512: green keeps 512 v4 that it does"
        " not lend; ask for less, or an admin changes project_options.green.lend.v4, line 14",
    )
    assert check(launch_of(v4=512), context).jobs


def test_machines_are_read_only_for_a_type_that_is_known_nowhere_else() -> None:
    """A launch of known types costs no read; without targets, no job is looked up."""
    reads: list[str] = []

    def machines() -> Iterable[Amounts]:
        reads.append("machines")
        return [Amounts({"odd": 1})]

    def find(name: str, project: str) -> str:
        reads.append(f"{project}/{name}")
        raise NotFoundError(f"no job {name!r}")

    def context_of(launch: Launch) -> LaunchContext:
        quota = parse(QUOTA)
        return read_context(
            launch, quota=quota, user="ada", project="", machines=machines, find=find
        )

    assert context_of(launch_of(h100=1)).project == "blue"
    assert reads == []
    assert "odd" in context_of(launch_of(odd=1)).types
    assert reads == ["machines"]
    found = context_of(launch_of(after=("prep",), h100=1))
    assert reads[1:] == ["blue/prep"]
    assert found.problems == ("after: no job 'prep'",)
