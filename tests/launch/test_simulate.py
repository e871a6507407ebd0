"""The output, refusals and progress of `bastion simulate` and `quota diff --replay`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from bastion.clock import VirtualClock
from bastion.job import Phase
from bastion.store.folder.local import LocalStore
from launch.commands.admin.simulate import moment
from launch.screen.study_progress import StudyProgress
from tests.launch.command_line import Run
from tests.rigs.leader import QUOTA, Rig

SMALL = ("simulate", "--machines=2x4", "--seed=3")
HALF = """
[toml-schema]
version = "1"
[total_resources]
gpu = 8
[project_membership]
all = [".*"]
other = [".*"]
[project_resources.all]
gpu = 0.5
[project_options.all]
ceiling = { gpu = 0.5 }
[project_resources.other]
gpu = 0.5
"""


def test_a_broken_expectation_is_told_and_is_the_exit_code(run: Run, tmp_path: Path) -> None:
    """`--check` names the job, the expectation, the delay, and the scheduler's reason."""
    trace = tmp_path / "t.csv"
    trace.write_text(
        "submit,duration,devices,project\n0,5000,4,all\n10,100,4,all\n3000,10,1,other\n"
    )
    quota = tmp_path / "quota.toml"
    quota.write_text(HALF)
    ran = run("simulate", str(trace), "--machines=2x4", f"--quota={quota}", "--check")
    assert ran.code == 1
    assert "1 expectation not met" in ran.err
    (line,) = ran.out.splitlines()[1:]
    assert "job-1" in line and "free devices would hold it" in line
    assert line.startswith("00:")
    assert "ceiling" in line
    ran = run("simulate", str(trace), "--machines=2x4", "--check")
    assert (ran.code, ran.out) == (0, "")
    assert ran.err.splitlines()[-1] == "all expectations met"


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (
            ["TRACE", "--jobs=1"],
            ["--jobs is for generated jobs, and a trace has its own", "--first=N"],
        ),
        (
            ["TRACE", "--projects=2"],
            ["--projects is for generated jobs, and a trace has its own", "omit one"],
        ),
        (["TRACE", "--track=1..3"], ["--track: 1..3 is not allowed; the jobs are 0..2"]),
        (["--jobs=3", "--track=3..9"], ["--track: 3..9 is not allowed; the jobs are 0..2"]),
        (["--first=5"], ["--first needs a trace", "to generate as many: --jobs=5"]),
    ],
)
def test_a_flag_that_would_change_nothing_is_refused(
    words: list[str], told: list[str], run: Run, tmp_path: Path
) -> None:
    """The study would be another one than requested."""
    trace = tmp_path / "t.csv"
    trace.write_text("submit,duration\n0,50\n1,50\n2,50\n")
    ran = run(*SMALL, *(str(trace) if word == "TRACE" else word for word in words))
    assert ran.code == 2
    for line, text in zip(ran.err.splitlines(), told, strict=True):
        assert text in line


def test_jobs_that_did_not_end_are_told(run: Run, tmp_path: Path) -> None:
    """They are not in the times of the table: their number and reasons are reported."""
    machines = "[[machines]]\ncount = 2\ndevices = 4\n"
    machines += '[[changes]]\nat_s = 900\npool = "gpu-0"\ncount = -1\n'
    (tmp_path / "m.toml").write_text(machines)
    trace = tmp_path / "t.csv"
    trace.write_text("submit,duration,devices,max_runtime\n0,2000,8,\n10,100,4,\n20,100,4,50\n")
    ran = run("simulate", str(trace), f"--machines={tmp_path / 'm.toml'}")
    assert ran.code == 0
    assert ran.err.splitlines()[-1] == (
        "default: not included in the times: 1 job timed out at max_runtime,"
        " 1 job still waiting at the end (--jobs_json says why)"
    )
    ran = run("simulate", *SMALL[1:], "--load=4", "--jobs=5")
    assert "not included in the times" not in ran.err


def test_without_a_completed_job_there_are_no_times(run: Run, tmp_path: Path) -> None:
    """A mean of nothing would be shown as 0s, the best of all."""
    (tmp_path / "m.toml").write_text("[[machines]]\ncount = 1\ndevices = 4\n")
    trace = tmp_path / "t.csv"
    trace.write_text("submit,duration,devices,max_runtime\n0,100,4,50\n")
    ran = run("simulate", str(trace), f"--machines={tmp_path / 'm.toml'}")
    assert ran.out.splitlines()[-1].split()[:7] == ["default", "0", "-", "-", "-", "-", "-"]


