"""The record replayed: identical under the same file, changed under another."""

from __future__ import annotations

import json
from dataclasses import replace
from random import Random
from types import SimpleNamespace
from typing import Any

import pytest

from bastion.records.root import Event
from bastion.simulator.cluster.cluster import Cluster, Shape
from bastion.simulator.engine.result import Result
from bastion.simulator.replay.difference import difference
from bastion.simulator.replay.record import decisions_of, recorded, same_starts
from bastion.simulator.replay.script import script_of
from bastion.simulator.run import simulated
from bastion.simulator.setup import Setup
from bastion.simulator.workload.generate import Recipe, generated
from quota import parse

FILE = """
[toml-schema]
version = "1"
[total_resources]
gpu = 16
[project_membership]
project-1 = [".*"]
project-2 = [".*"]
project-3 = [".*"]
[project_resources.project-1]
gpu = {first}
[project_resources.project-2]
gpu = 0.25
[project_resources.project-3]
gpu = 0.25
"""


def rows_of(result: Result) -> list[Any]:
    """Return the record that a bucket would have of `result`."""
    rows = []
    for each in result.jobs:
        for number, span in enumerate(each.spans, 1):
            is_last = number == len(each.spans)
            rows.append(
                SimpleNamespace(
                    job=each.job.name,
                    attempt=number,
                    project=each.job.project,
                    user=each.job.user,
                    submitted_at=each.job.submit_s,
                    admitted_at=span.start,
                    started_at=span.start,
                    freed_at=span.end,
                    stop_reason="preempt" if span.kind == "preempted" else None,
                    outcome="preempted" if span.kind == "preempted" else "succeeded",
                    job_outcome="succeeded" if is_last else None,
                    lost_s=0.0,
                    device_type=each.job.type,
                    devices=each.job.devices,
                    replicas=each.job.replicas,
                    priority=each.job.priority,
                    machines=tuple(span.taken),
                    request=None,
                    tasks=None,
                    ended_at=span.end,
                )
            )
    rows.sort(key=lambda row: row.freed_at)
    return rows


def setup_of(first: float = 0.5) -> Setup:
    cluster = Cluster(shapes=(Shape(count=4, devices=4),))
    return Setup(cluster=cluster, quota=parse(FILE.format(first=first)))


def history(seed: int) -> Result:
    """What happened under the file in force."""
    recipe = Recipe(jobs=80, load=1.3, projects=3, users=2, sizes="philly", skew=0.3, seed=seed)
    work = generated(recipe, 16)
    rounded = [
        job._replace(
            name=f"job-{at:04}",
            submit_s=float(round(job.submit_s)),
            priority=Random(at).choice((1, 3, 3)),
        )
        for at, job in enumerate(work.jobs)
    ]
    names = [job.name for job in rounded]
    return simulated(setup_of(), replace(work, jobs=rounded), names=names)


@pytest.mark.parametrize("seed", range(4))
def test_the_same_file_reproduces_every_recorded_decision(seed: int) -> None:
    """Each start, its machines, each stop and each end of the record repeats to the second."""
    happened = history(seed)
    then = recorded(rows_of(happened), source="record")
    again = simulated(setup_of(), then.workload, names=then.names)
    assert decisions_of(again) == then.decisions == decisions_of(happened)
    assert same_starts(then, again) == 1.0
    assert difference(happened, again).jobs == ()


def test_another_file_changes_what_it_should() -> None:
    """A project that loses its share waits longer, and the sums are those of its jobs."""
    happened = history(1)
    then = recorded(rows_of(happened), source="record")
    other = simulated(setup_of(first=0.0), then.workload, names=then.names)
    found = difference(happened, other)
    first = next(each for each in found.projects if each.project == "project-1")
    assert found.jobs
    assert first.waited_after_s > first.waited_before_s
    assert first.later == sum(
        each.sooner_s < -0.5 for each in found.jobs if each.project == "project-1"
    )


def test_a_job_that_ends_under_neither_file_is_not_changed() -> None:
    """A job that is refused under both is neither earlier nor later."""
    happened = history(1)
    refused = happened.jobs[0]._replace(outcome="refused", ended_at=None, spans=())
    both = replace(happened, jobs=[refused, *happened.jobs[1:]])
    found = difference(both, both)
    assert found.jobs == ()
    assert sum(each.sooner + each.later for each in found.projects) == 0
    assert difference(both, happened).jobs[0].sooner_s == float("inf")
    assert difference(happened, both).jobs[0].sooner_s == float("-inf")


def test_jobs_that_had_not_ended_are_left_out() -> None:
    """Their duration is unknown."""
    happened = history(2)
    rows = rows_of(happened)
    for row in rows:
        if row.job == "job-0005":
            row.job_outcome = None
    then = recorded(rows, source="record")
    assert then.left_out == 1
    assert "job-0005" not in then.names


def test_an_elastic_job_is_as_much_work_as_its_attempts_did() -> None:
    """Two hours on two devices are half an hour on eight, and what a restart lost is no work."""
    row = next(row for row in rows_of(history(2)) if row.job_outcome)
    rows: list[Any] = [SimpleNamespace(**vars(row)) for _ in range(2)]
    first, last = rows
    first.admitted_at, first.freed_at, first.devices, first.replicas = 1000.0, 8200.0, 2, 1
    first.outcome, first.stop_reason, first.job_outcome = "stopped", "resize", None
    first.lost_s = 720.0
    last.admitted_at, last.freed_at, last.devices, last.replicas = 8200.0, 11800.0, 8, 4
    last.attempt = 2
    (job,) = recorded(rows, source="record").workload.jobs
    assert (job.devices, job.replicas) == (8, 4)
    assert job.duration_s == (7200 - 720) * 2 / 8 + 3600


def test_a_time_limit_cuts_no_attempt_that_was_longer() -> None:
    """A limit counts from the start of processes, plus the notice: so it ran longer."""
    row = next(row for row in rows_of(history(2)) if row.job_outcome)
    row.request = json.dumps({"max_runtime_s": 0.9 * (row.freed_at - row.admitted_at)})
    then = recorded([row], source="record")
    again = simulated(setup_of(), then.workload, names=then.names)
    assert [each.outcome for each in again.jobs] == ["succeeded"]


def test_a_machine_whose_agent_begins_again_is_open_unless_an_admin_closed_it() -> None:
    """The bastion then forgets why it was unwell, and only reports that it is ready."""
    told = (
        ("machine unwell", "a: it is out of memory"),
        ("machine unwell", "b: it is out of memory"),
        ("machine cordoned", "b: new disk (ada)"),
        ("machine ready", "a (8 h100), life 2"),
        ("machine ready", "b (8 h100), life 2"),
        ("machine ready", "a (8 h100), life 3"),
    )
    events = [Event(n=n, at=float(n), what=what, text=text) for n, (what, text) in enumerate(told)]
    deeds = [(each.what, each.name) for each in script_of(events, since=0.0).happenings]
    assert deeds == [("cordon", "a"), ("cordon", "b"), ("cordon", "b"), ("uncordon", "a")]
