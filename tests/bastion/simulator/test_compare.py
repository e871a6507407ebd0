"""Concurrent simulations in separate programs that are interrupted, die and are reported."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from bastion.errors import BastionError
from bastion.simulator import Cluster, Recipe, Shape, Workload, generated
from bastion.simulator.run import simulated
from bastion.simulator.setup import Setup
from bastion.simulator.study.compare import run_points
from bastion.simulator.study.point import Point, labelled

LIMIT_S = 60
"""For what ends at once, on a machine that does much else."""

STUCK = """
import os

class Stuck:
    def rank(self, job, now):
        with open({begun!r}, "w") as file:
            file.write(str(os.getpid()))
        os.rename({begun!r}, {begun!r} + ".done")
        while True:
            try:
                while True:
                    pass
            except KeyboardInterrupt:
                pass
"""
DYING = """
import os, signal

class Killed:
    def rank(self, job, now):
        os.kill(os.getpid(), signal.SIGKILL)

class Left:
    def rank(self, job, now):
        os._exit(7)
"""


def work(jobs: int = 20) -> Workload:
    return generated(Recipe(jobs=jobs, load=3.0, projects=3, seed=1), 16)


def points(jobs: Workload, *policies: str, orders: Sequence[str] = ()) -> list[Point]:
    cluster = Cluster(shapes=(Shape(count=4, devices=4),))
    setups = [Setup(cluster=cluster, policy=policy) for policy in policies]
    setups += [Setup(cluster=cluster, order=order) for order in orders]
    return labelled([Point(setup=setup, workload=jobs) for setup in setups])


def stuck(folder: Path) -> tuple[str, Path]:
    """Return a policy that never returns, and the file with its pid once it runs."""
    policy = folder / "stuck.py"
    policy.write_text(STUCK.format(begun=str(folder / "begun")))
    return f"{policy}:Stuck", folder / "begun.done"


def test_a_program_of_its_own_gives_what_this_one_gives() -> None:
    """Every job ends as in a simulation of this process, and nothing is forked."""
    forks: list[int] = []
    os.register_at_fork(before=lambda: forks.append(1))
    asked = points(work(), orders=("fifo", "las", "fair"))
    runs = run_points(asked, cores=2)
    assert [result.label for result in runs.results] == ["fifo", "las", "fair"]
    for point, result in zip(asked, runs.results):
        assert result.jobs == simulated(point.setup, point.workload).jobs
    assert (runs.failed, runs.left_out, forks) == ({}, [], [])


def test_main_is_not_run_again(tmp_path: Path) -> None:
    """A script without a guard, and with a thread, compares policies and runs once."""
    script = tmp_path / "mine.py"
    script.write_text(
        "import threading, sys\n"
        "print('begun')\n"
        "threading.Thread(target=threading.Event().wait, daemon=True).start()\n"
        "from bastion.simulator import Recipe, generated, simulate\n"
        "jobs = generated(Recipe(jobs=5), devices=8)\n"
        "print(len(simulate(jobs, machines='2x4', order=['fifo', 'las']).results))\n"
    )
    ran = subprocess.run(
        [sys.executable, str(script)], capture_output=True, text=True, timeout=LIMIT_S, check=True
    )
    assert ran.stdout == "begun\n2\n"


def test_what_fails_on_the_way_out_of_an_interrupt_is_an_interrupt() -> None:
    """An interrupted cycle may fail while it is undone; other failures are raised."""
    setup = points(work(), orders=("fifo",))[0].setup

    def interrupted(*_: object) -> None:
        try:
            raise KeyboardInterrupt
        finally:
            [].pop()

    assert simulated(setup, work(), progress=interrupted).is_partial
    with pytest.raises(IndexError):
        simulated(setup, work(), progress=lambda *_: [].pop())


def test_an_interrupt_leaves_a_partial_result() -> None:
    """Every started simulation ends with what it has; the others are named."""
    asked = points(work(20_000), orders=("fair", "fifo", "las"))
    left = [1]

    def told(parts: Sequence[float]) -> None:
        if left and min(parts[:2]) > 0:
            left.pop()
            os.kill(os.getpid(), signal.SIGINT)

    runs = run_points(asked, cores=2, told=told)
    assert [result.label for result in runs.results] == ["fair", "fifo"]
    assert all(result.is_partial for result in runs.results)
    assert all(any(job.outcome == "succeeded" for job in each.jobs) for each in runs.results)
    assert runs.left_out == ["las"]


def test_a_second_interrupt_ends_what_does_not_end_by_itself(tmp_path: Path) -> None:
    """A policy that ignores the first is left out, and its process is gone."""
    policy, begun = stuck(tmp_path)

    def told(parts: Sequence[float]) -> None:
        del parts
        if begun.exists():
            os.kill(os.getpid(), signal.SIGINT)

    runs = run_points(points(work(), policy, orders=("fifo",)), cores=1, told=told)
    assert (runs.results, runs.failed, runs.left_out) == ([], {}, ["Stuck", "fifo"])
    with pytest.raises(ProcessLookupError):
        os.kill(int(begun.read_text()), 0)


def test_a_process_that_dies_is_named_and_the_others_go_on(tmp_path: Path) -> None:
    """The message has the signal or the exit code; the other results are complete."""
    dying = tmp_path / "dying.py"
    dying.write_text(DYING)
    runs = run_points(points(work(), f"{dying}:Killed", f"{dying}:Left", orders=("fifo",)))
    assert [result.label for result in runs.results] == ["fifo"]
    assert not runs.results[0].is_partial
    assert {label: str(error) for label, error in runs.failed.items()} == {
        "Killed": "Killed: its process was killed by SIGKILL",
        "Left": "Left: its process ended with exit code 7",
    }
    assert "memory" in runs.failed["Killed"].hint


def test_nothing_but_failures_is_an_error() -> None:
    """A wrong point has the same error as when it runs alone."""
    asked = points(work(), "no_such.py:Mine", "no_such.py:Other")
    with pytest.raises(BastionError, match=r"no_such\.py: no such file"):
        run_points(asked, cores=2)


def test_a_parent_that_dies_takes_its_points_along(tmp_path: Path) -> None:
    """A point whose parent was killed ends, even within a policy that never returns."""
    policy, begun = stuck(tmp_path)
    script = (
        "from bastion.simulator import Recipe, generated, simulate\n"
        "def told(parts):\n"
        f"    import os; os.path.exists({str(begun)!r}) and os.kill(os.getpid(), 9)\n"
        "simulate(generated(Recipe(jobs=5), devices=8), machines='2x4',"
        f" policy={policy!r}, order='fifo', told=told)\n"
    )
    parent = subprocess.Popen([sys.executable, "-c", script])
    try:
        assert parent.wait(LIMIT_S) == -signal.SIGKILL
    finally:
        parent.kill()
        parent.wait(LIMIT_S)
    try:
        child = os.pidfd_open(int(begun.read_text()))
    except ProcessLookupError:
        return
    try:
        assert select.select([child], [], [], LIMIT_S)[0], "it still runs"
    finally:
        os.close(child)
