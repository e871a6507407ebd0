"""`--check`: errors of a quota file are found, and a good one has none."""

from __future__ import annotations

from bastion.simulator.cluster.cluster import Cluster, Shape
from bastion.simulator.engine.result import Result
from bastion.simulator.expectations import Limits
from bastion.simulator.run import simulated
from bastion.simulator.setup import Setup
from bastion.simulator.workload.job import TraceJob, Workload
from quota import parse

HALVES = """
[toml-schema]
version = "1"
[total_resources]
gpu = 8
[project_membership]
a = [".*"]
b = [".*"]
[project_resources.a]
gpu = 0.5
[project_resources.b]
gpu = 0.5
"""


def checked(text: str, *jobs: TraceJob, max_wait_s: float = 1e9) -> Result:
    setup = Setup(
        cluster=Cluster(shapes=(Shape(count=2, devices=4),)),
        quota=parse(text),
        limits=Limits(max_wait_s=max_wait_s),
    )
    return simulated(setup, Workload(jobs=jobs))


def job(name: str, submit_s: float, length: float, devices: int, project: str) -> TraceJob:
    return TraceJob(
        name=name, submit_s=submit_s, duration_s=length, devices=devices, project=project
    )


def test_a_file_that_does_what_it_says_breaks_nothing() -> None:
    """The owner of a share reclaims it from a borrower within the bound."""
    found = checked(
        HALVES,
        job("borrower", 0, 9000, 8, "a"),
        job("owner", 2000, 100, 4, "b"),
        job("last", 2100, 100, 1, "b"),
    )
    assert found.broken == ()
    assert all(each.outcome == "succeeded" for each in found.jobs)


def test_a_share_that_is_not_given_back_is_told() -> None:
    """Without preemption the owner waits until the borrower ends, far above the bound."""
    found = checked(
        HALVES + '[scheduler]\npreemption = "none"\n',
        job("borrower", 0, 9000, 8, "a"),
        job("owner", 100, 100, 4, "b"),
        job("tick", 5000, 10, 1, "b"),
    )
    assert {(each.what, each.job) for each in found.broken} == {
        ("share", "owner"),
        ("share", "tick"),
    }
    first = next(each for each in found.broken if each.job == "owner")
    assert first.at_s == 5000 and first.lasted_s == 4900 and first.reason


def test_idle_devices_and_long_waits_are_told_with_the_reason() -> None:
    """A ceiling leaves half of the devices idle while a job of the project waits."""
    found = checked(
        HALVES + "[project_options.a]\nceiling = { gpu = 0.5 }\n",
        job("runs", 0, 5000, 4, "a"),
        job("waits", 10, 100, 4, "a"),
        job("tick", 3000, 10, 1, "b"),
        max_wait_s=2000,
    )
    assert {(each.what, each.job) for each in found.broken} == {
        ("idle", "waits"),
        ("wait", "waits"),
    }
    assert all(each.reason for each in found.broken), found.broken


def test_a_job_that_starts_when_its_wait_is_noticed_is_told_with_why_it_waited() -> None:
    """The cycle in which devices become free is the first after the limit."""
    found = checked(
        HALVES,
        job("runs", 0, 5000, 8, "a"),
        job("waits", 10, 100, 8, "a"),
        max_wait_s=2000,
    )
    (broken,) = found.broken
    assert (broken.what, broken.job, broken.at_s, broken.lasted_s) == ("wait", "waits", 5000, 4990)
    assert "gpu" in broken.reason, broken.reason
