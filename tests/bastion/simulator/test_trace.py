"""Traces: what is read, and the errors of a bad one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from bastion.errors import SpecError
from bastion.simulator import (
    Recipe,
    TraceJob,
    Workload,
    generated,
    read_trace,
    simulate,
    write_trace,
)
from bastion.simulator.cluster.words import cluster_of
from bastion.simulator.fitting import fitted, fitting
from quota import parse


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


PHILLY = """[
{"status": "Pass", "vc": "6214e9", "jobid": "application_1_10", "user": "ce9f7f",
 "submitted_time": "2017-10-07 01:21:32", "attempts": [
  {"start_time": "2017-10-07 01:21:37", "end_time": "2017-10-07 01:24:17",
   "detail": [{"ip": "m415", "gpus": ["gpu0", "gpu1"]}, {"ip": "m416", "gpus": ["gpu0"]}]},
  {"start_time": "2017-10-07 02:00:00", "end_time": "2017-10-07 02:00:40",
   "detail": [{"ip": "m415", "gpus": ["gpu0"]}]}]},
{"status": "Killed", "vc": "b", "jobid": "application_1_11", "user": "u",
 "submitted_time": "2017-10-07 01:22:00", "attempts": []}]"""


@pytest.mark.parametrize("project", ["team a", "ml/vision", "<b>x</b>", "-x", "a" * 64])
def test_a_project_that_no_quota_file_can_have_is_a_bad_row(project: str, tmp_path: Path) -> None:
    """Its share could not be written, which was a mistake of ours; others are run without it."""
    path = trace(tmp_path, f"submit,duration,project\n1,2,{project}\n3,4,b.c_d-9\n")
    with pytest.raises(SpecError, match=r"line 2: project: '.*' is not a project's name; allowed"):
        read_trace(path)
    assert [job.project for job in read_trace(path, skip_bad=True).jobs] == ["b.c_d-9"]


def test_the_published_file_of_the_philly_trace_is_read_as_it_is(tmp_path: Path) -> None:
    """Attempts are the work and the widest has the devices; a job that never ran is told."""
    path = trace(tmp_path, PHILLY, "cluster_job_log")
    with pytest.raises(SpecError, match="item 2: duration is empty"):
        read_trace(path)
    found = read_trace(path, skip_bad=True)
    assert [
        (job.name, job.duration_s, job.devices, job.project, job.user) for job in found.jobs
    ] == [("application_1_10", 200.0, 3, "6214e9", "ce9f7f")]
    assert (
        found.jobs[0].submit_s
        == read_trace(trace(tmp_path, "submit,duration\n2017-10-07 01:21:32,1\n")).jobs[0].submit_s
    )
    assert len(found.skipped) == 1


def test_what_is_written_is_read_again(tmp_path: Path) -> None:
    """A written trace is read back as the same workload."""
    found = read_trace(trace(tmp_path, "submit,duration,devices,priority\n1,2,3,4\n1.5,2.25,1,1\n"))
    write_trace(found, tmp_path / "again.csv")
    assert read_trace(tmp_path / "again.csv").jobs == found.jobs


def test_a_row_with_more_cells_than_columns_is_bad(tmp_path: Path) -> None:
    """A comma in a name moves all behind it by one column; empty cells at the end say nothing."""
    path = tmp_path / "trace.csv"
    path.write_text('submit,duration,devices,name\n0,1,1,a,b\n1,1,1,c,,\n2,1,1,"d,e"\n')
    with pytest.raises(SpecError, match="line 2: has cells that no column is for: 'b'"):
        read_trace(path)
    assert [job.name for job in read_trace(path, skip_bad=True).jobs] == ["c", "d,e"]


def test_every_bad_row_is_named_with_its_line(tmp_path: Path) -> None:
    """All problems are reported together; with `skip_bad` the rest is read."""
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
    with pytest.raises(
        SpecError, match=r"no column duration; columns there: submit, duratoin; nearest is duratoin"
    ):
        read_trace(trace(tmp_path, "submit,duratoin\n1,2\n"))


def test_an_unsorted_trace_is_sorted_and_said_so(tmp_path: Path) -> None:
    """The first row out of order is named."""
    found = read_trace(trace(tmp_path, "submit,duration\n5,1\n3,1\n4,1\n"))
    assert [job.submit_s for job in found.jobs] == [3, 4, 5]
    assert found.notes == ("2 rows are not in the order of submission, first line 3: sorted",)
    found = read_trace(trace(tmp_path, "submit,duration\n5,1\n3,1\n"))
    assert found.notes[0].startswith("1 row is not")


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


def test_rows_cells_machines_and_projects_are_judged_in_one_pass(tmp_path: Path) -> None:
    """A bad cell, an oversized job and an unknown type are told together, in the order of lines."""
    path = trace(tmp_path, "submit,duration,devices,type\n-1,5,1,\n1,1,99,\n1,1,1,tpu\n2,1,1,\n")
    fits = fitting(cluster_of("4x4"))
    with pytest.raises(SpecError) as caught:
        read_trace(path, fits=fits)
    assert [problem.split(":")[1].strip() for problem in caught.value.problems] == [
        "line 2",
        "line 3",
        "line 4",
    ]
    found = read_trace(path, fits=fits, skip_bad=True)
    assert (len(found.jobs), len(found.skipped)) == (1, 3)


def test_a_project_that_the_quota_file_lacks_is_named_up_front(tmp_path: Path) -> None:
    """Its rows are reported together, with the first lines and the existing projects."""
    rows = "".join(f"{at},1,{'x' if at % 2 else 'vision'}\n" for at in range(12))
    path = trace(tmp_path, "submit,duration,project\n" + rows)
    quota = parse(
        '[toml-schema]\nversion = "1"\n[total_resources]\ngpu = 16\n'
        '[project_membership]\nvision = [".*"]\n[project_resources.vision]\ngpu = 1.0\n'
    )
    told = "t.csv: lines 3, 5, 7 and 3 more: project x is not in the quota file, allowed is vision"
    with pytest.raises(SpecError) as caught:
        simulate(path, machines="4x4", quota=quota)
    assert str(caught.value) == told
    with pytest.raises(SpecError, match="project all is not in the quota file"):
        simulate(Workload(jobs=[TraceJob("j", 0, 1)]), machines="4x4", quota=quota)


def test_an_item_of_an_array_is_no_line(tmp_path: Path) -> None:
    """JSON arrays are told by item; JSON lines by line."""
    rows = ('{"submit": 1, "duration": 2}', '{"submit": 1, "duration": -2}')
    with pytest.raises(SpecError, match="item 2: duration: -2 is not above zero"):
        read_trace(trace(tmp_path, f"[{rows[0]}, {rows[1]}]", "t.json"))
    with pytest.raises(SpecError, match="line 2: duration: -2 is not above zero"):
        read_trace(trace(tmp_path, "\n".join(rows), "t.jsonl"))


def test_one_is_one() -> None:
    """One row, one job an hour."""
    assert "poisson, 1 job an hour" in generated(Recipe(jobs=2, per_hour=1.0), 8).source
    assert "poisson, 2 jobs an hour" in generated(Recipe(jobs=2, per_hour=2.0), 8).source


@pytest.mark.parametrize(
    ("body", "told"),
    [
        ("return job.no_such_thing", ":3: AttributeError: 'PolicyJob' object has no attribute"),
        ("return None", ": rank gave None for job first; allowed: a number"),
        ("return float('nan')", ": rank gave nan for job first; allowed: a number"),
    ],
)
def test_a_mistake_in_a_policy_is_told_as_one(tmp_path: Path, body: str, told: str) -> None:
    """The error has its file, the line and the job; it is no bug in Bastion."""
    policy = tmp_path / "mine.py"
    policy.write_text(f"class Mine:\n    def rank(self, job, now):\n        {body}\n")
    work = Workload(jobs=[TraceJob("first", 0, 1)])
    with pytest.raises(SpecError) as caught:
        simulate(work, machines="1x1", policy=f"{policy}:Mine")
    assert f"policy: {policy}{told}" in str(caught.value)
    assert "job first" in str(caught.value)


@pytest.mark.parametrize(
    "given", [{"order": "fofi"}, {"shares": "fair"}, {"policy": "none.py:X"}, {"admission": "x"}]
)
def test_an_unknown_policy_is_named_before_anything_runs(
    tmp_path: Path, given: dict[str, Any]
) -> None:
    """The error names what was written."""
    path = trace(tmp_path, "submit,duration\n1,2\n")
    with pytest.raises(SpecError, match=next(iter(given.values())).partition(":")[0]):
        simulate(path, machines="1x1", **given)


def test_the_first_of_a_trace_are_read_whatever_is_behind_them(tmp_path: Path) -> None:
    """A bad row behind the last of them is not read; an earlier one is reported or skipped."""
    path = trace(tmp_path, "submit,duration\n5,1\n1,1\n2,never\n3,1\n6,1\n")
    assert [job.submit_s for job in read_trace(path, first=1).jobs] == [1]
    for first in (2, 9):
        with pytest.raises(SpecError, match="line 4: duration"):
            read_trace(path, first=first)
    found = read_trace(path, first=2, skip_bad=True)
    assert ([job.submit_s for job in found.jobs], len(found.skipped)) == ([1, 3], 1)


@pytest.mark.parametrize(
    ("name", "rows", "told"),
    [
        ("t.jsonl", ["{bad"], "line 2: is not JSON"),
        ("t.jsonl", ["[" * 100_000], "line 2: is not JSON"),
        ("t.jsonl", ["5"], "line 2: 5 is not an object"),
        ("t.jsonl", ['{"submit": 1, "duration": %s}' % ("9" * 400)], "line 2: duration: 9"),
        ("t.jsonl", ['{"submit": %s, "duration": 1}' % ("9" * 400)], "line 2: submit: 9"),
        ("t.jsonl", ['{"submit": 1, "duration": 1, "devices": %s}' % ("9" * 400)], "line 2: dev"),
        ("t.jsonl", ['{"submit": "1969-12-31", "duration": 1}'], "line 2: .* is before 1970"),
        ("t.jsonl", ['{"submit": 1507534915000000000, "duration": 1}'], "line 2: .* is too large"),
    ],
)
def test_a_row_that_cannot_be_read_leaves_out_no_other(
    tmp_path: Path, name: str, rows: list[str], told: str
) -> None:
    """It is named with its own line, and with `skip_bad` the others are read."""
    good = '{"submit": 1, "duration": 2}'
    path = trace(tmp_path, "\n".join([good, *rows, good]), name)
    with pytest.raises(SpecError, match=told):
        read_trace(path)
    assert len(read_trace(path, skip_bad=True).jobs) == 2


def test_malformed_rows_of_philly_are_bad_rows(tmp_path: Path) -> None:
    """A missing list and a time with a zone are in some copies of the trace."""
    path = trace(
        tmp_path,
        """[{"submitted_time": "2017-10-07 01:00:00", "jobid": "a", "attempts": [
            {"start_time": "2017-10-07 01:00:00", "end_time": "2017-10-07 01:00:09+00:00",
             "detail": null}]},
            {"submitted_time": "2017-10-07 01:00:00", "jobid": "b", "attempts": 7}]""",
        "t.json",
    )
    with pytest.raises(SpecError, match="item 2: duration is empty"):
        read_trace(path)
    (job,) = read_trace(path, skip_bad=True).jobs
    assert (job.duration_s, job.devices) == (9.0, 1)


@pytest.mark.parametrize("cell", ['"a', '"' + "a" * 200_000 + '"'])
def test_no_row_is_lost_behind_an_open_quote(tmp_path: Path, cell: str) -> None:
    """All rows behind it are one cell: the line of the quote is named, whatever may be skipped."""
    path = trace(tmp_path, f"submit,duration,name\n0,1,x\n1,1,{cell}\n2,1,b\n3,1,c\n")
    for skip_bad in (False, True):
        with pytest.raises(SpecError, match="line 3: "):
            read_trace(path, skip_bad=skip_bad)


def test_lines_end_only_where_the_format_ends_them(tmp_path: Path) -> None:
    """A cell may have several lines, and a separator of Unicode ends none."""
    path = trace(tmp_path, 'submit,duration,note\n0,1,"a\nb"\n1,1,a\u2028b\n2,1,"x"y\n3,0,\n')
    with pytest.raises(SpecError) as caught:
        read_trace(path)
    assert [each.split(":")[1] for each in caught.value.problems] == [" line 5", " line 6"]
    assert [job.line for job in read_trace(path, skip_bad=True).jobs] == [3, 4]
    path = trace(tmp_path, '{"submit": 1, "duration": 2, "name": "a\u2028b"}', "t.jsonl")
    assert read_trace(path).jobs[0].name == "a\u2028b"


def test_columns_that_are_not_read_are_named(tmp_path: Path) -> None:
    """A misspelled column would otherwise change every job without a word."""
    path = trace(tmp_path, "submit,duration,device,usr,user\n1,2,8,x,y\n")
    assert read_trace(path).notes == ("columns that are not read: device, usr",)
    path = trace(tmp_path, '[{"submit": 1, "duration": 2, "device": 8}]', "t.json")
    assert read_trace(path).notes == ("columns that are not read: device",)
