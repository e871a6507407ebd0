"""What this machine refuses: disks, streams, signals, flags without a value."""

from __future__ import annotations

import json
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from bastion.records.keys import layout
from tests.launch.bucket import JOB, Bucket
from tests.launch.command_line import Run
from tests.launch.process import COMMAND, ROOT, environment
from tests.rigs.scripted_bastion import QUOTA, end, print_log, publish, put, row

FULL = "error: standard output: No space left on device"


def ran_into(
    target: str, words: list[str], bucket: Bucket, tmp_path: Path
) -> subprocess.CompletedProcess[str]:
    """Run a command line whose stdout is the redirection `target` of a shell."""
    line = f'exec "$@" {target}'
    return subprocess.run(
        ["bash", "-c", line, "bash", *COMMAND, *words],
        env=environment(bucket, tmp_path),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )


def test_a_full_disk_behind_stdout_is_said(bucket: Bucket, tmp_path: Path) -> None:
    """It is no bug in Bastion, and there is no second message at exit."""
    ran = ran_into("> /dev/full", ["list"], bucket, tmp_path)
    assert ran.returncode == 1
    assert ran.stderr.splitlines() == [
        FULL,
        "hint: the disk is full: free some space, then try again",
    ]


def test_a_launch_that_cannot_be_printed_was_submitted_all_the_same(
    bucket: Bucket, tmp_path: Path
) -> None:
    """Its id is on stderr, so a user who reads that does not submit it twice."""
    with bucket.bastion() as bastion:
        ran = ran_into("> /dev/full", ["launch", "-q", "--", "true"], bucket, tmp_path)
    assert len(bastion.taken) == 1
    told = ran.stderr.splitlines()
    assert told[0].startswith("true-")
    assert told[0].endswith(" was submitted, but its id could not be printed:")
    assert told[1] == FULL


def test_a_closed_stdout_is_said(bucket: Bucket, tmp_path: Path) -> None:
    """There is no place for data."""
    ran = ran_into(">&-", ["list"], bucket, tmp_path)
    assert (ran.returncode, ran.stderr.splitlines()[0]) == (1, "error: standard output is closed")


def test_a_folder_that_takes_no_log_is_said(bucket: Bucket, tmp_path: Path) -> None:
    """The error has the place and the system's words, without a traceback."""
    print_log(bucket.store, JOB, b"a line\n")
    taken = tmp_path / "taken"
    taken.write_text("a file")
    ran = ran_into("", ["logs", JOB, f"--download={taken}/x"], bucket, tmp_path)
    assert ran.returncode == 1
    assert ran.stderr == f"error: {taken}/x: Not a directory\n"


