"""The output and the exit codes of the verbs."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
from dataclasses import asdict
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import pytest

from bastion.agent.kept_output import save
from bastion.errors import (
    InDoubtError,
    NotFoundError,
    RefusedError,
    SpecError,
    StoreError,
    TimedOutError,
)
from bastion.machine import Pool
from bastion.records.coding.codec import encode, plain
from bastion.records.keys import layout
from bastion.records.reports.facts import HostFact
from bastion.records.requests.job_request import JobsRequest, UpdateRequest
from bastion.records.requests.launch_request import LaunchRequest
from bastion.scheduler.forecast.confidence import Start
from bastion.scheduler.machine_report import MachineReport
from bundler.code import DockerBuild, ImageRef
from bundler.errors import BuildError
from launch import exits
from launch.errors import UsageError, report
from launch.reference import reference
from quota.amounts import Amounts
from tests.launch.bucket import JOB, Bucket
from tests.launch.command_line import Run
from tests.rigs import git_repositories
from tests.rigs.scripted_bastion import NOW, QUOTA, end, lead, print_log, publish, row


def test_list_prints_a_table_and_when_it_was_true(run: Run) -> None:
    """Data is on stdout, its age on stderr."""
    ran = run("list")
    head, line = ran.out.splitlines()
    assert head.split() == ["JOB", "STATE", "PROJECT", "USER", "RESOURCES", "AGE", "WHY"]
    assert line.split()[:6] == [JOB, "running", "blue", "ada", "2", "h100"]
    assert ran.err == "1 job as of 2023-11-14T22:13:30.000Z\n"


def test_the_age_of_a_job_is_that_of_its_submission(run: Run, bucket: Bucket) -> None:
    """This includes ended jobs: their run time is not their age."""
    end(bucket.store, "old-0123456789")
    ran = run("list", "--all")
    head, *lines = ran.out.splitlines()
    ages = {line.split()[0]: line[head.index("AGE") :].split()[0] for line in lines}
    assert ages == {JOB: "10s", "old-0123456789": "10s"}


def test_every_form_of_output_is_the_same_jobs(run: Run) -> None:
    """Formats are names for pipes, JSON for programs, and wide for more columns."""
    assert run("list", "-q").out == run("list", "-o", "name").out == f"{JOB}\n"
    shown = json.loads(run("ls", "--json").out)
    assert shown["schema"] == 1
    assert shown["as_of"] == "2023-11-14T22:13:30.000Z"
    (job,) = shown["jobs"]
    assert job["submitted_at"] == "2023-11-14T22:13:20.000Z"
    assert job["units"] == {"h100": 2}
    assert "PRIORITY" in run("queue", "-o", "wide").out


def test_ten_thousand_jobs_are_plain_lines(run: Run, bucket: Bucket) -> None:
    """Every job is one line, however many there are."""
    rows = [row(f"train-{number:010d}") for number in range(10_000)]
    publish(bucket.store, "queue", {"jobs": rows})
    ran = run("list", "-q")
    assert len(ran.out.splitlines()) == 10_000


@pytest.mark.parametrize(
    ("flags", "colored"), [([], False), (["--color=always"], True), (["--color=never"], False)]
)
def test_colours_only_where_wanted(flags: list[str], colored: bool, run: Run) -> None:
    """There are no colors in pipes unless requested; the words are the same."""
    ran = run("list", *flags)
    assert ("\x1b[34mrunning" in ran.out) is colored
    assert "running" in ran.out


def test_show_tells_all_that_is_known(run: Run, bucket: Bucket) -> None:
    """Each field is one line, without empty ones; JSON has them all."""
    out = run("show", "train").out
    assert "submitted  2023-11-14T22:13:20.000Z" in out
    assert "exit code" not in out
    end(bucket.store, "old-0123456789", outcome="failed", code=7)
    assert "exit code  7" in run("show", "old").out
    assert json.loads(run("show", "old", "--json").out)["jobs"][0]["code"] == 7


def test_why_is_the_bastions_own_sentence(run: Run) -> None:
    """It prints the job, its state and the reason; its time is on stderr."""
    ran = run("why", "train")
    assert ran.out == f"{JOB} is running: behind two jobs\n"
    assert ran.err == "as of 2023-11-14T22:13:30.000Z\nmore: bastion help behind\n"
    assert json.loads(run("why", "train", "--json").out)["why"][0]["reason"] == {"kind": "behind"}


def test_why_says_how_sure_an_estimated_start_is(run: Run, bucket: Bucket) -> None:
    """It has the scheduler's own words, and JSON has a word and numbers too."""
    start = Start(estimated_at=NOW + 60, sure="history", rests_on=12, off_by_s=70, sure_text="so")
    publish(bucket.store, "queue", {"jobs": [row(JOB, **asdict(start))]})
    told = "2023-11-14T22:14:20.000Z (so)"
    assert f"expected start: {told}" in run("why", "train").out.splitlines()
    assert f"expected start  {told}" in run("show", "train").out.splitlines()
    (why,) = json.loads(run("why", "train", "--json").out)["why"]
    (shown,) = json.loads(run("show", "train", "--json").out)["jobs"]
    for each in (why, shown):
        assert each["estimated_at"] == "2023-11-14T22:14:20.000Z"
        assert [each[f] for f in ("confidence", "samples", "margin_s", "confidence_text")] == [
            "history",
            12,
            70,
            "so",
        ]


def test_no_such_job(run: Run) -> None:
    """All verbs exit with 103."""
    for verb in ("show", "why", "cancel", "wait", "logs", "rerun", "fetch"):
        ran = run(verb, "nothing")
        assert ran.code == 103
        assert ran.err.splitlines()[0] == "error: no job 'nothing'"


def test_launch_prints_the_job_and_what_to_type_next(run: Run, bucket: Bucket) -> None:
    """Stdout has the id; stderr has the state and the three next commands."""
    with bucket.bastion() as bastion:
        flags = "--instance-type=tpu-v4-32 --env=A=1 --max_runtime=8h --replicas=2 --hostname=a"
        ran = run("launch", *flags.split(), "--same=x", "--", "python3", "train.py", "--", "-x")
    assert ran.code == 0, ran.err
    job = ran.out.strip()
    assert job.startswith("train-")
    assert ran.err.splitlines()[0] == f"{job} is queued: accepted; bastion why will say more soon"
    assert [line.split()[1] for line in ran.err.splitlines()[1:]] == ["why", "logs", "cancel"]
    body = bastion.taken[0][1]
    assert isinstance(body, LaunchRequest)
    (made,) = body.launch.jobs
    assert made.processes[0].command == ("python3", "train.py", "--", "-x")
    assert (made.replicas, made.max_runtime_s, made.env) == (2, 28800.0, {"A": "1"})
    assert (body.launch.where.hostnames, body.launch.where.same) == (("a",), "x")
    assert body.launch.code is None


def test_launch_as_json_and_quietly(run: Run, bucket: Bucket) -> None:
    """Programs get the launch, pipes get the ids, and neither gets advice."""
    with bucket.bastion():
        ran = run("launch", "--json", "--idempotency_key=k", "--", "true")
        again = run("launch", "-q", "--idempotency_key=k", "--", "true")
    made = json.loads(ran.out)
    assert made["project"] == "blue"
    assert again.out.split() == made["jobs"]
    assert ran.err == again.err == ""


