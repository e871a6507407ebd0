"""Points as tasks of an array: packed points run anywhere, with the same results."""

from __future__ import annotations

import gzip
import json
import subprocess
import sys
from pathlib import Path

import pytest

from bastion.errors import BastionError, SpecError
from bastion.simulator import Cluster, Recipe, Shape, Workload, generated
from bastion.simulator.engine.result import Result
from bastion.simulator.expectations import Limits
from bastion.simulator.run import simulated
from bastion.simulator.setup import Setup
from bastion.simulator.study.on_pool.parcel import PROGRAM, pack, unpacked
from bastion.simulator.study.on_pool.stored import decoded, encoded
from bastion.simulator.study.on_pool.task import RESULT
from bastion.simulator.study.point import Point, labelled

LIMIT_S = 120
MINE = "class Mine:\n    def rank(self, job, now):\n        return -job.submitted_at\n"


def points(*, policies: tuple[str, ...] = (), limits: Limits | None = None) -> list[Point]:
    cluster = Cluster(shapes=(Shape(count=2, devices=4),))
    work = generated(Recipe(jobs=40, load=1.3, projects=2, seed=4), 8)
    setups = [Setup(cluster=cluster, order="fifo", limits=limits)]
    setups += [Setup(cluster=cluster, policy=policy, limits=limits) for policy in policies]
    return labelled([Point(setup=setup, workload=work) for setup in setups])


def same(one: Result, two: Result) -> bool:
    """Whether they are equal except for their duration."""
    plain = [json.loads(gzip.decompress(encoded(each))) for each in (one, two)]
    for each in plain:
        del each["took_s"]
    return bool(plain[0] == plain[1])


def test_a_result_comes_back_as_it_was() -> None:
    """Every job, every number over time and every broken expectation."""
    (point,) = points(limits=Limits(max_wait_s=60.0))
    result = simulated(point.setup, point.workload)
    assert result.broken
    found = decoded(encoded(result), source="job")
    assert found.jobs == result.jobs
    assert found.broken == result.broken
    assert found.series.columns == result.series.columns
    assert found.held.times == result.held.times
    assert (found.label, found.settings, found.took_s) == (
        result.label,
        result.settings,
        result.took_s,
    )


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"not compressed", "job.3 kept cannot be read"),
        (gzip.compress(b'{"schema": 7}'), "a result of schema 7"),
        (gzip.compress(b'{"schema": 1, "jobs": [[1]]}'), "cannot be read"),
        (gzip.compress(b"[]"), "cannot be read"),
    ],
    ids=["not compressed", "another schema", "half of it", "something else"],
)
def test_what_is_damaged_is_told(data: bytes, said: str) -> None:
    """It comes from a bucket: it is never run, and never accepted as a result."""
    with pytest.raises(BastionError, match=said):
        decoded(data, source="job.3")


def test_what_is_packed_needs_a_python_and_nothing_else(tmp_path: Path) -> None:
    """Each task gives the result of its point here, without packages or files of ours."""
    policy = tmp_path / "mine.py"
    policy.write_text(MINE)
    asked = points(policies=(f"{policy}:Mine",))
    parcel, kept = tmp_path / "parcel", tmp_path / "kept"
    parcel.mkdir()
    kept.mkdir()
    pack(asked, parcel)
    policy.unlink()
    for number, point in enumerate(asked):
        ran = subprocess.run(
            [sys.executable, "-I", "-S", PROGRAM],
            cwd=parcel,
            env={"BASTION_TASK_INDEX": str(number), "BASTION_OUTPUT_DIR": str(kept)},
            capture_output=True,
            text=True,
            timeout=LIMIT_S,
            check=False,
        )
        assert ran.returncode == 0, ran.stderr
        assert ran.stderr.startswith(f"{point.setup.name}: 40 jobs\n")
        found = decoded((kept / RESULT).read_bytes(), source="job")
        again = unpacked_here(parcel, number)
        assert again.workload == point.workload
        assert same(found, simulated(again.setup, again.workload))
        assert [path.name for path in kept.iterdir()] == [RESULT]


def unpacked_here(parcel: Path, number: int) -> Point:
    """The point of a task, with its policy where it lies now."""
    from dataclasses import replace

    point = unpacked(parcel, number)
    policy = point.setup.policy and str(parcel / point.setup.policy)
    return replace(point, setup=replace(point.setup, policy=policy))


def test_equal_points_are_packed_into_equal_bytes(tmp_path: Path) -> None:
    """A repeated study sends nothing; a workload is sent once for all its points."""
    policies = tmp_path / "one" / "mine.py", tmp_path / "two" / "mine.py"
    for number, policy in enumerate(policies):
        policy.parent.mkdir()
        policy.write_text(MINE.replace("-job", "-" * (number + 1) + "job"))
    asked = points(policies=tuple(f"{policy}:Mine" for policy in policies))
    trees = []
    for name in ("a", "b"):
        folder = tmp_path / name
        folder.mkdir()
        pack(asked, folder)
        trees.append(
            {
                str(path.relative_to(folder)): path.read_bytes()
                for path in folder.rglob("*")
                if path.is_file()
            }
        )
    assert trees[0] == trees[1]
    assert sorted(trees[0]) == [
        PROGRAM,
        "points.pickle",
        "policies/0/mine.py",
        "policies/1/mine.py",
        "workload-0.pickle",
    ]


def test_a_policy_that_is_not_there_is_said_before_anything_is_sent(tmp_path: Path) -> None:
    """The error has its name."""
    with pytest.raises(SpecError, match=r"policy: gone\.py: no such file"):
        pack(points(policies=("gone.py:Mine",)), tmp_path)


def test_what_is_wrong_with_a_point_is_the_last_line_of_its_log(tmp_path: Path) -> None:
    """Bastion shows that line for a failure."""
    (point,) = points()
    wrong = Workload(jobs=[point.workload.jobs[0]._replace(devices=4000)])
    pack([Point(setup=point.setup, workload=wrong)], tmp_path)
    ran = subprocess.run(
        [sys.executable, "-I", "-S", PROGRAM],
        cwd=tmp_path,
        env={"BASTION_TASK_INDEX": "0", "BASTION_OUTPUT_DIR": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
    )
    assert ran.returncode == 1
    assert ran.stderr.splitlines()[-1].startswith("error: ")
    assert not (tmp_path / RESULT).exists()
