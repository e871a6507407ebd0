"""A study on the machines of a pool: one job per point, and the numbers of this machine."""

from __future__ import annotations

import json
import os
import signal
from typing import Any

import pytest

from bastion.simulator import Cluster, Recipe, Shape, generated
from bastion.simulator.setup import Setup
from bastion.simulator.study.on_pool.run import Pool, run_on_pool
from bastion.simulator.study.point import Point, labelled
from tests.end_to_end.programs import Programs, until

pytestmark = pytest.mark.end_to_end

STUDY = ("simulate", "--machines=2x4", "--load=20,30", "--jobs=40", "--round=300", "--ideal")
POLICIES = """
import time

class Mine:
    def rank(self, job, now):
        return job.attained_s * job.devices

class Wrong:
    def rank(self, job, now):
        raise ValueError("no rank")

class Stuck:
    def rank(self, job, now):
        while True:
            time.sleep(60)
"""


def study(printed: str) -> dict[str, Any]:
    """Return its numbers, without its duration."""
    found: dict[str, Any] = json.loads(printed)
    for each in found["simulations"]:
        del each["took_s"]
    return found


def ended(programs: Programs, array: str) -> dict[str, int]:
    """Return how many tasks of a failing `array` ended how, before its last one ends."""
    (view,) = programs.client.all_named(array)
    return dict(view.counts) if view.state == "failed" else {}


def test_a_sweep_on_a_pool_gives_what_it_gives_here(programs: Programs) -> None:
    """Each point is a task of one array; a failure is reported, and the others are complete."""
    (programs.project / "mine.py").write_text(POLICIES)
    both = (*STUDY, "--order=fifo,las", "--policy=mine.py:Mine", "--json")
    ran = programs.run(*both, f"--on={programs.place.url}")
    assert study(ran.stdout) == study(programs.run(*both).stdout)

    ran = programs.run(
        *STUDY, "--policy=mine.py:Wrong", "--order=fifo", f"--on={programs.place.url}", check=False
    )
    assert ran.returncode == 1
    assert [line.split()[0] for line in ran.stdout.splitlines()] == ["POLICY", "fifo", "fifo"]
    array = next(line for line in ran.stderr.splitlines() if " runs 4 simulations" in line)
    # A result exists before its task has left its machine.
    until(lambda: ended(programs, array.split()[0]), "the tasks of the sweep have ended")
    assert ended(programs, array.split()[0]) == {"failed": 2, "succeeded": 2}
    for load in (20, 30):
        told = f"Wrong at {load}/h is not included in the numbers: simulate-"
        (line,) = (line for line in ran.stderr.splitlines() if line.startswith(told))
        assert "exited with code 1: error: policy: " in line
        assert "mine.py:10: ValueError: no rank (job job-" in line


def test_an_interrupt_cancels_the_array_and_keeps_what_has_ended(programs: Programs) -> None:
    """Missing points are named, and nothing continues in the pool."""
    policy = programs.project / "stuck.py"
    policy.write_text(POLICIES)
    cluster = Cluster(shapes=(Shape(count=2, devices=4),))
    work = generated(Recipe(jobs=20, load=1.0), 8)
    setups = [
        Setup(cluster=cluster, order="fifo"),
        Setup(cluster=cluster, policy=f"{policy}:Stuck", round_s=300.0),
    ]
    notes: list[str] = []

    def told(parts: object) -> None:
        if parts == [1.0, 0.0] and len(notes) == 1:
            os.kill(os.getpid(), signal.SIGINT)

    runs = run_on_pool(
        labelled([Point(setup=setup, workload=work) for setup in setups]),
        Pool(client=programs.client),
        told=told,
        note=notes.append,
    )
    assert [result.label for result in runs.results] == ["fifo"]
    assert (runs.failed, runs.left_out) == ({}, ["Stuck"])
    (view,) = programs.client.all_named(notes[0].split()[0])
    assert dict(view.counts) == {"succeeded": 1, "cancelled": 1}
