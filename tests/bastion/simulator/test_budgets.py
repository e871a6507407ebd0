"""A budget in a simulation: the first day starts with its first second; each counts separately."""

from __future__ import annotations

import pytest

from bastion.simulator.cluster.cluster import Cluster, Shape
from bastion.simulator.expectations import Limits
from bastion.simulator.run import simulated
from bastion.simulator.setup import Setup
from bastion.simulator.workload.job import TraceJob, Workload
from quota import parse

DAY_S = 86_400.0
HOUR_S = 3_600.0
DAILY = """
[toml-schema]
version = "1"
[total_resources]
gpu = 8
[project_membership]
a = [".*"]
b = [".*"]
[project_resources.a]
gpu = 0.5
[project_groups.lab]
members = ["a"]
budget = { gpu = 8 }
budget_period = "day"
"""


def starts(*jobs: TraceJob, quota: str = DAILY) -> dict[str, float | None]:
    """Return when each job first started."""
    setup = Setup(cluster=Cluster(shapes=(Shape(count=2, devices=4),)), quota=parse(quota))
    found = simulated(setup, Workload(jobs=jobs))
    return {each.job.name: each.first_start for each in found.jobs}


def job(name: str, submit_h: float, hours: float, devices: int, project: str = "a") -> TraceJob:
    """Return a job that lasts that many hours."""
    return TraceJob(
        name=name,
        submit_s=submit_h * HOUR_S,
        duration_s=hours * HOUR_S,
        devices=devices,
        project=project,
    )


def test_a_job_starts_when_the_budget_of_its_group_is_renewed() -> None:
    """Four devices for two hours are eight; running jobs finish."""
    found = starts(job("first", 0, 3, 4), job("second", 2.5, 1, 4), job("other", 2.5, 1, 4, "b"))
    assert found["first"] == 0
    assert found["second"] == pytest.approx(DAY_S, abs=2)
    assert found["other"] == pytest.approx(2.5 * HOUR_S, abs=2)


def test_a_lone_job_waits_for_the_next_day_too() -> None:
    """It does so even if nothing else would start a cycle."""
    found = starts(job("first", 0, 2.5, 4), job("second", 3, 1, 1), job("third", 50, 1, 1))
    assert found["second"] == pytest.approx(DAY_S, abs=2)
    assert found["third"] == pytest.approx(50 * HOUR_S, abs=2)


def test_a_job_that_waits_for_a_budget_breaks_no_promise_of_the_quota_file() -> None:
    """Until then it has no claim on its share or idle devices; its wait is still too long."""
    setup = Setup(
        cluster=Cluster(shapes=(Shape(count=2, devices=4),)),
        quota=parse(DAILY),
        limits=Limits(max_wait_s=10 * HOUR_S),
    )
    found = simulated(setup, Workload(jobs=(job("first", 0, 2, 4), job("second", 3, 1, 4))))
    assert [(each.what, each.job) for each in found.broken] == [("wait", "second")]


def test_without_a_budget_it_starts_at_once() -> None:
    """The same jobs have the same shares."""
    plain = DAILY.replace("budget = { gpu = 8 }\n", "").replace('budget_period = "day"\n', "")
    found = starts(job("first", 0, 3, 4), job("second", 2.5, 1, 4), quota=plain)
    assert found["second"] == pytest.approx(2.5 * HOUR_S, abs=2)