@pytest.mark.parametrize(
    ("words", "file"),
    [
        (f"logs {JOB} --download=.", "a1-r0-h0-p0.log"),
        ("simulate --machines=1x8 --jobs=3 --jobs_json=rows", "rows"),
        ("simulate --machines=1x8 --jobs=3 --report=page.html", "page.html"),
        ("config set user=ada", ".new"),
    ],
)
def test_a_file_that_takes_no_byte_is_named(
    words: str, file: str, bucket: Bucket, tmp_path: Path
) -> None:
    """Standard output is not blamed, and no misleading part of a file remains."""
    print_log(bucket.store, JOB, b"a line\n")
    put(bucket.store, layout.ROOT, b'{"quota_text": %s}' % encode_text(QUOTA))
    (tmp_path / "temporary").mkdir()
    ran = subprocess.run(
        ["bash", "-c", f'ulimit -f 0; "$@" {words} | cat', "bash", *COMMAND],
        env=environment(bucket, tmp_path) | {"TMPDIR": str(tmp_path / "temporary")},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    (told,) = (line for line in ran.stderr.splitlines() if line.startswith("error: "))
    assert told.endswith(f"{file}: File too large")
    assert not [*tmp_path.glob("temporary/*"), *tmp_path.glob("**/*.new")]


def test_a_machine_without_room_for_temporary_files_is_said(bucket: Bucket, tmp_path: Path) -> None:
    """The folders that were tried are named, and the current one is not called missing."""
    put(bucket.store, layout.ROOT, b'{"quota_text": %s}' % encode_text(QUOTA))
    ran = subprocess.run(
        ["bash", "-c", 'ulimit -f 0; "$@" quota edit | cat', "bash", *COMMAND],
        env=environment(bucket, tmp_path),
        capture_output=True,
        text=True,
        check=False,
    )
    told, hint = ran.stderr.splitlines()
    assert told.startswith("error: No usable temporary directory found in ['/tmp', ")
    assert hint == "hint: free some space in one of them, or set TMPDIR to another folder"


@pytest.mark.skipif(sys.platform != "linux", reason="nothing can be made in /proc")
@pytest.mark.parametrize(
    ("words", "place"),
    [
        (["demo", "--root=/proc/x"], "/proc/x"),
        (["up", "--root=/proc/x"], "/proc/x"),
        (["config", "set", "root=/tmp"], "/proc/bastion"),
    ],
)
def test_a_place_where_nothing_can_be_made_is_said(
    words: list[str], place: str, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Commands that create a bucket or write the configuration name the place and the problem."""
    monkeypatch.setenv("XDG_CONFIG_HOME", "/proc")
    ran = run(*words)
    assert (ran.code, ran.out) == (1, "")
    told = ran.err.splitlines()[0]
    assert told.startswith("error: ")
    assert told.endswith(f"{place}: No such file or directory")


def test_a_limit_on_files_leaves_nothing_of_a_bucket(tmp_path: Path) -> None:
    """As with a full disk, `up` says what is wrong and creates no folder."""
    words = f"ulimit -f 0; exec {sys.executable} -m launch.cli up --root={tmp_path}/bucket | cat"
    ran = subprocess.run(
        ["bash", "-c", words],
        env={"PATH": "/usr/bin:/bin", "PYTHONPATH": str(ROOT), "HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.stderr.splitlines() == [
        f"error: --root: cannot write to {tmp_path}/bucket: File too large",
        "hint: the file would exceed the file size limit: check ulimit -f",
    ]
    assert not (tmp_path / "bucket").exists()


def test_ctrl_c_while_it_still_loads_is_quiet() -> None:
    """Whichever module is being imported, there is no traceback."""
    code = (
        "import builtins, os, signal\n"
        "from launch.start import start\n"
        "load = builtins.__import__\n"
        "def interrupted(name, *rest):\n"
        "    if name.startswith('launch.cli'): os.kill(os.getpid(), signal.SIGINT)\n"
        "    return load(name, *rest)\n"
        "builtins.__import__ = interrupted\n"
        "start()\n"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, check=False)
    assert (ran.returncode, ran.stderr) == (-signal.SIGINT, b"")


@pytest.mark.parametrize("words", [["--root="], ["--root", ""], ["--project_id="], ["--state= "]])
def test_a_flag_without_its_value_is_refused(words: list[str], run: Run) -> None:
    """An unset variable in a script never means another bastion."""
    ran = run("list", *words)
    assert ran.code == 2
    assert ran.err.startswith(f"error: {words[0].partition('=')[0]}: the value is empty\n")


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["launch", "--resources=--"], "--resources: '--' is not TYPE=N, as in h100=2,cpu=4"),
        (["launch", "--env=--"], "--env: '--' is not NAME=TEXT"),
        (["launch", "--alias=--"], "aliases[0]: '--' is unknown"),
        (["list", "--state=--"], "--state: '--' is unknown"),
        (["launch", "--after=,"], "--after: ',' has no value"),
        (["history", "--limit=--"], "--limit: '--' is not a whole number"),
    ],
)
def test_two_dashes_are_a_value_like_another(words: list[str], told: str, run: Run) -> None:
    """A wrong value that a script puts behind a flag is refused with a message."""
    ran = run(*words, "--", "true") if words[0] == "launch" else run(*words)
    assert ran.code == 2
    assert ran.err.startswith(f"error: {told}")


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["pool", "--for=nan"], "--for: only pool warm takes it"),
        (["config", "list", "--profile=x"], "--profile: only config set takes it, not config list"),
    ],
)
def test_a_flag_that_would_do_nothing_is_refused(words: list[str], told: str, run: Run) -> None:
    """It belongs to another action of the verb, and its value would have no effect."""
    ran = run(*words)
    assert (ran.code, ran.err.splitlines()[0]) == (2, f"error: {told}")


def test_a_flag_given_twice_is_refused(run: Run) -> None:
    """We do not guess which of two values was meant; the same value twice is fine."""
    ran = run("launch", "--replicas=1", "--replicas=2", "--", "true")
    assert (ran.code, ran.out) == (2, "")
    assert ran.err.startswith("error: --replicas: given twice, as 1 and as 2; give it once\n")
    assert run("list", "--limit=1", "--limit=1").code == 0


def test_one_unreadable_record_hides_no_other_job(run: Run, bucket: Bucket) -> None:
    """It has its own row, which says what to do."""
    end(bucket.store, "good-0123456789")
    put(bucket.store, layout.result("blue", "bad-0123456789"), b"garbage")
    ran = run("list", "--all")
    assert ran.code == 0
    lines = {line.split()[0]: line for line in ran.out.splitlines()}
    assert "succeeded" in lines["good-0123456789"]
    assert "unreadable" in lines["bad-0123456789"]
    assert "bad-0123456789" in run("list", "--all", "-q").out.split()


def test_a_quota_file_that_is_no_text_is_said(run: Run, tmp_path: Path) -> None:
    """For a file in another encoding, the error names the byte."""
    file = tmp_path / "q.toml"
    file.write_bytes(QUOTA.encode() + b"\xff\xfe")
    ran = run("quota", "check", str(file))
    assert ran.code == 2
    assert ran.err.startswith(f"error: {file}: byte {len(QUOTA)} is not UTF-8\n")


def test_an_editor_that_is_not_there_is_said(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """The hint names its variable."""
    monkeypatch.setenv("VISUAL", "no-such-editor")
    ran = run("quota", "edit")
    assert ran.code == 2
    assert ran.err.splitlines() == [
        "error: no-such-editor: No such file or directory",
        "hint: set EDITOR or VISUAL to your editor",
    ]


def test_what_a_job_has_not_has_no_log(run: Run, bucket: Bucket) -> None:
    """An unknown attempt, replica or process is not an empty log."""
    publish(bucket.store, "queue", {"jobs": [row(JOB, state="running", attempt=1, replicas=2)]})
    for flag, what in {
        "--attempt=99": "no attempt 99; it has 1",
        "--replica=2": "no replica 2; it has 2, counted from 0",
    }.items():
        ran = run("logs", "train", flag)
        assert (ran.code, ran.err) == (103, f"error: {JOB} has {what}\n")
    assert run("logs", "train", "--replica=1").code == 0


def test_json_of_every_quota_verb_is_json(run: Run, bucket: Bucket, tmp_path: Path) -> None:
    """Fractions of a quota file are numbers."""
    file = tmp_path / "new.toml"
    file.write_text(QUOTA.replace("1024", "512"))
    shown = json.loads(run("quota", "show", "--json").out)
    assert shown["projects"][0]["name"] == "blue"
    assert json.loads(run("quota", "check", str(file), "--json").out)["problems"] == []
    changed = json.loads(run("quota", "diff", str(file), "--json").out)
    assert any("512" in line for line in changed["changes"])


def test_a_broken_quota_file_is_told_apart_from_the_one_that_is_checked(
    run: Run, bucket: Bucket, tmp_path: Path
) -> None:
    """Errors begin with the file's name, and the last good file is used for comparison."""
    put(bucket.store, layout.ROOT, b'{"quota_text": %s}' % encode_text(QUOTA))
    put(bucket.store, layout.QUOTA, b"[nonsense")
    good = tmp_path / "good.toml"
    good.write_text(QUOTA.replace("1024", "512"))
    ran = run("quota", "diff", str(good))
    assert ran.code == 0, ran.err
    assert "the bucket's file is not in force: quota file of the bucket: line 1" in ran.err
    bad = tmp_path / "bad.toml"
    bad.write_text("[nonsense")
    assert run("quota", "check", str(bad)).err.startswith(f"error: {bad}: line 1")


def encode_text(text: str) -> bytes:
    """Return `text` as JSON."""
    return json.dumps(text).encode()


def test_a_broken_quota_file_stops_no_user(run: Run, bucket: Bucket) -> None:
    """The bastion and users without a project continue with the last good file."""
    put(bucket.store, layout.ROOT, b'{"quota_text": %s}' % encode_text(QUOTA))
    put(bucket.store, layout.QUOTA, b"[nonsense")
    with bucket.bastion() as bastion:
        assert run("launch", "-q", "--", "true").code == 0
    assert bastion.taken[0][0].startswith("inbox/blue/ada/")


def test_a_port_that_is_taken_is_said_once(run: Run) -> None:
    """One line has the port, the address and the system's words."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        ran = run("web", f"--port={port}")
    assert (ran.code, ran.out) == (1, "")
    assert ran.err.splitlines() == [
        f"error: port {port} of 127.0.0.1: Address already in use",
        "hint: --port=0 takes any that is free",
    ]


def test_a_host_that_is_not_this_machine_is_told(run: Run) -> None:
    """Another port would not help: the hint lists the available addresses."""
    ran = run("web", "--host=192.0.2.1", "--user_header=X-User", "--port=0")
    assert (ran.code, ran.out) == (2, "")
    assert ran.err.splitlines() == [
        "error: --host: '192.0.2.1' is not an address of this machine",
        "hint: use one of its addresses; 127.0.0.1 serves only programs on this machine, 0.0.0.0"
        " everyone",
    ]
