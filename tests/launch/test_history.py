"""The output of `bastion history`, `usage` and `query` for a known record."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest

from bastion.history.compaction import compact
from bastion.records.reports.history import Shares
from tests.bastion.history.log import DAY_S, T0
from tests.bastion.history.log import Bucket as Log
from tests.launch.bucket import Bucket
from tests.launch.command_line import Run
from tests.launch.terminal import drawn
from tests.rigs.scripted_bastion import publish

DAY = ("--since=2024-10-04", "--until=2024-10-05")


@pytest.fixture
def record(bucket: Bucket) -> Log:
    """Provide two days: on the first ann's job succeeded, ben's was preempted, then failed."""
    log = Log()
    log.store = bucket.store  # type: ignore[assignment]
    log.seal(
        log.told(T0, Shares(nominal={"blue": {"h100": 8}, "red": {"h100": 8}})),
        log.end(T0 + 3600, job="train-ann", machine_s=60.0, price_per_hour=60.0, exit_code=0),
        log.end(
            T0 + 7200,
            job="eval-ben",
            user="ben",
            project="red",
            name="eval",
            outcome="preempted",
            job_outcome="",
            stop_reason="preempt",
            stopped_for="blue",
            lost_s=30.0,
            lost_device_s=240.0,
        ),
        log.end(
            T0 + 9000,
            job="eval-ben",
            user="ben",
            project="red",
            name="eval",
            attempt=2,
            outcome="failed",
            job_outcome="failed",
            exit_code=3,
            text="exited with code 3",
        ),
    )
    log.seal(log.end(T0 + DAY_S + 100, job="late"), log.end(T0 + DAY_S + 9000, job="later"))
    compact(bucket.store)
    publish(bucket.store, "queue", {"now": T0 + 2 * DAY_S, "jobs": []})
    return log


def test_history_lists_jobs_that_ended(run: Run, record: Log) -> None:
    """There is one line per job with the sums of its attempts, the newest first."""
    ran = run("history", "--json", *DAY)
    found = json.loads(ran.out)["jobs"]
    assert [job["job"] for job in found] == ["eval-ben", "train-ann"]
    ben = found[0]
    assert (ben["state"], ben["attempt"], ben["exit_code"]) == ("failed", 2, 3)
    assert ben["device_h"] == pytest.approx(2 * 480 / 3600)
    assert ben["lost_h"] == pytest.approx(240 / 3600)
    assert ben["waited_s"] == pytest.approx(60)
    assert ben["ended_at"] == "2024-10-04T02:30:00.000Z"


@pytest.mark.parametrize(
    ("words", "jobs"),
    [
        (["--user_id=ben"], ["eval-ben"]),
        (["--project_id=blue"], ["train-ann"]),
        (["--state=failed"], ["eval-ben"]),
        (["--state=failed", "--state=succeeded"], ["eval-ben", "train-ann"]),
        (["--name=eval"], ["eval-ben"]),
        (["--name=*-ann"], ["train-ann"]),
        (["--name=rai"], ["train-ann"]),
        (["--name=train-a"], ["train-ann"]),
        (["--name=nn"], []),
        (["--limit=1"], ["eval-ben"]),
        (["--attempts"], ["eval-ben", "eval-ben", "train-ann"]),
        (["--attempts", "--state=preempted"], ["eval-ben"]),
    ],
)
def test_history_is_filtered(run: Run, record: Log, words: list[str], jobs: list[str]) -> None:
    """Project, user, state, name and number select jobs."""
    assert run("history", "-q", *DAY, *words).out.split() == jobs


def test_history_looks_like_a_table(run: Run, record: Log) -> None:
    """The table has the state, the hours and the reason; omitted rows are mentioned."""
    ran = run("history", *DAY, "--limit=1")
    assert ran.code == 0
    assert "eval-ben" in ran.out
    assert "exited with code 3" in ran.out
    assert "1 job of the record; use --limit=2 to see more" in ran.err
    wide = run("history", "-o", "wide", "--attempts", *DAY).out
    assert "blue" in next(line for line in wide.splitlines() if "preempted" in line)


@pytest.mark.parametrize(
    ("limit", "told"),
    [
        (0, "0 jobs of the record; use --limit=100 to see more\n"),
        (1, "1 job of the record; use --limit=2 to see more\n"),
        (2, "2 jobs of the record\n"),
        (10**40, "2 jobs of the record\n"),
    ],
)
def test_more_is_offered_where_there_is_more(run: Run, record: Log, limit: int, told: str) -> None:
    """A limit that omits no job suggests no other, and the suggested one shows more."""
    assert told in run("history", *DAY, f"--limit={limit}").err


def test_a_wide_table_has_every_exit_code(run: Run, record: Log) -> None:
    """0 is a code like any other."""
    header, *rows = run("history", "-o", "wide", *DAY).out.splitlines()
    at = header.index("CODE")
    assert [row[at:].split()[0] for row in rows] == ["3", "0"]


def test_csv_has_all_columns(run: Run, record: Log) -> None:
    """Comma-separated output is for other programs, with the header first."""
    rows = list(csv.DictReader(run("history", "--csv", *DAY).out.splitlines()))
    assert [row["job"] for row in rows] == ["eval-ben", "train-ann"]
    usage = list(csv.DictReader(run("usage", "--csv", *DAY).out.splitlines()))
    assert [float(row["used_h"]) for row in usage] == pytest.approx([480 / 3600, 960 / 3600])
    counted = run("query", "--csv", "SELECT count(*) AS n FROM attempts").out
    assert counted == "n\n5\n"


def test_usage_sums_up(run: Run, record: Log) -> None:
    """Usage by project has hours, shares, waste and cost; missing prices are mentioned."""
    ran = run("usage", *DAY)
    header, blue, red = ran.out.splitlines()
    assert header.split()[:3] == ["PROJECT", "DEVICE", "JOBS"]
    assert blue.split() == [
        *("blue", "h100", "1", "0.133", "0", "0", "%", "30s", "30s", "0", "0", "-", "1.00"),
    ]
    assert red.split()[:3] == ["red", "h100", "1"]
    assert "0.267 of the hours have no price" in ran.err
    by = json.loads(run("usage", "--json", "--by=user, pool", *DAY).out)
    assert by["by"] == ["user", "pool"]
    assert [row["user"] for row in by["rows"]] == ["ann", "ben"]


def test_a_cost_below_a_cent_is_not_nothing(run: Run, record: Log) -> None:
    """A tenth of a second of a machine costs less than a cent, but is not 0.00."""
    moment = ("--since=2024-10-04T00:59:59Z", "--until=2024-10-04T00:59:59.1Z")
    blue, red = json.loads(run("usage", "--json", *moment).out)["rows"]
    assert 0 < blue["cost"] < 0.005
    assert run("usage", *moment).out.splitlines()[1].endswith("< 0.01")
    assert red["cost"] is None


def test_query_answers(run: Run, record: Log) -> None:
    """SQL returns a table or JSON, with times as text."""
    sql = "SELECT job, ended_at FROM attempts WHERE project = 'red' ORDER BY event"
    assert json.loads(run("query", "--json", sql).out)["rows"] == [
        {"job": "eval-ben", "ended_at": "2024-10-04T02:00:00Z"},
        {"job": "eval-ben", "ended_at": "2024-10-04T02:30:00Z"},
    ]
    table = run("query", "DESCRIBE attempts").out
    assert "guaranteed_device_s" in table


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["usage", "--by=projct"], "'projct' is unknown"),
        (["usage", "--since=soon"], "'soon' is not a time"),
        (["history", "--state=sleeping"], "'sleeping' is unknown"),
        (["history", "--limit=-1"], "must be 0 or more"),
        (["query", "SELECT * FROM atempts"], "nearest is attempts"),
        (["query", "SELECT * FROM read_text('/etc/passwd')"], "not allowed"),
        (["query"], "SQL"),
    ],
)
def test_a_wrong_question_is_told(run: Run, record: Log, words: list[str], said: str) -> None:
    """Unknown words, times, tables and files are one line, with exit code 2."""
    ran = run(*words)
    assert ran.code == 2
    assert said in ran.err
    assert "Traceback" not in ran.err


def test_a_bucket_without_a_record_has_no_rows(run: Run, bucket: Bucket) -> None:
    """Before any job has ended, all three print no rows."""
    assert json.loads(run("history", "--json").out)["jobs"] == []
    assert json.loads(run("usage", "--json").out)["rows"] == []
    assert json.loads(run("query", "--json", "FROM attempts").out)["rows"] == []


@pytest.mark.parametrize(
    ("words", "rows"),
    [
        ([], ["blue ann", "red ben"]),
        (["--project_id=blue"], ["blue ann"]),
        (["--user_id=ben"], ["red ben"]),
        (["--project_id=blue", "--user_id=ben"], []),
    ],
)
def test_usage_is_filtered(run: Run, record: Log, words: list[str], rows: list[str]) -> None:
    """There are sums of one project or user, and no row of a project that only owns a share."""
    assert run("usage", "-q", "--by=project,user", *DAY, *words).out.splitlines() == rows
    projects = [row.split()[0] for row in rows]
    assert run("usage", "-q", *DAY, *words).out.splitlines() == projects


def test_usage_ends_now(run: Run, record: Log) -> None:
    """The hours that a project will own this month do not make its share look unused."""
    whole = json.loads(run("usage", "--json", "--since=2024-10-04").out)
    month = json.loads(run("usage", "--json", "--since=2024-10-04", "--until=2024-11-01").out)
    assert month == whole
    assert month["until"] == "2024-10-06T00:00:00.000Z"
    assert month["rows"][0]["owned_h"] == 8 * 48


def test_a_time_ago_reaches_back_to_the_first_second(run: Run, record: Log) -> None:
    """A duration longer than the time since 1970 covers everything."""
    window = ("--since=999999d", DAY[1])
    assert run("usage", "-q", *window).out.splitlines() == ["blue", "red"]
    assert json.loads(run("usage", "--json", *window).out)["since"] == "1970-01-01T00:00:00.000Z"


def test_usage_of_nobody_says_so(run: Run, record: Log) -> None:
    """A misspelt project has no row, and is named, except in the CSV, which is only data."""
    for words, whose in (
        (["--project_id=lage"], " of project lage"),
        (["--project_id=lage", "--user_id=ada"], " of project lage and user ada"),
        (["--since=2001-01-01", "--until=2001-01-02"], ""),
    ):
        ran = run("usage", *(words if "2001" in words[0] else [*DAY, *words]))
        assert f"no attempt{whose} is recorded in this period\n" in ran.err
        assert ran.code == 0


@pytest.mark.parametrize("verb", ["history", "usage"])
@pytest.mark.parametrize(
    ("window", "told"),
    [
        (("--since=2024-10-05", "--until=2024-10-04"), "not before --until, 2024-10-04T00:00:00"),
        (("--since=2999-01-01",), "--since: '2999-01-01' is 2999-01-01T00:00:00.000Z"),
        (("--since=9999-12-31T23:59:59-14:00",), "is 9999-12-31T23:59:59.000Z"),
    ],
)
def test_a_window_without_a_moment_is_refused(
    run: Run, record: Log, verb: str, window: tuple[str, ...], told: str
) -> None:
    """The error shows both ends in a readable form."""
    ran = run(verb, *window)
    assert (ran.code, ran.out) == (2, "")
    assert told in ran.err


def test_csv_never_sends_control_characters_of_jobs_to_a_terminal(
    run: Run, bucket: Bucket, tmp_path: Path
) -> None:
    """A terminal gets them escaped; a file or a pipe gets what the job printed."""
    log = Log()
    log.store = bucket.store  # type: ignore[assignment]
    log.seal(log.end(T0, text="\x1b]0;title\x07\x1b[2J"))
    asked = ["query", "SELECT text FROM attempts", "--csv"]
    lines = drawn(asked, bucket, tmp_path, columns=80)
    assert lines == ["text", r"\x1b]0;title\x07\x1b[2J"]
    assert run(*asked).out == "text\n\x1b]0;title\x07\x1b[2J\n"


def test_csv_of_a_query_has_what_has_parts_as_json(run: Run, record: Log) -> None:
    """Lists and structures are JSON; plain text is not."""
    columns = {
        "numbers": ("[1, 2]", "[1, 2]"),
        "words": ("['a', 'b']", "a b"),
        "holes": ("['a', NULL]", '["a", null]'),
        "named": ("{'n': [0.5, 'nan'::FLOAT]}", '{"n": [0.5, null]}'),
        "at": ("TIMESTAMP '2024-10-04 01:00:00'", "2024-10-04T01:00:00Z"),
        "nothing": ("NULL", ""),
    }
    sql = ", ".join(f"{asked} AS {name}" for name, (asked, _) in columns.items())
    header, cells = csv.reader(run("query", "--csv", f"SELECT {sql}").out.splitlines())
    assert header == [*columns]
    assert cells == [told for _, told in columns.values()]


@pytest.mark.parametrize(
    ("verb", "columns"), [("history", "job,name,project"), ("usage", "project,user,pool")]
)
def test_csv_without_rows_has_its_header(run: Run, record: Log, verb: str, columns: str) -> None:
    """Programs that read it find their columns."""
    header, *rows = run(verb, "--csv", "--project_id=nobody", *DAY).out.splitlines()
    assert not rows
    assert columns in header


@pytest.mark.parametrize("words", [["history"], ["usage"], ["query", "SELECT 1 AS one"]])
def test_two_formats_are_refused(run: Run, record: Log, words: list[str]) -> None:
    """Neither is silently dropped."""
    ran = run(*words, "--csv", "--json")
    assert (ran.code, ran.out) == (2, "")
    assert "--csv and JSON are different output formats" in ran.err


def test_columns_of_one_name_are_all_written(run: Run, record: Log) -> None:
    """CSV has each in its place; JSON, which needs unique names, refuses and names them."""
    sql = "SELECT 1 AS a, 2 AS a, 3 AS b"
    assert run("query", "--csv", sql).out == "a,a,b\n1,2,3\n"
    refused = run("query", "--json", sql)
    assert (refused.code, refused.out) == (2, "")
    assert "two columns are named 'a'" in refused.err


def test_numbers_that_json_has_no_word_for_are_null(run: Run, record: Log) -> None:
    """Every parser can read the output, not just Python's."""
    ran = run("query", "--json", "SELECT 'nan'::DOUBLE AS a, ['inf'::DOUBLE, 1.5] AS b")
    assert ran.code == 0
    found = json.loads(ran.out, parse_constant=lambda word: pytest.fail(word))
    assert found["rows"] == [{"a": None, "b": [None, 1.5]}]
