"""Traces: what is read, and what is said of a bad one."""

from __future__ import annotations

from pathlib import Path

import pytest

from bastion.errors import SpecError
from bastion.simulator import TraceJob, read_trace, simulate, write_trace
from bastion.simulator.cluster.words import cluster_of
from bastion.simulator.run import fitted


def trace(folder: Path, text: str, name: str = "t.csv") -> Path:
    path = folder / name
    path.write_text(text)
    return path


def test_published_columns_and_dates_are_understood(tmp_path: Path) -> None:
    """`timestamp`, `num_gpus` and `vc` are `submit`, `devices` and `project`."""
    found = read_trace(
        trace(tmp_path, "timestamp,duration,num_gpus,vc\n1970-01-01 00:01:00,5.5,4,x\n")
    )
    assert found.jobs == [
        TraceJob(name="job-0", submit_s=60, duration_s=5.5, devices=4, project="x", line=2)
    ]


def test_json_says_the_same_as_csv(tmp_path: Path) -> None:
    """An array, an object with `jobs`, and one object a line are read."""
    row = '{"submit": 1, "duration": 2}'
    for name, text in (
        ("a.json", f"[{row}]"),
        ("b.json", f'{{"jobs": [{row}]}}'),
        ("c.jsonl", row),
    ):
        job = read_trace(trace(tmp_path, text, name)).jobs[0]
        assert (job.submit_s, job.duration_s) == (1, 2)


def test_what_is_written_is_read_again(tmp_path: Path) -> None:
    """A trace that was written is the same workload."""
    found = read_trace(trace(tmp_path, "submit,duration,devices,priority\n1,2,3,4\n1.5,2.25,1,1\n"))
    write_trace(found, tmp_path / "again.csv")
    assert read_trace(tmp_path / "again.csv").jobs == found.jobs


def test_every_bad_row_is_named_with_its_line(tmp_path: Path) -> None:
    """All problems are told at once, and with `skip_bad` the rest is read and they are kept."""
    path = trace(
        tmp_path, "submit,duration,devices\n-1,5,1\n2,-5,1\n3,5,x\n,5,1\n4,5,1\nnan,inf,0.5\n"
    )
    with pytest.raises(SpecError) as caught:
        read_trace(path)
    lines = [problem.split(":")[1].strip() for problem in caught.value.problems]
    assert lines == ["line 2", "line 3", "line 4", "line 5", "line 7"]
    found = read_trace(path, skip_bad=True)
    assert (len(found.jobs), len(found.skipped)) == (1, 5)


def test_a_missing_column_is_named_with_the_nearest(tmp_path: Path) -> None:
    """Nothing is read from a file without a needed column."""
    with pytest.raises(SpecError, match=r"no column duration.*nearest is duratoin"):
        read_trace(trace(tmp_path, "submit,duratoin\n1,2\n"))


def test_an_unsorted_trace_is_sorted_and_said_so(tmp_path: Path) -> None:
    """The first row out of order is named."""
    found = read_trace(trace(tmp_path, "submit,duration\n5,1\n3,1\n4,1\n"))
    assert [job.submit_s for job in found.jobs] == [3, 4, 5]
    assert "first line 3" in found.notes[0]


def test_jobs_that_fit_no_machines_are_named(tmp_path: Path) -> None:
    """Too many devices, too large a replica and an unknown type, each with its line."""
    path = trace(
        tmp_path,
        "submit,duration,devices,replicas,type\n1,1,99,,\n1,1,8,1,\n1,1,1,,tpu\n1,1,1,,\n",
    )
    with pytest.raises(SpecError) as caught:
        fitted(read_trace(path), cluster_of("4x4"))
    told = "\n".join(caught.value.problems)
    assert "line 2: job-0 asks for 99 gpu; the cluster has 16" in told
    assert "line 3: job-1 asks for 8 gpu a replica; the largest machine has 4" in told
    assert "line 4: job-2 type tpu is not in the cluster; allowed: gpu" in told
    assert len(fitted(read_trace(path), cluster_of("4x4"), skip_bad=True).jobs) == 1


@pytest.mark.parametrize(
    "given", [{"order": "fofi"}, {"shares": "fair"}, {"policy": "none.py:X"}, {"admission": "x"}]
)
def test_an_unknown_policy_is_named_before_anything_runs(
    tmp_path: Path, given: dict[str, str]
) -> None:
    """The error names what was written."""
    path = trace(tmp_path, "submit,duration\n1,2\n")
    with pytest.raises(SpecError, match=next(iter(given.values())).partition(":")[0]):
        simulate(path, machines="1x1", **given)  # type: ignore[arg-type]
