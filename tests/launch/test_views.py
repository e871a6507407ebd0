"""Views: filters, whole names in narrow terminals, everything known of a job."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest

from bastion.client import Client, JobView
from bastion.records.requests.launch_request import LaunchRequest
from bastion.store.date import FolderDate
from launch.commands.look.pool import tasks_joined
from launch.screen.folded import folded
from launch.screen.notes import note, tell
from launch.screen.render import Column, Output, plain
from launch.screen.visible import visible
from tests.launch.bucket import JOB, Bucket
from tests.launch.command_line import Run
from tests.launch.process import COMMAND, environment
from tests.launch.terminal import drawn
from tests.rigs.scripted_bastion import NOW, end, print_log, publish, row

LONG = "training-of-a-large-language-model-0123456789"
OTHER = "eval-9876543210"
WHY = "asks for 24 h100; the share of vision is used up, and starts when language frees 4 h100"


@pytest.mark.parametrize("columns", [80, 180])
def test_a_name_is_never_folded(columns: int, bucket: Bucket, tmp_path: Path) -> None:
    """In a narrow terminal, equal columns are dropped, and the reason gets its own line."""
    rows = [row(LONG, text=WHY), row(OTHER, state="running", text="short"), row(JOB, text="-")]
    publish(bucket.store, "queue", {"jobs": rows})
    lines = drawn(["list"], bucket, tmp_path, columns=columns)
    assert all(len(line) <= columns for line in lines[:-1])
    assert any(line.startswith(f"{LONG} ") for line in lines)
    assert any(line.startswith(f"{OTHER} ") for line in lines)
    assert ("PROJECT" in lines[0]) is (columns == 180)
    assert ("in every row: project blue, user ada" in "\n".join(lines)) is (columns == 80)
    if columns == 80:
        assert "    asks for 24 h100; the share of vision is used up," in "\n".join(lines)
        assert "    -" not in lines, "a cell that holds nothing has no line of its own"


def test_a_reason_stands_in_its_row_where_there_is_room(bucket: Bucket, tmp_path: Path) -> None:
    """One long reason does not move another, and a path in it stays whole."""
    path = "/srv/machines/here-2-0/home/work/" + "a-very-long-name/" * 4 + "train.py"
    rows = [row(LONG, text=f"cannot open {path} to read"), row(OTHER, user="bob", text="short")]
    publish(bucket.store, "queue", {"jobs": rows})
    lines = drawn(["list"], bucket, tmp_path, columns=80)
    assert lines[0].endswith("  WHY")
    assert next(line for line in lines if line.startswith(OTHER)).endswith("  short")
    assert f"    {path}" in lines
    assert "    cannot open" in lines


def test_a_single_row_keeps_all_of_its_reason(bucket: Bucket, tmp_path: Path) -> None:
    """It becomes a list of its cells; no line is wider than the terminal."""
    publish(bucket.store, "queue", {"jobs": [row(LONG, text=f"{WHY}; or {WHY}")]})
    lines = drawn(["list"], bucket, tmp_path, columns=80)
    assert all(len(line) <= 80 for line in lines)
    told = " ".join(" ".join(lines).split())
    assert f"why {WHY}; or {WHY}" in told


def test_a_number_below_its_row_says_what_it_is(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """If the last column is not the reason, its title is shown before it."""
    columns = [
        Column[tuple[str, int]](title="POLICY", text=lambda each: each[0]),
        Column[tuple[str, int]](title="PREEMPTED", text=lambda each: str(each[1])),
    ]
    monkeypatch.setenv("COLUMNS", "40")
    rows = [(LONG[:35], 8), (OTHER, 12)]
    Output(terminal=True).show("simulations", rows, columns, name=lambda each: each[0])
    assert capsys.readouterr().out.splitlines()[1:3] == [LONG[:35], "    preempted 8"]


def test_a_row_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    """Programs that read lines see a reason of several lines in its row."""
    columns = [Column[str](title="TEXT", text=str), Column[str](title="SIZE", text=lambda _: "1")]
    Output().show("rows", ["a\nb", "c"], columns, name=str)
    assert capsys.readouterr().out == "TEXT  SIZE\na b   1\nc     1\n"


def test_columns_that_do_not_fit_join_the_reason(bucket: Bucket, tmp_path: Path) -> None:
    """A row is never wider than the terminal; the values below it have titles."""
    rows = [row(JOB, text=WHY), row(OTHER, user="bob", state="running", text="short")]
    publish(bucket.store, "queue", {"jobs": rows})
    lines = drawn(["list"], bucket, tmp_path, columns=30)
    assert all(len(line) <= 30 for line in lines)
    assert lines[0].split() == ["JOB", "STATE"]
    assert "    user bob;" in "\n".join(lines)


def test_equal_columns_go_only_as_far_as_it_takes(bucket: Bucket, tmp_path: Path) -> None:
    """Four equal machines keep the free column in 60 columns, and one line has the rest."""
    units = {"cpu": 32, "h100": 8, "memory": 2**36}
    some = [
        {"name": f"own-{n}", "pool": "own", "phase": "ready", "resources": units, "free": units}
        for n in range(4)
    ]
    publish(bucket.store, "pool", {"machines": some, "pools": []})
    lines = drawn(["machines"], bucket, tmp_path, columns=60)
    assert lines[0].split() == ["MACHINE", "FREE", "JOBS"]
    assert lines[1].startswith("own-0    8 h100 + 32 cpu + 64 GiB memory")
    told = " ".join(line.strip() for line in lines[5:])
    assert told.startswith(
        "in every row: pool own, phase ready, has 8 h100 + 32 cpu + 64 GiB memory"
    )
    publish(bucket.store, "pool", {"machines": some[:1], "pools": []})
    lines = drawn(["machines"], bucket, tmp_path, columns=60)
    assert [line.split()[0] for line in lines[:5]] == ["machine", "pool", "phase", "has", "free"]


def test_a_state_stands_once_beside_its_reason(run: Run, bucket: Bucket) -> None:
    """A table and the view of one job have it in a separate column."""
    text = "stopping: preempted for other-1; killed in 5s at the latest"
    publish(bucket.store, "queue", {"jobs": [row(JOB, state="stopping", text=text)]})
    for words in (("list", "-o", "wide"), ("show", JOB)):
        assert run(*words).out.count("stopping") == 1
        assert "preempted for other-1; killed in 5s at the latest" in run(*words).out
    assert json.loads(run("list", "--json").out)["jobs"][0]["text"] == text


def test_tasks_of_one_array_are_one_name() -> None:
    """A machine that runs four tasks of a sweep names them as in a request."""
    jobs = [JOB, "sweep-tynyqdb38e.28", "sweep-tynyqdb38e.30", "sweep-tynyqdb38e.29"]
    assert tasks_joined(jobs) == [JOB, "sweep-tynyqdb38e.28-30"]


def test_a_long_reason_is_folded_between_words(bucket: Bucket, tmp_path: Path) -> None:
    """At 80 columns no word is broken, and a shown command can be copied whole."""
    reason = f"{'waits for a machine that has ' * 4}2 h100"
    publish(bucket.store, "queue", {"jobs": [row(JOB, text=reason)]})
    why = [line for line in drawn(["why", "train"], bucket, tmp_path, columns=80) if JOB in line]
    assert why == [f"{JOB} is queued: waits for a machine that has waits for a machine"]
    for words in (["why", "train"], ["show", "train"], ["logs", "train"]):
        lines = drawn(words, bucket, tmp_path, columns=80)
        assert max(map(len, lines)) <= 80
        assert reason in " ".join(" ".join(lines).split()), words
        whole = drawn(words, bucket, tmp_path, columns=400)
        assert any(reason in line for line in whole), words


def test_an_error_is_folded_and_its_command_is_not(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Text is wrapped at 40 columns; a command to copy is one line."""
    monkeypatch.setenv("COLUMNS", "40")
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    tell(
        "it asks for 16 h100, and the total is 8 h100",
        "bastion launch --gpus=8 -- python3 train.py",
    )
    tell("unknown flag --ports", "omit it: a job can listen on any port")
    note("in the bucket is everything that was printed")
    note("to see all of it: bastion logs train-0123456789 -f")
    assert capsys.readouterr().err.splitlines() == [
        "error: it asks for 16 h100, and the",
        "  total is 8 h100",
        "hint: bastion launch --gpus=8 -- python3 train.py",
        "error: unknown flag --ports",
        "hint: omit it: a job can listen on any",
        "  port",
        "in the bucket is everything that was",
        "  printed",
        "to see all of it: bastion logs train-0123456789 -f",
    ]