def test_moments_of_a_long_study_are_told_apart() -> None:
    """They are exact to the second, after any number of days."""
    assert moment(59.9) == "00:00:59"
    assert moment(9 * 86_400 + 82_380.5) == "9 d 22:53:00"


def test_bad_rows_are_left_out_and_counted(run: Run, tmp_path: Path) -> None:
    """With `--skip_bad` the rest runs; without it nothing does, and every row is named."""
    trace = tmp_path / "t.csv"
    trace.write_text("submit,duration,devices,type\n-1,1,1,\n0,1,1,\n1,1,99,\n2,1,1,tpu\n")
    ran = run("simulate", str(trace), "--machines=2x4", "--skip_bad", "--json")
    assert json.loads(ran.out)["simulations"][0]["ended"] == 1
    ran = run("simulate", str(trace), "--machines=2x4", "--skip_bad")
    assert "1 job: t.csv" in ran.err
    assert "skipped: 3 rows; the first: line 2: submit: '-1' is negative" in ran.err
    ran = run("simulate", str(trace), "--machines=2x4")
    assert (ran.code, ran.out) == (2, "")
    assert all(f"t.csv: line {line}: " in ran.err for line in (2, 4, 5))


@pytest.mark.parametrize(
    ("flag", "told"),
    [
        ("--report=missing/x.html", "--report: missing: no such folder"),
        ("--report=.", "--report: . is a folder"),
        ("--export=pyproject.toml/charts", "--export: pyproject.toml/charts: Not a directory"),
        ("--format=svg", "--format needs --export"),
        ("--replay=30d", "--replay has its own jobs and machines; omit --machines"),
        ("--more=gpu=1", "--more needs --replay"),
        ("--jobs_json=missing/x.json", "--jobs_json: missing: no such folder"),
        ("--skew=much", "--skew: 'much' is not a number"),
        ("--round=-1", "--round: -1 is not allowed; must be 0 to 1000000000"),
        (f"--round={10**40}", f"--round: {10**40} is not allowed"),
        ("--first=-1", "--first: -1 is not allowed; must be 1 to"),
        ("--cores=-1", "--cores: -1 is not allowed; must be 1 to"),
        ("--load=nan", "load: 'nan': allowed: above zero, and finite"),
        ("--load=1e309", "load: '1e309': allowed: above zero, and finite"),
        ("--cost=start=nan", "--cost: start=nan is not allowed; must be 0 to 1000000000"),
        ("--cost=mtbf=inf", "--cost: mtbf=inf is not allowed"),
    ],
)
def test_what_cannot_be_written_is_said_before_anything_runs(
    run: Run, flag: str, told: str
) -> None:
    """The error does not come after hours of work."""
    ran = run(*SMALL, "--jobs=1000000", flag)
    assert ran.code == 2
    assert told in ran.err
    assert "jobs:" not in ran.err


def test_a_study_that_is_refused_leaves_no_folder(run: Run, tmp_path: Path) -> None:
    """The test whether the folder of `--export` can be created is undone."""
    for folder in (tmp_path / "new" / "charts", tmp_path / "new" / ("x" * 300)):
        ran = run(*SMALL, "--jobs=3", "--policy=nosuch", f"--export={folder}")
        assert ran.code == 2
        assert not (tmp_path / "new").exists()
    (tmp_path / "kept").mkdir()
    assert run(*SMALL, "--jobs=3", "--policy=nosuch", f"--export={tmp_path / 'kept'}").code == 2
    assert (tmp_path / "kept").is_dir(), "it was there before"


def test_a_mistake_in_a_policy_is_a_users_error(run: Run, tmp_path: Path) -> None:
    """The error has file, line and job, and does not mention a bug in Bastion."""
    policy = tmp_path / "mine.py"
    policy.write_text("class Mine:\n    def rank(self, job, now):\n        return job.foo\n")
    ran = run(*SMALL, "--jobs=12", f"--policy={policy}:Mine")
    assert ran.code == 2
    assert f"{policy}:3: AttributeError" in ran.err and "(job job-0)" in ran.err
    assert "bug in bastion" not in ran.err


def test_jobs_and_distributions_are_written_as_json(run: Run, tmp_path: Path) -> None:
    """There is a row for each job, and each measure has pairs up to the largest value."""
    file = tmp_path / "jobs.json"
    ran = run(*SMALL, "--jobs=12", "--order=fifo", f"--jobs_json={file}", "--json")
    (found,) = json.loads(file.read_text())["simulations"]
    (numbers,) = json.loads(ran.out)["simulations"]
    assert [row["name"] for row in found["jobs"]] == [f"job-{at}" for at in range(12)]
    assert found["jobs"][0]["end_s"] > found["jobs"][0]["first_start_s"]
    assert set(found["cdf"]) == {"completion", "waiting", "responsiveness", "slowdown"}
    assert found["cdf"]["completion"][-1] == [numbers["jct_s"]["max"], 1.0]