def test_a_refusal_exits_104(run: Run, bucket: Bucket) -> None:
    """It does so whether the job is followed or not."""
    for verb, code in (("launch", 104), ("run", 104)):
        with bucket.bastion() as bastion:
            bastion.refusals.append("asks for too much")
            ran = run(verb, "--", "true")
        assert (ran.code, ran.out, ran.err) == (code, "", "error: asks for too much\n")


def test_code_that_looks_secret_is_warned_about(
    run: Run, bucket: Bucket, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Code that may not be intended to be sent causes one warning by the client."""
    code = tmp_path / "code"
    code.mkdir()
    (code / "id_rsa").write_text("key\n")
    with bucket.bastion():
        ran = run("launch", f"--code={code}", "-q", "--", "true")
    assert ran.code == 0
    (told,) = caplog.messages
    assert told.startswith("warning: ")
    assert "id_rsa" in told
    assert "id_rsa" not in ran.out + ran.err


def test_dry_run_submits_nothing(run: Run, bucket: Bucket) -> None:
    """The checked spec is printed with project and instance type resolved."""
    ran = run("launch", "--dry_run", "--json", "--instance_type=tpu-v4-8", "--code=.", "--", "true")
    launch = json.loads(ran.out)["launch"]
    assert launch["project"] == "blue"
    assert launch["code"] == {"root": "."}
    assert launch["jobs"][0]["processes"][0]["resources"] == {"v4": 8}
    assert not bucket.store.list("inbox/")


def test_secrets_are_asked_for_by_name(run: Run, bucket: Bucket) -> None:
    """A secret is a reference in the spec; a malformed one is an error of the flag."""
    ran = run(
        "launch", "--dry_run", "--json", "--secret=HF_TOKEN", "--secret=W=env:WANDB", "--", "true"
    )
    asked = [{"name": "HF_TOKEN"}, {"name": "W", "source": "env:WANDB"}]
    assert json.loads(ran.out)["launch"]["jobs"][0]["secrets"] == asked
    ran = run("launch", "--secret=W=vault:x", "--", "true")
    assert ran.code == 2
    assert "--secret: source: 'vault:x' is not known; allowed: env:NAME" in ran.err


def test_an_environment_is_asked_for_by_its_lock(run: Run, bucket: Bucket) -> None:
    """The lock file is read from the code, which is required; a version alone is an error."""
    ran = run("launch", "--dry_run", "--json", "--code=.", "--python_env=uv.lock", "--", "true")
    assert json.loads(ran.out)["launch"]["python"] == {"lock": "uv.lock"}
    ran = run("launch", "--python_env=uv.lock", "--", "true")
    assert ran.code == 2
    assert "python: uv.lock is read from the code, and no code is sent" in ran.err
    ran = run("launch", "--python_version=3.11", "--", "true")
    assert ran.code == 2
    assert "--python_version needs --python_env" in ran.err


def test_a_lock_file_is_looked_for_before_anything_is_sent(
    run: Run, bucket: Bucket, tmp_path: Path
) -> None:
    """A missing, excluded or useless lock file is an immediate error, even in a dry run."""
    flags = [f"--code={tmp_path}", "--python_env=requirements.txt", "--", "true"]
    assert "error: python: requirements.txt is not in the code" in run("launch", *flags).err
    lock = tmp_path / "requirements.txt"
    lock.symlink_to("elsewhere.txt")
    assert "python: requirements.txt cannot be read: No such file" in run("launch", *flags).err
    lock.unlink()
    lock.write_text("-r other.txt\n")
    assert "line 1: '-r other.txt' stands for files" in run("launch", *flags).err
    (tmp_path / ".gitignore").write_text("*.txt\n")
    ran = run("launch", *flags)
    assert "error: python: requirements.txt is left out of the code: .gitignore" in ran.err
    assert ran.code == 2
    assert not bucket.store.list("bundles/")
    flags[1] = "--python_env=uv.lock"
    assert run("launch", *flags).err.count("is not in the code") == 2


def test_a_launch_may_be_a_file_or_a_script(run: Run, bucket: Bucket, tmp_path: Path) -> None:
    """A spec file is read; a script runs as with python and knows the bastion."""
    spec = tmp_path / "spec.toml"
    spec.write_text('name = "t"\n[[jobs]]\n[[jobs.processes]]\ncommand = ["true"]\n')
    with bucket.bastion():
        assert run("launch", str(spec), "-q").out.startswith("t-")
    script = tmp_path / "own.py"
    script.write_text(
        "import os, sys\nprint(os.environ['BASTION_ROOT'], sys.argv[1:])\nsys.exit(9)\n"
    )
    ran = run("launch", str(script), "--size=large")
    assert (ran.code, ran.out) == (9, f"{bucket.url} ['--size=large']\n")
    script.write_text("import os, signal\nos.kill(os.getpid(), signal.SIGTERM)\n")
    assert run("launch", str(script)).code == 128 + signal.SIGTERM


def test_a_wrong_file_has_all_its_problems_told(run: Run, tmp_path: Path) -> None:
    """Each problem is a separate error line; exit 2."""
    spec = tmp_path / "spec.toml"
    spec.write_text('name = "a b"\n[[jobs]]\nreplicas = 0\n')
    ran = run("launch", str(spec))
    assert ran.code == 2
    assert [line.partition("spec.toml: ")[2] for line in ran.err.splitlines()] == [
        "line 1: name: 'a b' is not a name; allowed: 1 to 63 of A-Z a-z 0-9 . _ @ + -, beginning"
        " and ending with a letter or digit",
        "line 2: jobs.0.processes: missing",
    ]


def test_run_follows_and_ends_as_the_job(run: Run, bucket: Bucket) -> None:
    """The log is on stdout, the outcome on stderr, and the exit code is the job's own."""
    with bucket.bastion() as bastion:
        job = run("launch", "-q", "--idempotency_key=k", "--", "true").out.strip()
        print_log(bucket.store, job, b"one\n", b"two")
        end(bucket.store, job, outcome="failed", code=7, text="exited with code 7")
        ran = run("run", "--idempotency_key=k", "--", "true")
    assert (ran.code, ran.out) == (7, "one\ntwo")
    assert ran.err.splitlines() == [
        f"following {job}; Ctrl-C detaches and does not stop it",
        f"{job} failed after 1m: exited with code 7",
    ]
    assert len(bastion.taken) == 1
    quiet = run("run", "-q", "--idempotency_key=k", "--", "true")
    assert (quiet.code, quiet.out, quiet.err) == (7, "one\ntwo", "")


def test_a_notebook_without_jupyter_says_where_it_comes_from(run: Run, bucket: Bucket) -> None:
    """It shows the job's output, and which flags would have helped."""
    with bucket.bastion():
        job = run("launch", "-q", "--idempotency_key=k", "--", "true").out.strip()
        print_log(bucket.store, job, b"/usr/bin/python3: No module named jupyter\n")
        end(bucket.store, job, outcome="failed", code=1, text="exited with code 1")
        ran = run("notebook", "--idempotency_key=k")
    assert (ran.code, ran.out) == (1, "")
    assert ran.err.splitlines() == [
        "/usr/bin/python3: No module named jupyter",
        "the job's Python has no Jupyter: name a lock file that includes it with --code=."
        " --python_env=FILE",
        f"{job} failed after 1m: exited with code 1",
    ]


def test_the_port_of_a_notebook_on_this_machine_is_its_own(run: Run, bucket: Bucket) -> None:
    """A port that was requested explicitly is not silently ignored."""
    pool = Pool(name="own", provider="local", resources=Amounts({"h100": 8}), max_machines=1)
    machine = {"name": "m0", "pool": "own", "phase": "ready", "hostname": socket.gethostname()}
    publish(bucket.store, "pool", {"machines": [machine], "pools": [plain(pool)]})
    with bucket.bastion():
        job = run("launch", "-q", "--idempotency_key=k", "--", "true").out.strip()
        placement = [["m0"]]
        shown = row(job, state="running", attempt=1, machines=["m0"], placement=placement)
        publish(bucket.store, "queue", {"jobs": [shown]})
        print_log(bucket.store, job, b"at http://localhost:8888/lab\n")
        ran = run("notebook", "--idempotency_key=k", "--port=8899", "-q")
        alike = run("notebook", "--idempotency_key=k", "--port=8888", "-q")
    told = "it runs on this machine, on port 8888; --port=8899 is ignored"
    assert ran.out == alike.out == "http://localhost:8888/lab\n"
    assert told in ran.err.splitlines()
    assert "--port" not in alike.err


def test_jobs_that_start_together_are_followed_together(
    run: Run, bucket: Bucket, tmp_path: Path
) -> None:
    """Every line names its job; a held job is reported, not waited for."""
    spec = tmp_path / "two.toml"
    jobs = '[[jobs]]\nname = "{}"\nprocesses = [{{ command = ["true"] }}]\n'
    spec.write_text('name = "two"\n' + jobs.format("a") + jobs.format("b"))
    key = "--idempotency_key=k"
    with bucket.bastion():
        a, b = run("launch", str(spec), key, "-q").out.split()
        print_log(bucket.store, a, b"one\ntw", b"o\n")
        print_log(bucket.store, b, b"three", replica=1)
        end(bucket.store, a)
        held = row(b, state="held", phase="running", outcome="failed", code=3, text="kept for you")
        publish(bucket.store, "queue", {"jobs": [held]})
        ran = run("run", str(spec), key)
        assert ran.code == run("wait", b).code == 3
    assert sorted(ran.out.splitlines()) == ["a/r0/p0 | one", "a/r0/p0 | two", "b/r1/p0 | three"]
    followed, *ended = ran.err.splitlines()
    assert followed.endswith("Ctrl-C detaches and does not stop them")
    assert [line.split()[:2] for line in ended] == [[a, "succeeded"], [b, "failed"]]
    assert ended[1].endswith(": kept for you")


def test_a_default_is_called_one() -> None:
    """A number alone in brackets could mean anything."""
    assert not re.findall(r"\(\d+[smhd]?\)", reference())


ERRORS: list[tuple[BaseException, int]] = [
    (UsageError("no such flag"), 2),
    (SpecError("replicas: 0"), 2),
    (NotFoundError("no job"), 103),
    (RefusedError("no"), 104),
    (TimedOutError("not yet"), 124),
    (InDoubtError("it may run"), 105),
    (StoreError("out of reach"), 1),
    (ValueError("ours"), 1),
    (KeyboardInterrupt(), 130),
]


@pytest.mark.parametrize(("error", "code"), ERRORS, ids=lambda each: type(each).__name__)
def test_every_error_has_its_exit_code(error: BaseException, code: int) -> None:
    """It is the same for all verbs, and is in the table of the reference."""
    assert report(error, debug=False) == code
    assert f"| {code} | {exits.MEANINGS[code]} |" in reference()


def test_every_exit_code_is_told() -> None:
    """All exit codes are in the table."""
    ours = {each for name, each in vars(exits).items() if name.isupper() and isinstance(each, int)}
    assert ours == exits.MEANINGS.keys()


def test_wait_exits_as_the_job_did(run: Run, bucket: Bucket) -> None:
    """Each outcome has its code; of several jobs, the first that did not succeed counts."""
    expected = {
        "succeeded": (0, 0),
        "failed": (7, 7),
        "cancelled": (None, 101),
        "timed_out": (None, 102),
        "lost": (None, 100),
        "out_of_memory": (-9, 137),
    }
    for number, (outcome, (code, exit_code)) in enumerate(expected.items()):
        job = f"j{number}-0123456789"
        end(bucket.store, job, outcome=outcome, code=code)
        assert run("wait", job).code == exit_code
    assert run("wait", "j0", "j2", "j1").code == 101


def test_wait_gives_up_when_told_to(run: Run) -> None:
    """It exits with 124 like timeout(1), and stops nothing."""
    ran = run("wait", "train", "--timeout=0.1s")
    assert ran.code == 124
    assert ran.err.splitlines() == [
        f"error: {JOB} has not ended after 0.1s",
        "hint: nothing was stopped; wait again, or bastion why JOB",
    ]


def test_logs_are_printed_as_they_are(run: Run, bucket: Bucket, tmp_path: Path) -> None:
    """They can be whole, a tail or filtered, and have names per line on request."""
    print_log(bucket.store, JOB, b"loss 1\n", b"step 2\nloss 3\n")
    assert run("logs", "train").out == "loss 1\nstep 2\nloss 3\n"
    assert run("logs", "train", "-n", "1").out == "loss 3\n"
    assert run("logs", "train", "--grep=^loss").out == "loss 1\nloss 3\n"
    assert run("logs", "train", "--prefix=always", "-n1").out == "r0/p0 | loss 3\n"
    end(bucket.store, JOB, outcome="failed", code=3)
    publish(bucket.store, "queue", {"jobs": []})
    assert run("logs", "train", "-f", "--exit").code == 3
    assert run("logs", "train", "--exit", f"--download={tmp_path}").code == 3
    assert [path.read_bytes() for path in tmp_path.glob("a1-*.log")] == [
        b"loss 1\nstep 2\nloss 3\n"
    ]


def test_logs_since_count_back_on_the_clock_of_the_store(run: Run, bucket: Bucket) -> None:
    """A machine whose clock is a year ahead prints the same lines as any other."""
    print_log(bucket.store, JOB, b"old\n", b"new\n")
    folder = Path(unquote(urlsplit(bucket.url).path))
    for segment, age_s in zip(sorted(folder.glob("logs/**/*.log")), (7200, 60), strict=True):
        os.utime(segment, (NOW - age_s, NOW - age_s))
    assert run("logs", "train", "--since=1h").out == "new\n"


@pytest.mark.parametrize("leader", ["vm", None])
def test_logs_since_count_back_from_now_while_no_bastion_publishes(
    leader: str | None, run: Run, bucket: Bucket
) -> None:
    """Jobs continue, and their machines report the time by the store's clock."""
    lead(bucket.store, now=NOW + 10, leader=leader)
    print_log(bucket.store, JOB, b"old\n", b"new\n")
    bucket.store.create(layout.machine_use("gpu-1-0"), b"{}")
    folder = Path(unquote(urlsplit(bucket.url).path))
    (use,) = folder.glob("usage/**/*gpu-1-0*")
    for path, at_s in zip((*sorted(folder.glob("logs/**/*.log")), use), (3600, 7190, 7200)):
        os.utime(path, (NOW + at_s, NOW + at_s))
    assert run("logs", "train", "--since=10m").out == "new\n"


def test_following_a_job_that_waits_says_what_it_waits_for(run: Run, bucket: Bucket) -> None:
    """The reason is on stderr, also if stdout is a pipe; a running job needs no word."""
    waits = row(JOB, state="queued", text="behind two jobs")
    publish(bucket.store, "queue", {"jobs": [waits]})
    end(bucket.store, JOB)  # the queue is published later, so it is read as waiting once
    assert run("logs", "train", "-f") == (0, "", f"{JOB} is queued: behind two jobs\n")
    publish(bucket.store, "queue", {"jobs": [row(JOB, state="running", attempt=1)]})
    print_log(bucket.store, JOB, b"words\n")
    assert run("logs", "train", "-f") == (0, "words\n", "")


def test_all_attempts_are_told_apart_on_stderr(run: Run, bucket: Bucket) -> None:
    """What is piped to a program is the output alone."""
    publish(bucket.store, "queue", {"jobs": [row(JOB, state="running", attempt=2)]})
    print_log(bucket.store, JOB, b"one\nno end", attempt=1)
    print_log(bucket.store, JOB, b"two\n", attempt=2)
    ran = run("logs", "train", "--attempt=all")
    assert ran.out == "one\nno endtwo\n"
    assert ran.err.splitlines() == [f"attempt 1 of {JOB}:", f"attempt 2 of {JOB}:"]
    assert run("logs", "train", "--attempt=2") == (0, "two\n", "")
    assert run("logs", "train") == (0, "two\n", "")


def test_logs_can_be_downloaded(run: Run, bucket: Bucket, tmp_path: Path) -> None:
    """There is one file per process, byte for byte."""
    print_log(bucket.store, JOB, b"a\xff", b"b")
    print_log(bucket.store, JOB, b"c", replica=1)
    ran = run("logs", "train", f"--download={tmp_path}/logs")
    files = ran.out.splitlines()
    assert [Path(file).read_bytes() for file in files] == [b"a\xffb", b"c"]
    assert Path(files[0]).name == "a1-r0-h0-p0.log"


def test_changes_say_what_was_done(run: Run, bucket: Bucket) -> None:
    """Each verb prints the jobs that it changed; the requests are those of the API."""
    with bucket.bastion() as bastion:
        assert "cancelled" in run("cancel", "train").out
        assert run("hold", "train", "-q").out == f"{JOB}\n"
        assert json.loads(run("release", "train", "--json").out)["jobs"] == [JOB]
        assert "given priority 1" in run("prioritize", "train", "--priority=1").out
        assert "updated" in run("update", "train", "--max_runtime=2h").out
        assert "updated" in run("update", "train", "--time=1:00:00").out
        assert "updated" in run("update", "train", "-t", "30").out
        assert run("update", "train").code == 2
    bodies = [body for _, body in bastion.taken]
    assert bodies[:3] == [JobsRequest(targets=(JOB,))] * 3
    assert bodies[3:] == [
        UpdateRequest(targets=(JOB,), priority=1),
        UpdateRequest(targets=(JOB,), max_runtime_s=7200.0),
        UpdateRequest(targets=(JOB,), max_runtime_s=3600.0),
        UpdateRequest(targets=(JOB,), max_runtime_s=1800.0),
    ]


def test_cancelling_what_has_ended_is_no_mistake(run: Run, bucket: Bucket) -> None:
    """There is nothing to do, and the command says so."""
    end(bucket.store, "old-0123456789")
    ran = run("cancel", "old")
    assert (ran.code, ran.err) == (0, "nothing to do: the jobs have already ended\n")
    with bucket.bastion():
        both = run("cancel", JOB, "old")
    assert (both.code, both.err) == (0, "already ended: old-0123456789\n")
    assert [line.split()[0] for line in both.out.splitlines()] == ["JOB", JOB]


def test_a_missing_package_comes_with_what_to_do(run: Run, bucket: Bucket) -> None:
    """The two usual causes are named after a run and by why; other failures have no hint."""
    text = "exited with code 1: ModuleNotFoundError: No module named 'numpy'"
    hint = "hint: packages come from --python_env=FILE, a lock file in the code"
    with bucket.bastion():
        job = run("launch", "-q", "--idempotency_key=k", "--", "true").out.strip()
        end(bucket.store, job, outcome="failed", code=1, text=text)
        ran = run("run", "--idempotency_key=k", "--", "true")
        why = run("why", job)
    assert (ran.code, ran.err.splitlines()[-1].startswith(hint)) == (1, True)
    assert (why.code, why.err.splitlines()[0].startswith(hint)) == (0, True)
    end(bucket.store, "old-0123456789", outcome="failed", code=1)
    assert "hint:" not in run("why", "old").err


def test_machines_and_pools(run: Run, bucket: Bucket) -> None:
    """They show what exists, what is free, and which jobs are there."""
    machine = {
        "name": "own-1-0",
        "pool": "own",
        "phase": "ready",
        "resources": {"h100": 8, "memory": 2**36},
        "free": {"h100": 6},
        "jobs": [JOB],
        "cordoned": "XID 79",
    }
    publish(bucket.store, "pool", {"machines": [machine], "pools": [{"name": "spare"}]})
    out = run("machines").out.splitlines()[1]
    assert "ready, cordoned: XID 79" in out
    assert "8 h100 + 64 GiB memory" in out
    assert JOB in out
    assert "own-1-0: ready, cordoned: XID 79\n" in run("pool").err
    quiet = run("pool", "-q")
    assert (quiet.out, quiet.err) == ("own\nspare\n", "")
    assert run("pool", "-q").out == "own\nspare\n"
    problem = "pool own: host web-1: Permission denied (publickey)"
    publish(
        bucket.store, "status", {"leader": "b", "host": "vm", "problems": [problem, "inbox: x"]}
    )
    assert f"problem: {problem}\n" in run("pool").err
    assert "inbox" not in run("pool").err
    assert json.loads(run("pool", "--json").out)["problems"] == [problem]
    assert json.loads(run("pool", "--json").out)["pools"] == [{"name": "spare"}]


def test_a_pool_counts_a_gang_once_and_nothing_of_a_machine_that_goes(
    run: Run, bucket: Bucket
) -> None:
    """Two machines hold one gang, and a third one is being deleted."""
    machine = {"pool": "own", "phase": "ready", "resources": {"h100": 8}, "free": {"h100": 2}}
    machines = [
        machine | {"name": "own-1-0", "jobs": [JOB]},
        machine | {"name": "own-1-1", "jobs": [JOB]},
        machine | {"name": "own-2-0", "jobs": [], "phase": "deleting", "free": {"h100": 8}},
    ]
    publish(bucket.store, "pool", {"machines": machines, "pools": []})
    row = run("pool").out.splitlines()[1]
    assert row.split() == ["own", "3", "24", "h100", "4", "h100", "1"]


def test_status_says_which_bastion_leads_and_what_is_wrong(run: Run, bucket: Bucket) -> None:
    """Problems, and a long time without publications, are on stderr."""
    view = {
        "leader": "main",
        "host": "vm",
        "epoch": 3,
        "seq": 9,
        "version": "0.1.0",
        "build": "3f2a91c07b55d0",
        "since": NOW,
        "counts": {"running": 1},
        "quota": {"problem": "line 3: bad"},
        "projects": {"blue": {"nominal": {"v4": 512}, "usage": {}, "queued": 2}},
        "problems": ["own: no machines"],
    }
    publish(bucket.store, "status", view)
    ran = run("status")
    assert "main on vm" in ran.out
    assert "0.1.0, build 3f2a91c07b55\n" in ran.out
    assert "512 v4" in ran.out
    told = ran.err.splitlines()
    assert told[:2] == ["problem: the quota file: line 3: bad", "problem: own: no machines"]
    assert told[2].startswith("no bastion answers: main on vm has published nothing for ")
    assert json.loads(run("status", "--json").out)["status"]["epoch"] == 3


def test_status_tells_what_is_left_of_each_budget(run: Run, bucket: Bucket) -> None:
    """There is one line per type, in a separate table, if there are budgets."""
    lab = {
        "period": "month",
        "renewed_at": NOW + 3 * 86_400,
        "hours": {"h100": 5000, "v4": 10},
        "used": {"h100": 4210.4, "v4": 12.0},
    }
    view = {"leader": "main", "host": "vm", "now": NOW, "budgets": {"lab": lab}}
    publish(bucket.store, "status", view)
    table = [line.split("  ") for line in run("status").out.splitlines()]
    rows = [[cell.strip() for cell in row if cell] for row in table]
    assert ["BUDGET OF", "HOURS", "USED", "LEFT", "RENEWED IN"] in rows
    assert ["lab", "5,000 per month", "4,210", "790 h100 hours", "3d"] in rows
    assert ["lab", "10 per month", "12", "0 v4 hours", "3d"] in rows
    told = json.loads(run("status", "--json").out)["status"]["budgets"]
    assert told[0]["used"] == 4210.4
    publish(bucket.store, "status", view | {"budgets": {}})
    assert "BUDGET" not in run("status").out


def test_a_job_tells_since_when_it_is_in_the_queue(run: Run, bucket: Bucket) -> None:
    """Its age counts from its submission; the project's wait is that of the present turn."""
    shares = {"nominal": {"v4": 512}, "usage": {}, "queued": 2}
    projects = {"blue": shares | {"waiting_since": NOW - 110}, "green": shares}
    publish(bucket.store, "status", {"leader": "main", "host": "vm", "projects": projects})
    table = [line.split() for line in run("status").out.splitlines()]
    assert ["blue", "512", "v4", "-", "-", "-", "2", "2m"] in table
    assert ["green", "512", "v4", "-", "-", "-", "2", "-"] in table, (
        "an older bastion does not tell it"
    )
    again = row(JOB, state="preempted", submitted_at=NOW - 90000, queued_at=NOW - 120)
    waited = row(JOB, queued_at=NOW + 60)
    for rows, number in (
        (again | {"phase": "queued"}, 1),
        (waited, 1),
        (row(JOB, queued_at=NOW), 0),
    ):
        publish(bucket.store, "queue", {"jobs": [rows]})
        shown = run("show", JOB).out
        assert shown.count("queued since") == number
        assert "again" not in shown, "a job that waited for another was in no queue before"


def test_status_without_a_leader_says_none(run: Run, bucket: Bucket) -> None:
    """A bastion that gave up the lead leaves a status without a leader."""
    publish(bucket.store, "status", {"leader": None, "epoch": 3, "seq": 9, "since": None})
    (line,) = [each for each in run("status").out.splitlines() if each.startswith("leader")]
    assert line.split()[:5] == ["leader", "none:", "the", "last", "one"]


def test_the_quota_file_is_shown_checked_compared_and_changed(
    run: Run, bucket: Bucket, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Units are whole; a bad file is reported with its lines and changes nothing."""
    assert "512 v4" in run("quota", "show").out
    assert run("quota", "show", "-o", "wide").out == QUOTA
    good, bad = tmp_path / "good.toml", tmp_path / "bad.toml"
    good.write_text(QUOTA.replace("v4 = 1024", "v4 = 2048"))
    bad.write_text(QUOTA.replace("v4 = 0.5", "v4 = 5"))
    assert run("quota", "check", str(bad)).code == 2
    assert run("quota", "apply", str(bad)).code == 2
    assert run("quota", "check", str(good)).code == 0
    assert "blue: 512 v4 -> 1024 v4" in run("quota", "diff", str(good)).out
    assert run("quota", "apply", str(good)).code == 0
    assert run("quota", "diff", str(good)).err == "nothing would change\n"
    monkeypatch.setenv("EDITOR", "sed -i s/2048/4096/")
    monkeypatch.delenv("VISUAL", raising=False)
    assert run("quota", "edit").code == 0
    assert "2048 v4" in run("quota", "show").out
    assert run("quota", "check", "/no/such").err == "error: /no/such: No such file or directory\n"


def test_a_script_may_ask_whether_a_quota_file_changes_anything(
    run: Run, bucket: Bucket, tmp_path: Path
) -> None:
    """With --exit_code: 106 for changes, which is no code of an error; without it always 0."""
    same, other, bad = (tmp_path / f"{name}.toml" for name in ("same", "other", "bad"))
    same.write_text(f"# the same\n{QUOTA}")
    other.write_text(QUOTA.replace("v4 = 1024", "v4 = 2048"))
    bad.write_text(QUOTA.replace("v4 = 0.5", "v4 = 5"))
    for file, code in ((same, 0), (other, 106), (bad, 2)):
        for more in ((), ("--json",)):
            assert run("quota", "diff", str(file), "--exit-code", *more).code == code
    assert run("quota", "diff", str(other)).code == 0
    refused = run("quota", "apply", str(other), "--exit_code")
    assert refused.code == 2
    assert "error: quota apply: only quota diff FILE takes --exit_code" in refused.err
    assert run("quota", "diff", str(other), "--exit_code", "--replay=1d").code == 2


def test_a_file_that_would_be_ignored_is_an_error(run: Run, bucket: Bucket, tmp_path: Path) -> None:
    """A user who names a file for `show` or `edit` would take the bucket's file for it."""
    file = tmp_path / "new.toml"
    file.write_text(QUOTA.replace("v4 = 1024", "v4 = 2048"))
    for action, hint in (("show", "diff"), ("edit", "apply")):
        ran = run("quota", action, str(file))
        assert (ran.code, ran.out) == (2, "")
        assert ran.err.splitlines() == [
            f"error: quota {action}: takes no file, because it is about the one in the bucket",
            f"hint: bastion quota {hint} {file}",
        ]


def test_groups_limits_and_windows_are_shown(run: Run, bucket: Bucket, tmp_path: Path) -> None:
    """Members are below their group, limits in a column, windows beside the table."""
    more = tmp_path / "more.toml"
    more.write_text(
        QUOTA
        + """
[project_options.blue]
borrow = false
budget = { v4 = 500 }
default_max_runtime = "8h"
max_max_runtime = "3d"
max_units_per_user = { v4 = 64 }
max_running_per_user = 4
[project_options.blue.users.eve]
max_running = 1
[project_options.green]
max_max_runtime = "36h30m"
[project_groups.lab]
members = ["blue"]
weight = 2
[[maintenance]]
from = 2030-01-05T08:00:00Z
until = 2030-01-05T18:00:00Z
reason = "new cooling"
"""
    )
    assert run("quota", "apply", str(more)).code == 0
    named = tmp_path / "named.toml"
    named.write_text(more.read_text() + 'pools = ["gpuu"]\n')
    pool = {"name": "gpu", "provider": "fake", "resources": {"v4": 8}, "max_machines": 1}
    publish(bucket.store, "pool", {"pools": [pool]})
    for action in ("diff", "apply"):
        told = run("quota", action, str(named)).err
        assert "maintenance: no pool 'gpuu' here (gpuu from 2030-01-05 08:00" in told
        assert told.rstrip().endswith("allowed is gpu, nearest is gpu")
    assert run("quota", "apply", str(more)).code == 0
    shown = run("quota", "show")
    assert [line.split()[0] for line in shown.out.splitlines()] == [
        "PROJECT",
        "lab",
        "blue",
        "green",
    ]
    blue = shown.out.splitlines()[2]
    assert blue.startswith("  blue ")
    assert (
        "at most 500 v4 hours a month; does not borrow; "
        "runs 8h by default, at most 3d, per user: 64 v4, 4 jobs; "
        "eve: runs 8h by default, at most 3d, per user: 64 v4, 1 job" in blue
    )
    assert "runs at most 1d12h30m" in shown.out.splitlines()[3], "a limit is not rounded"
    window = "everything from 2030-01-05 08:00 to 2030-01-05 18:00 UTC: new cooling"
    assert f"maintenance closes {window}" in shown.err
    told = json.loads(run("quota", "show", "-o", "json").out)
    assert told["maintenance"] == [window]
    assert [(row["name"], row["kind"]) for row in told["projects"]] == [
        ("lab", "group"),
        ("blue", "project"),
        ("green", "project"),
    ]


def test_a_job_says_on_the_command_line_that_it_does_not_borrow(run: Run, bucket: Bucket) -> None:
    """`--no_borrow` is in the spec; without it, the field is left out."""
    flags = ["launch", "--resources=v4=8", "--project_id=blue", "--dry_run", "--json"]
    for borrows, more in ((True, []), (False, ["--no_borrow"])):
        (job,) = json.loads(run(*flags, *more, "--", "true").out)["launch"]["jobs"]
        assert job.get("borrow", True) == borrows


def test_bundle_prints_the_digest(run: Run, bucket: Bucket, tmp_path: Path) -> None:
    """Stdout has only the digest; the second time, nothing is sent."""
    (tmp_path / "code").mkdir()
    (tmp_path / "code" / "train.py").write_text("print(1)\n")
    first = run("bundle", str(tmp_path / "code"))
    assert len(first.out.strip()) == 64
    again = run("bundle", str(tmp_path / "code"))
    assert again.out == first.out
    assert again.err == "9 B of code, 0 B sent\n"


def test_bundle_takes_every_kind_of_code(run: Run, bucket: Bucket, tmp_path: Path) -> None:
    """For a repository it prints the full commit; incompatible options are an error."""
    head = git_repositories.commit(tmp_path / "repo", {"train.py": "print(1)\n"})
    ran = run("bundle", "--bundler_type=git", f"--bundler_spec=url=file://{tmp_path}/repo")
    assert (ran.out.strip(), ran.err) == (head, "")
    wrong = run("bundle", "--bundler_type=git", f"--bundler_spec=url=file://{tmp_path}/none")
    assert (wrong.code, wrong.out) == (1, "")
    assert "error: code: " in wrong.err
    wrong = run("launch", "--bundler_type=gti", "--", "true")
    assert wrong.err.startswith("error: --bundler_type: 'gti' is unknown, did you mean 'git'?")
    ran = run("bundle", "src", "--bundler_type=docker", "--bundler_spec=image=a/b")
    assert ran.err.startswith("error: bundle: a folder is code of the type local, not docker")
    ran = run("bundle", "--name=v1")
    assert ran.err.startswith("error: --name: only an image has a name")
    ran = run("bundle", "--bundler_type=local", "--bundler_spec=max_sise=1GiB")
    assert "did you mean 'max_size'?" in ran.err


def test_options_of_a_bundle_are_those_of_the_folder_that_is_named(
    run: Run, bucket: Bucket, tmp_path: Path
) -> None:
    """Otherwise another folder would be sent: the one found upward from here."""
    (tmp_path / "a b").mkdir()
    flags = ["launch", "--dry_run", f"--code={tmp_path / 'a b'}", "--bundler_spec=max_size=2GiB"]
    ran = run(*flags, "--", "true")
    assert f'root = "{tmp_path / "a b"}"\n' in ran.out
    assert 'max_size = "2GiB"\n' in ran.out
    both = run(*flags, "--bundler_spec=root=src", "--", "true")
    assert both.code == 2
    assert "a b and --bundler_spec=root=... each name the code" in both.err
    git = ["--bundler_type=git", "--bundler_spec=url=https://example.org/a"]
    both = run("launch", "--dry_run", "--code=.", *git, "--", "true")
    assert (both.code, both.out) == (2, "")
    assert both.err.startswith("error: --code=. and --bundler_type=git each name the code")


def test_an_image_is_named_by_profile_flag_and_name(
    run: Run, bucket: Bucket, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The repository comes from the profile, the tag from `--name`; the build's output is shown."""
    asked: list[DockerBuild] = []

    def build(code: DockerBuild, **_: object) -> ImageRef:
        asked.append(code)
        if "broken" in code.image:
            raise BuildError("the build of Dockerfile failed: no", hint="", output=("step 1", "no"))
        return ImageRef(ref=f"{code.image}@sha256:{'0' * 64}")

    monkeypatch.setattr("bundler.images.image.build", build)
    assert run("config", "set", "image_repo=eu.pkg.dev/acme").code == 0
    words = ["--bundler_type=artifactregistry", "--bundler_spec=image=base"]
    words += ["--bundler_spec=dockerfile=Dockerfile", "--bundler_spec=target=bastion"]
    ran = run("bundle", "--name=ada-bastion", *words)
    assert ran.out == f"eu.pkg.dev/acme/base:ada-bastion@sha256:{'0' * 64}\n"
    assert asked[0].target == "bastion"
    ran = run("bundle", "--bundler_type=docker", "--bundler_spec=image=broken")
    assert ran.err.splitlines() == [
        "step 1",
        "no",
        "error: code: the build of Dockerfile failed: no",
    ]


def test_events_are_listed(run: Run) -> None:
    """No events are an empty table, not an error."""
    assert run("events", "train").out.split() == ["AT", "JOB", "WHAT", "TEXT"]


def test_a_mistake_of_ours_is_no_traceback(run: Run, bucket: Bucket) -> None:
    """Any error is one line; --debug shows more."""
    publish(bucket.store, "queue", {"jobs": [{"id": "a", "name": "a"}]})
    ran = run("list")
    assert ran.code == 1
    assert ran.err.startswith("error: this is a bug in bastion: KeyError: ")
    assert "Traceback" not in ran.err
    assert "Traceback" in run("list", "--debug").err


def test_serving_a_place_that_cannot_be_is_told(run: Run, tmp_path: Path) -> None:
    """The bastion's own errors are one line too."""
    (tmp_path / "file").write_text("")
    ran = run("serve", f"--root={tmp_path}/file")
    assert ran.code == 1
    assert ran.err.startswith("error: ")


def test_show_tells_what_code_ran(run: Run, bucket: Bucket, tmp_path: Path) -> None:
    """It shows command line, commit, difference and script; JSON has all; the code is written."""
    tree = tmp_path / "tree"
    tree.mkdir()
    git_repositories.git(tree, "init", "-q", "-b", "main")
    (tree / "train.py").write_text("one\n")
    git_repositories.git(tree, "add", ".")
    git_repositories.git(tree, "commit", "-q", "-m", "one")
    (tree / "train.py").write_text("two\n")
    with bucket.bastion():
        job = run("launch", f"--code={tree}", "-q", "--", "python3", "train.py").out.strip()
    end(bucket.store, job)
    spec = json.loads(run("show", job, "--json").out)["spec"]
    digest = spec["code"]["digest"]
    out = run("show", job, "--code").out
    for told in (run("show", job).out, out):
        line = next(each for each in told.splitlines() if digest in each)
        assert line.split() == ["bundle", digest]
        assert len(line) <= 80
    assert f"submitted by  bastion launch --code={tree} -q -- python3 train.py\n" in out
    assert "on branch main" in out
    assert "dirty         1 file changed, 0 untracked\n" in out
    assert "-one\n+two\n" in out
    shown = json.loads(run("show", job, "--code", "--json").out)["code"]
    assert shown["origin"]["tree"]["changed"] == ["train.py"]
    folder = tmp_path / "out"
    ran = run("show", job, f"--checkout={folder}")
    assert (folder / "train.py").read_text() == "two\n"
    assert (ran.code, ran.out, ran.err) == (0, "", f"the code of {job} is in {folder}\n")
    told = json.loads(run("show", job, f"--checkout={folder}-2", "--json").out)
    assert told == {"schema": 1, "checkout": f"{folder}-2"}


def test_rerun_submits_the_same_again(run: Run, bucket: Bucket) -> None:
    """The new job has the same spec, with another priority if given."""
    with bucket.bastion() as bastion:
        first = run("launch", "--retries=1", "-q", "--", "true").out.strip()
        end(bucket.store, first)
        again = run("rerun", first, "--priority=1", "--env=A=b", "-q").out.strip()
        body = bastion.taken[-1][1]
    assert isinstance(body, LaunchRequest)
    (job,) = body.launch.jobs
    assert (job.priority, job.retries, job.env) == (1, 1, {"A": "b"})
    assert body.again_of == first
    assert again != first
    assert run("rerun", "none").code == 103


def test_fetch_brings_what_a_job_kept(run: Run, bucket: Bucket, tmp_path: Path) -> None:
    """The folder is on stdout; its size is on stderr; JSON has everything."""
    kept = HostFact(project="blue", job=JOB, attempt=1, nonce="n", replica=0, host=0)
    machine = tmp_path / "machine"
    machine.mkdir()
    (machine / "model.bin").write_bytes(b"1234")
    save(bucket.store, kept, machine, 1)
    out = tmp_path / "out"
    ran = run("fetch", "train", str(out))
    assert (ran.code, ran.out) == (0, f"{out}\n")
    assert "1 file, 4 B; 4 B downloaded now\nkept by attempt 1, 2" in ran.err
    assert (out / "r0" / "model.bin").read_bytes() == b"1234"
    shown = json.loads(run("fetch", "train", str(out), "--json").out)["fetched"]
    assert (shown["folder"], shown["files"], shown["fetched_bytes"]) == (str(out), 1, 0)
    ran = run("fetch", "train", "--attempt=2")
    assert (ran.code, ran.out) == (103, "")
    assert ran.err.startswith(f"error: {JOB} has kept nothing in attempt 2\nhint: ")


def test_a_launch_that_may_not_wait_is_told_of_every_machine(run: Run, bucket: Bucket) -> None:
    """There is a table on stderr, then the error and its hint; nothing on stdout."""
    report = MachineReport(job="a-1", machine="gpu-1-0", why_not="draining")
    with bucket.bastion() as bastion:
        bastion.refusals, bastion.machines = ["a-1: short by 5 h100"], (report,)
        ran = run("launch", "--when_busy=fail", "--", "true")
    assert (ran.code, ran.out) == (104, "")
    assert ran.err.splitlines() == [
        "MACHINE  ASKED  FREE  FITS  WHY NOT",
        "gpu-1-0  -      -     0     draining",
        "error: a-1: short by 5 h100",
        "hint: without when_busy=fail it would wait in the queue",
        "more: bastion help BusyError",
    ]
    with bucket.bastion() as bastion:
        bastion.refusals, bastion.machines = ["a-1: can never run: too large"], (report,)
        ran = run("launch", "--when_busy=fail", "--", "true")
    assert "error: a-1: can never run: too large\nmore: " in ran.err


SBATCH = """\
#!/bin/bash
#SBATCH --job-name=old
#SBATCH --gres=gpu:2
#SBATCH --time=1:00:00
#SBATCH --output=x.out
echo hello "$@"
"""


def test_a_slurm_script_is_submitted(run: Run, bucket: Bucket, tmp_path: Path) -> None:
    """Its folder is its code, notes are printed, and its text is stored."""
    publish(bucket.store, "pool", {"pools": [{"name": "a", "resources": {"h100": 8, "cpu": 4}}]})
    script = tmp_path / "job.sbatch"
    script.write_text(SBATCH)
    with bucket.bastion() as bastion:
        ran = run("launch", str(script), f"--code={tmp_path}", "-q", "--", "--lr=1")
        body = bastion.taken[-1][1]
    assert isinstance(body, LaunchRequest)
    (job,) = body.launch.jobs
    assert dict(job.per_replica.items()) == {"h100": 2}
    assert (job.name, job.processes[0].command[-1]) == ("old", "--lr=1")
    assert ran.err.startswith("note: line 5: --output=x.out: everything printed is kept")
    end(bucket.store, ran.out.strip())
    assert "#SBATCH --job-name=old" in run("show", ran.out.strip(), "--code").out


def test_what_a_slurm_script_cannot_say_stands_beside_it(
    run: Run, bucket: Bucket, tmp_path: Path
) -> None:
    """Webhooks, secrets and retries have no #SBATCH line, so flags set them."""
    script = tmp_path / "job.sbatch"
    script.write_text("#!/bin/sh\n#SBATCH --no-requeue\ntrue\n")
    flags = ["--notify=team", "--notify_on=ended", "--secret=HF_TOKEN", "--retries=2"]
    ran = run("launch", str(script), "--code=none", "--dry_run", "--json", *flags)
    launch = json.loads(ran.out)["launch"]
    assert launch["notify"] == [{"to": "team", "on": ["ended"], "kind": ""}]
    (job,) = launch["jobs"]
    assert (job["secrets"], job["retries"], job["resume"]) == ([{"name": "HF_TOKEN"}], 2, False)


def test_import_prints_what_a_file_becomes(
    run: Run, bucket: Bucket, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The printed TOML can be submitted, and is the same launch."""
    publish(bucket.store, "pool", {"machines": [{"name": "m", "resources": {"h100": 8, "cpu": 4}}]})
    monkeypatch.chdir(tmp_path)
    (tmp_path / "job.sbatch").write_text(SBATCH)
    (tmp_path / "spec.toml").write_text(run("import", "job.sbatch").out)
    one = json.loads(run("launch", "spec.toml", "--dry_run", "--json").out)["launch"]
    two = json.loads(run("launch", "job.sbatch", "--dry_run", "--json").out)["launch"]
    assert one == two
    assert one["jobs"][0]["max_runtime"] == 3600.0
    assert json.loads(run("import", "job.sbatch", "--json").out)["launch"]["name"] == "old"
    assert '"--lr=0.1"' in run("import", "job.sbatch", "--", "--lr=0.1").out


@pytest.mark.parametrize("verb", ["launch", "run"])
@pytest.mark.parametrize("name", ["trian.toml", "trian.sbatch", "trian.json", "trian.py"])
def test_a_file_that_is_not_there_is_a_usage_error(
    name: str, verb: str, run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every kind of file has the same exit code, and the missing file is named."""
    monkeypatch.chdir(tmp_path)
    ran = run(verb, name)
    assert (ran.code, ran.out) == (2, "")
    if (verb, name) != ("run", "trian.py"):  # whose words are about scripts
        assert ran.err.startswith(f"error: no file {name!r}\n")
        (tmp_path / name.replace("trian", "train")).write_text("")
        assert run(verb, name).err.endswith(f"hint: did you mean {name.replace('ia', 'ai')}?\n")


def test_the_command_line_comes_before_a_slurm_script(
    run: Run, bucket: Bucket, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As in sbatch: name, time, array, partition, dependency and hold; the rest stays."""
    monkeypatch.chdir(tmp_path)
    publish(bucket.store, "queue", {"jobs": [row("x-a1b2c3d4e5", project="blue")]})
    header = "#SBATCH --job-name=old --array=0-3 --time=5 --partition=a --nice=200 --export=B=2"
    (tmp_path / "job.sbatch").write_text(f"#!/bin/sh\n{header}\ntrue\n")
    words = (
        "-J",
        "new",
        "--array=5-6",
        "--time=10",
        "--pool=b",
        "--env=A=1",
        "--after=x-a1b2c3d4e5:any",
    )

    def becomes(*words: str) -> dict[str, Any]:
        ran = run("launch", "job.sbatch", "--code=none", "--dry_run", "--json", *words)
        assert not ran.code, ran.err
        launch: dict[str, Any] = json.loads(ran.out)["launch"]
        return launch

    said = becomes(*words, "--hold")
    (job,) = said["jobs"]
    assert (said["name"], job["name"], said["array"]) == ("new", "new", "5-6")
    assert (job["max_runtime"], job["hold"], job["priority"]) == (600.0, True, 5)
    assert said["where"]["pool"] == "b"
    assert said["after"] == [{"job": "x-a1b2c3d4e5", "when": "any"}]
    env = {"SLURM_JOB_NAME": "new", "SLURM_JOB_PARTITION": "b", "A": "1", "B": "2"}
    env |= {"SLURM_ARRAY_TASK_MIN": "5", "SLURM_ARRAY_TASK_MAX": "6"}
    assert job["env"].items() >= env.items()
    as_it_is = becomes()
    assert (as_it_is["name"], as_it_is["array"]) == ("old", "0-3")
    assert (as_it_is["where"]["pool"], as_it_is["jobs"][0].get("hold")) == ("a", None)


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (["launch", "none.sbatch"], "error: no file 'none.sbatch'"),
        (["launch", "job.sbatch", "--replicas=2"], "error: --replicas: job.sbatch sets this"),
        (["launch", "job.sbatch", "--mem=4G"], "error: --resources: job.sbatch sets this"),
        (["launch", "bad.sbatch"], "error: bad.sbatch: line 2: --qos=high: there is none"),
        (["launch", "bad.json"], "error: bad.json: not JSON"),
        (["import", "spec.toml"], "error: 'spec.toml' is neither a Slurm script nor"),
        (["import", "task.yaml"], "error: 'task.yaml' is neither a Slurm script nor"),
    ],
)
def test_what_cannot_be_imported_is_told(
    words: list[str], problem: str, run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The file and its line are reported, one line each, and nothing is submitted."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "job.sbatch").write_text(SBATCH)
    (tmp_path / "bad.sbatch").write_text("#!/bin/sh\n#SBATCH --qos=high\n")
    (tmp_path / "bad.json").write_text("{")
    ran = run(*words)
    assert ran.err.startswith(problem)
    assert ran.out == ""
    told = "for other systems: bastion help come-from-another-system" in ran.err
    assert told == (words[0] == "import")


@pytest.mark.parametrize(
    ("flags", "problem"),
    [
        (["--array=9-0"], "array: '9-0' ends before it begins; write 0-9"),
        (["--array=0-9%0"], "array: %0 in '0-9%0' is not allowed"),
        (["--array=0-9", "--when_busy=fail"], "when_busy: 'fail' is not possible with array"),
        (["--at_once=2"], "--at_once needs --array or --sweep"),
        (["--sweep=lr"], "--sweep: 'lr' is not NAME=V,V, such as lr=0.1,0.01"),
        (["--sweep=lr=1", "--sweep=lr=2"], "--sweep: a parameter is given twice"),
        (["--sweep=rl=1"], "{lr} is not a parameter of the sweep (rl); for braces write {{lr}}"),
        (["--sweep=lr=1,2", "--array=0-2"], "array: the sweep has no task 2; its tasks are 0 to 1"),
    ],
)
def test_a_wrong_array_is_told_before_anything_is_sent(
    run: Run, flags: list[str], problem: str
) -> None:
    """Each error is a separate line, and the exit code is 2."""
    ran = run("launch", *flags, "--", "train", "--lr={lr}")
    assert ran.code == 2
    assert problem in ran.err


@pytest.mark.parametrize(
    ("flags", "problem"),
    [
        (["--on_idle=report"], "--on_idle needs --idle_timeout"),
        (["--signs_of_life=music"], "--signs_of_life: 'music' is unknown, allowed are devices"),
        (["--signs_of_life=output"], "--signs_of_life needs --idle_timeout"),
        (["--on_end_timeout=5s"], "--on_end_timeout needs --on_end"),
    ],
)
def test_a_flag_that_would_do_nothing_is_refused(run: Run, flags: list[str], problem: str) -> None:
    """A user who sets the action on a hang expects that hangs are detected."""
    ran = run("launch", *flags, "--", "train")
    assert ran.code == 2
    assert problem in ran.err


def test_an_array_is_submitted_as_one_object(run: Run, bucket: Bucket) -> None:
    """Ten thousand tasks are one request of a few hundred bytes; a sweep keeps its types."""
    with bucket.bastion() as bastion:
        ran = run("launch", "-q", "--array=0-9999%10", "--", "train")
        swept = run(
            "launch", "-q", "--sweep=lr=0.1,1e-3", "--sweep=on=true,x,3,3.10,007", "--at_once=4",
            "--sweep=dims=[64,32],{a:1,b:(2,3)},[]", "--", "train", "{lr}", "{on}", "{dims}",
        )  # fmt: skip
    assert (ran.code, swept.code) == (0, 0)
    (_, one), (_, other) = bastion.taken
    assert isinstance(one, LaunchRequest)
    assert isinstance(other, LaunchRequest)
    assert len(encode(one)) < 500
    assert str(one.launch.array) == "0-9999%10"
    assert other.launch.sweep is not None
    assert other.launch.sweep.grid == {
        "lr": (0.1, "1e-3"),
        "on": (True, "x", 3, "3.10", "007"),
        "dims": ("[64,32]", "{a:1,b:(2,3)}", "[]"),
    }
    assert other.launch.at_once == 4
    told = (
        "note: seed has one value, 3..8; for the numbers from 3 to 8: --sweep=seed=$(seq -s, 3 8)"
    )
    ran = run("launch", "--dry_run", "--sweep=seed=3..8", "--sweep=lr=1e-3,1", "--", "x{seed}{lr}")
    assert [line for line in ran.err.splitlines() if line.startswith("note:")] == [told]


def test_a_dry_run_of_what_would_be_refused_exits_104(
    run: Run, bucket: Bucket, tmp_path: Path
) -> None:
    """As its help says, the launch is printed, the refusal is on stderr, and a script sees it."""
    publish(bucket.store, "pools", {"pools": [], "machines": []})
    words = (f"--code={tmp_path}", "--python_env=uv.lock", "--", "true")
    ran = run("launch", "--dry_run", *words)
    assert (ran.code, "uv.lock" in ran.out) == (exits.REFUSED, True)
    assert "it would be refused: python: uv.lock is not in the code" in ran.err
    shown = " ".join(run("launch", "--help").out.split())
    assert "if it would be refused, say why on stderr and exit with 104" in shown


def test_a_dry_run_tells_tasks_together(run: Run, bucket: Bucket) -> None:
    """The spec is shown as it would be sent; nothing is written."""
    ran = run("launch", "--dry_run", "--json", "--array=0-99%10", "--", "train")
    assert json.loads(ran.out)["launch"]["array"] == "0-99%10"
    assert not bucket.store.list(layout.INBOX)