def test_a_reason_that_all_rows_have_is_whole(bucket: Bucket, tmp_path: Path) -> None:
    """There is room for it below the table."""
    reason = f"waits {'for a machine ' * 8}of its pool"
    publish(bucket.store, "queue", {"jobs": [row(LONG, text=reason), row(OTHER, text=reason)]})
    told = " ".join(" ".join(drawn(["list"], bucket, tmp_path, columns=80)).split())
    assert f"why {reason}" in told


def test_a_wait_tells_the_age_that_a_job_has_when_it_is_over(
    run: Run, bucket: Bucket, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is not the age that the job had when the command started to wait."""
    now = NOW + 1.0
    end(bucket.store, "done-0123456789")

    def waited(client: Client, *names: object, **how: object) -> object:
        nonlocal now
        now += 100.0
        return (client.job("done"),)

    monkeypatch.setattr(FolderDate, "date", lambda _: now)
    monkeypatch.setattr(Client, "wait", waited)
    assert " 1m 41s  " in run("wait", "done").out


def test_what_is_folded_keeps_its_words_and_colours() -> None:
    """A color takes no room, and a path that is longer than a line stays whole."""
    painted = "\x1b[33mqueued\x1b[0m"
    assert folded(f"a-1 is {painted}: it waits", 16, indent=2, first=0) == (
        f"a-1 is {painted}:\n  it waits"
    )
    assert folded("in /a/very/long/path here", 10, indent=4) == (
        "    in\n    /a/very/long/path\n    here"
    )


def test_a_terminal_has_times_of_its_own_zone(bucket: Bucket, tmp_path: Path) -> None:
    """It has local and relative times; a program gets ISO 8601 in UTC."""
    publish(bucket.store, "queue", {"jobs": [row(JOB)]})
    lines = drawn(["show", JOB], bucket, tmp_path, columns=100, zone="JST-9")
    (told,) = (line for line in lines if line.startswith("submitted"))
    assert re.search(r" 2023-11-15 07:13:20 \(.* ago\)$", told)


def test_an_empty_log_says_why_on_a_terminal(bucket: Bucket, tmp_path: Path) -> None:
    """A waiting job has not printed yet; a job that ran printed nothing."""
    publish(bucket.store, "queue", {"jobs": [row(JOB, state="queued", text=WHY)]})
    waits = drawn(["logs", JOB], bucket, tmp_path, columns=180)
    assert waits[0] == f"{JOB} is queued and has no output before it starts: {WHY}"
    publish(bucket.store, "queue", {"jobs": [row(JOB, state="running", attempt=1)]})
    assert drawn(["logs", JOB], bucket, tmp_path, columns=80)[0] == "nothing was printed yet"
    publish(bucket.store, "queue", {"jobs": []})
    end(bucket.store, JOB)
    lines = drawn(["logs", JOB, "--grep=x"], bucket, tmp_path, columns=80)
    assert lines[0] == "nothing matches"
    lines = drawn(["logs", JOB], bucket, tmp_path, columns=80)
    assert lines[0] == "nothing was printed; exited with code 0"


def test_show_tells_what_was_asked(run: Run, bucket: Bucket) -> None:
    """Command, environment, resources of each replica, limits and retries; also as JSON."""
    flags = "--resources=h100=2 --replicas=2 --env=LR=0.1 --retries=3 --max_runtime=8h --pool=gpu"
    with bucket.bastion() as bastion:
        job = run(
            "launch", "-q", "--same=rack", *flags.split(), "--", "train", "--x=a b"
        ).out.strip()
        assert isinstance(bastion.taken[0][1], LaunchRequest)
    end(bucket.store, job)
    told = {line.split("  ")[0]: line.split("  ")[-1] for line in run("show", job).out.splitlines()}
    assert told["command"].strip() == "train '--x=a b'"
    assert told["environment"].strip() == "LR=0.1"
    assert told["per replica"].strip() == "2 h100"
    assert told["where"].strip() == "pool=gpu, same=rack"
    assert (told["max runtime"].strip(), told["retries"].strip()) == ("8h", "3")
    spec = json.loads(run("show", job, "--json").out)["spec"]
    assert spec["processes"][0]["command"] == ["train", "--x=a b"]
    assert (spec["code"], told["code"].strip()) == (None, "none")
    assert spec["where"] == {"pool": "gpu", "same": "rack"}


def test_list_has_a_window_of_time(run: Run, bucket: Bucket) -> None:
    """It selects what was submitted or ended recently, by the store's clock."""
    old = row("old-0123456789", submitted_at=NOW - 7200)
    publish(bucket.store, "queue", {"jobs": [row(JOB), old]})
    assert run("list", "-q").out.split() == [JOB, "old-0123456789"]
    assert run("list", "-q", "--since=1h").out.split() == [JOB]
    assert run("list", "--limit=-1").err.startswith("error: --limit: -1 is not allowed")


@pytest.mark.parametrize("title", ["[/x]", "machines[attempt]", "a\x1b[31mb"])
def test_a_heading_is_text(title: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Jobs choose the names of reported numbers, and queries those of columns: none is markup."""
    column: Column[str] = Column(title=title, text=str)
    Output(terminal=True).show("rows", ["1"], [column], name=str)
    heading, row = capsys.readouterr().out.splitlines()
    assert (heading.rstrip(), row.rstrip()) == (visible(title), "1")


def test_watching_needs_a_terminal(run: Run) -> None:
    """A program gets the list once."""
    ran = run("list", "--watch")
    assert (ran.code, ran.out) == (2, "")
    assert ran.err.startswith("error: --watch: needs a terminal\n")


def test_jobs_are_cancelled_by_what_they_are(run: Run, bucket: Bucket) -> None:
    """They can be mine, a project's or in a state; never those of others by accident."""
    rows = [
        row("mine-0123456789"),
        row("runs-0123456789", state="running"),
        row("hers-0123456789", user="eve"),
    ]
    publish(bucket.store, "queue", {"jobs": rows})
    assert run("cancel").err.startswith("error: no job given\n")
    assert run("cancel", "--all").err.startswith("error: --all needs a project\n")
    assert run("cancel", "--mine", "mine").code == 2
    with bucket.bastion():
        assert run("cancel", "-q", "--state=queued").out.split() == ["mine-0123456789"]
        assert run("cancel", "-q", "--mine").out.split() == ["mine-0123456789", "runs-0123456789"]
        assert len(run("cancel", "-q", "--all", "-p", "blue").out.split()) == 3
    assert (
        run("cancel", "--mine", "--state=held").err == "nothing to do: no matching job is active\n"
    )


def test_the_tasks_of_an_array_are_followed_together(bucket: Bucket, tmp_path: Path) -> None:
    """Each line names its task; an attempt that no task has is not an empty log."""
    with bucket.bastion():
        ran = ran_with(["launch", "-q", "--array=0-1", "--", "true"], bucket, tmp_path)
    array = ran.stdout.strip()
    rows = [row(f"{array}.{n}", state="running", launch=array, task=n, attempt=1) for n in (0, 1)]
    view = {"id": array, "project": "blue", "user": "ada", "state": "running", "phase": "running"}
    counts = {"waiting": "", "counts": {"running": 2}}
    publish(bucket.store, "queue", {"jobs": rows, "arrays": [view | counts]})
    for n in (0, 1):
        print_log(bucket.store, f"{array}.{n}", f"line {n}\n".encode())
        end(bucket.store, f"{array}.{n}", launch=array, task=n)
    ran = ran_with(["logs", array, "-f"], bucket, tmp_path)
    assert ran.returncode == 0, ran.stderr
    assert sorted(ran.stdout.splitlines()) == ["0/r0/p0 | line 0", "1/r0/p0 | line 1"]
    over = {"waiting": "", "counts": {"succeeded": 2}, "ended": {"succeeded": "0-1"}}
    publish(bucket.store, "queue", {"jobs": [], "arrays": [view | over]})
    ended = ran_with(["logs", array, "-f"], bucket, tmp_path)
    assert ended.stdout == ran.stdout
    none = ran_with(["logs", array, "--attempt=9"], bucket, tmp_path)
    assert (none.returncode, none.stderr) == (103, f"error: {array}.0 has no attempt 9; it has 1\n")


def test_a_task_that_waits_to_be_tried_again_has_its_log(run: Run, bucket: Bucket) -> None:
    """Its earlier output is there, beside that of others; a task that never ran has none."""
    with bucket.bastion():
        array = run("launch", "-q", "--array=0-2", "--retries=1", "--", "true").out.strip()
    rows = [
        row(f"{array}.{n}", state=state, launch=array, task=n, attempt=attempt)
        for n, (state, attempt) in enumerate([("running", 1), ("queued", 1), ("queued", 0)])
    ]
    view = {"id": array, "project": "blue", "user": "ada", "state": "running", "phase": "running"}
    counts = {"waiting": "", "counts": {"running": 1, "queued": 2}}
    publish(bucket.store, "queue", {"jobs": rows, "arrays": [view | counts]})
    for n in (0, 1):
        print_log(bucket.store, f"{array}.{n}", f"line {n}\n".encode())
    lines = run("logs", array).out.splitlines()
    assert lines == ["0/r0/p0 | line 0", "1/r0/p0 | line 1"]


def ran_with(
    words: list[str], bucket: Bucket, tmp_path: Path, *, piped: str | None = None
) -> subprocess.CompletedProcess[str]:
    """Run a command line as a process, with text piped in."""
    return subprocess.run(
        [*COMMAND, *words],
        env=environment(bucket, tmp_path),
        input=piped,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )


def test_what_is_piped_in_is_sent_or_said(bucket: Bucket, tmp_path: Path) -> None:
    """`run --stdin` passes it to the command; without the flag, a note says that it is ignored."""
    said = "note: piped input is not sent; to send it: bastion run --stdin\n"
    with bucket.bastion():
        words = ["launch", "-q", "--", "cat"]
        assert ran_with(words, bucket, tmp_path, piped="x\n").stderr == said
        assert ran_with(words, bucket, tmp_path, piped="").stderr == ""
    code = (
        "import json; from launch.submission.command import with_stdin\n"
        "print(json.dumps(with_stdin(['cat', '-'], sends=True)))"
    )
    for piped in ("it's $HOME\n%s\\n\n\n", "no line feed", "-n", ""):
        sent = subprocess.run(
            [sys.executable, "-c", code], input=piped, capture_output=True, text=True, check=True
        )
        command = json.loads(sent.stdout)
        shown = subprocess.run(command, capture_output=True, text=True, check=True).stdout
        assert shown == piped


@pytest.mark.parametrize(
    "words", [["wc", "-c"], ["--shell", "wc -c | cat"]], ids=["plain", "shell"]
)
def test_a_job_with_piped_input_is_named_after_its_own_command(
    words: list[str], bucket: Bucket, tmp_path: Path
) -> None:
    """The shell that passes the input on is not what the user runs."""
    flags, command = ([words[0]], words[1:]) if words[0] == "--shell" else ([], words)
    typed = ["run", "--stdin", "--dry_run", *flags, "--", *command]
    launch = tomllib.loads(ran_with(typed, bucket, tmp_path, piped="x y").stdout)
    (job,) = launch["jobs"]
    assert job["name"] == "wc"
    (process,) = job["processes"]
    assert not process.get("shell")
    ran = subprocess.run(process["command"], capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == "3"


def test_a_start_that_is_over_is_not_promised_again(run: Run, bucket: Bucket) -> None:
    """An estimate before the newest publication of the bastion is not shown."""
    estimate: dict[str, Any] = {"estimated_at": NOW - 20, "sure": "history", "sure_text": "so"}
    publish(bucket.store, "queue", {"jobs": [row(JOB, **estimate)]})
    assert "expected start" not in run("why", JOB).out
    assert "expected start" not in run("show", JOB).out


def test_what_has_ended_already_is_offered_its_log(run: Run, bucket: Bucket) -> None:
    """It is not suggested to cancel an ended job."""
    with bucket.bastion():
        job = run("launch", "-q", "--idempotency_key=k", "--", "true").out.strip()
        end(bucket.store, job)
        told = run("launch", "--idempotency_key=k", "--", "true").err
    assert f"bastion logs {job}" in told
    assert "cancel" not in told


def test_a_file_that_is_not_in_force_is_named(run: Run, bucket: Bucket) -> None:
    """It is named with what is in force instead: the last good file, or nothing."""
    files = {
        "quota": {"in_force": True, "problem": "line 13: bad"},
        "config": {"pools": [], "problem": "config/bastion.toml: metrics: unknown field"},
    }
    publish(bucket.store, "status", {"epoch": 1, **files})
    told = run("status").err
    assert "problem: the quota file: line 13: bad; the last valid one stays in force\n" in told
    assert "problem: config/bastion.toml: metrics: unknown field\n" in told


def test_run_shows_its_launch_without_submitting_it(run: Run) -> None:
    """As with launch, the bastion gets no request."""
    told = run("run", "--dry_run", "--gpus=1", "--name=train", "--", "true")
    assert (told.code, 'name = "train"' in told.out) == (0, True), told.err


def test_only_what_is_ours_is_shown_as_a_moment() -> None:
    """A number that a job reports is a number, whatever its name; times of reasons are times."""
    report = {"best_at": 3.5, "since": 1e300, "at": 0.25}
    view = JobView(
        id="a",
        name="a",
        project="p",
        user="ada",
        launch="a",
        state="running",
        phase="running",
        submitted_at=0.0,
        report=report,
        reason={"kind": "promised", "at": 0.0},
    )
    shown = plain(view)
    assert shown["report"] == report
    assert shown["submitted_at"] == shown["reason"]["at"] == "1970-01-01T00:00:00.000Z"


def test_several_jobs_are_printed_together(run: Run, bucket: Bucket) -> None:
    """Each line names its job: by its name, or by its id if others have that name too."""
    jobs = {"base-0123456789": "base", "wide-0123456789": "wide", "wide-a123456789": "wide"}
    rows = [row(job, name=name, state="running") for job, name in jobs.items()]
    publish(bucket.store, "queue", {"jobs": rows})
    for number, job in enumerate(jobs):
        print_log(bucket.store, job, f"line {number}\n".encode())
        end(bucket.store, job, name=jobs[job])
    ran = run("logs", *jobs, "-f")
    assert (ran.code, sorted(ran.out.splitlines())) == (
        0,
        [
            "base/r0/p0 | line 0",
            "wide-0123456789/r0/p0 | line 1",
            "wide-a123456789/r0/p0 | line 2",
        ],
    )
    assert run("logs", "base", "base").out == "base/r0/p0 | line 0\n"
    assert run("logs", "base").out == "line 0\n"
    missing = run("logs", "base", "none")
    assert (missing.code, missing.out) == (103, "")
    both = run("logs", "base-0123456789", "wide-0123456789", "--exit")
    assert (both.code, both.err.splitlines()[0]) == (
        2,
        "error: --download and --exit take one job; base-0123456789 wide-0123456789 names 2",
    )


def test_the_logs_of_a_launch_are_those_of_its_jobs(run: Run, bucket: Bucket) -> None:
    """A launch of several jobs is named as in wait and cancel."""
    launch = "steps-0123456789"
    jobs = {"steps-train-0123456789": "train", "steps-test-0123456789": "test"}
    rows = [row(job, name=name, state="running", launch=launch) for job, name in jobs.items()]
    publish(bucket.store, "queue", {"jobs": rows})
    for job, name in jobs.items():
        print_log(bucket.store, job, f"{name}s\n".encode())
    lines = run("logs", "steps").out.splitlines()
    assert sorted(lines) == ["test/r0/p0 | tests", "train/r0/p0 | trains"]


def test_the_numbers_that_tasks_report_stand_beside_their_parameters(
    run: Run, bucket: Bucket
) -> None:
    """A sweep is compared in one table; with many numbers, only if it is wide."""
    with bucket.bastion():
        array = run("launch", "-q", "--sweep=lr=0.1,0.2", "--", "train", "{lr}").out.strip()
    reports: list[dict[str, float]] = [{"loss": 0.25, "step": 4}, {}]
    rows = [
        row(f"{array}.{n}", state="running", launch=array, task=n, attempt=1, report=report)
        for n, report in enumerate(reports)
    ]
    view = {"id": array, "project": "blue", "user": "ada", "state": "running", "phase": "running"}
    counts = {"waiting": "", "counts": {"running": 2}}
    publish(bucket.store, "queue", {"jobs": rows, "arrays": [view | counts]})
    lines = run("show", array, "--tasks").out.splitlines()
    assert [line.split()[-3:] for line in lines] == [
        ["lr", "loss", "step"],
        ["0.1", "0.25", "4"],
        ["0.2", "-", "-"],
    ]
    reports[0] |= {f"n{number}": number for number in range(3)}
    publish(bucket.store, "queue", {"jobs": rows, "arrays": [view | counts]})
    assert "loss" not in run("show", array, "--tasks").out
    assert "loss" in run("show", array, "--tasks", "-o", "wide").out