def test_progress_is_told_now_and_then(capsys: pytest.CaptureFixture[str]) -> None:
    """If stderr is no terminal, there is a line after five seconds, then every fifteen."""
    clock = VirtualClock()
    with StudyProgress(quiet=False, clock=clock) as progress:
        for part in (0.0, 0.25, 0.5, 0.75):
            progress.tell([part, part])
            clock.advance(6.0)
    assert capsys.readouterr().err.splitlines() == [
        "25 % of the jobs have ended; about 18 s left",
    ]
    with StudyProgress(quiet=True, clock=clock) as progress:
        clock.advance(60.0)
        progress.tell([0.5])
    assert capsys.readouterr().err == ""


@pytest.fixture
def record(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Fill a folder in which a real leader ran three jobs of eight devices on its machines."""
    rig = Rig()
    for at, (user, project) in enumerate((("ann", "blue"), ("ann", "blue"), ("cat", "red"))):
        rig.launch(f"job-{at}", user=user, project=project, h100=8)
    for _ in range(60):
        rig.turn()
        for job in list(rig.root.jobs.values()):
            began = job.attempt.started_at if job.attempt is not None else None
            if job.phase is Phase.RUNNING and rig.clock.wall() - (began or 0.0) > 5.0:
                rig.agent_of(job.id).end(job.id)
    assert not rig.root.jobs
    store = LocalStore(tmp_path / "lived", makes_root=True)
    keys = rig.keys()
    for key in keys:
        found = rig.bucket.read(key)
        assert found is not None
        store.create(key, found.data)
    monkeypatch.setenv("BASTION_ROOT", (tmp_path / "lived").as_uri())


@pytest.mark.prove
def test_the_record_is_played_under_another_file(
    run: Run, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    """`quota diff --replay` and `simulate --replay` report jobs, projects and resumed work."""
    request.getfixturevalue("record")
    quota = tmp_path / "new.toml"
    quota.write_text(QUOTA)
    ran = run("quota", "diff", str(quota), "--replay=1d")
    assert ran.code == 0, ran.err
    assert "3 recorded jobs; 0 skipped" in ran.err
    assert "under the file in force, 100 % of the recorded starts are reproduced" in ran.err
    assert ran.out.splitlines()[0].split() == [
        *("PROJECT", "JOBS", "SOONER", "LATER", "WAITING", "PREEMPTED"),
    ]
    assert [line.split()[:4] for line in ran.out.splitlines()[1:]] == [
        ["blue", "2", "0", "0"],
        ["red", "1", "0", "0"],
    ]
    assert "nothing would have changed" in ran.err
    ran = run("simulate", "--replay=1d", "--order=fifo,srtf", "--json")
    labels = [each["label"] for each in json.loads(ran.out)["simulations"]]
    assert labels == ["in force", "fifo", "srtf"]
    ran = run("simulate", "--replay=5000d", "--machines=2x4")
    assert (ran.code, "omit --machines" in ran.err) == (2, True)


def test_a_replay_may_have_more_machines(
    run: Run, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    """A job that waited for a machine starts earlier; totals that hold no project are refused."""
    request.getfixturevalue("record")
    for asked, told in (
        ("gpu", "--more: 'gpu' is not allowed; must be POOL=N with N from 1 to 10,000"),
        ("gpu=0", "--more: 'gpu=0' is not allowed"),
        ("cpu=1", "--more: no pool is named 'cpu'; allowed is gpu"),
        ("gpu=1", "the cluster then has 24 h100, but the quota file divides only 16"),
    ):
        ran = run("simulate", "--replay=1d", f"--more={asked}")
        assert (ran.code, told in ran.err) == (2, True), ran.err
    assert "set h100 = 24 in it, and add --quota=new.toml" in ran.err
    quota = tmp_path / "new.toml"
    quota.write_text(QUOTA.replace("h100 = 16", "h100 = 24"))
    ran = run("simulate", "--replay=1d", "--more=gpu=1", f"--quota={quota}")
    assert ran.code == 0, ran.err
    sooner = {line.split()[0]: line.split()[2] for line in ran.out.splitlines()[1:]}
    assert sum(map(int, sooner.values())) == 1, ran.out
    ran = run("simulate", "--replay=1d", f"--quota={quota}")
    assert "nothing would have changed" in ran.err, "without the machine it has nowhere to start"
