"""`bastion up` and `bastion down`: a bastion and its machines, started and ended together."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from tests.end_to_end.programs import until

pytestmark = pytest.mark.end_to_end
Ran = subprocess.CompletedProcess[str]


@pytest.fixture
def bastion(tmp_path: Path) -> Callable[..., Ran]:
    """Run a command line in its own home, in a folder with files named like our modules."""
    work = tmp_path / "work"
    work.mkdir()
    for name in ("launch.py", "bastion.py", "queue.py"):
        (work / name).write_text("raise SystemExit('a file of the user was run')\n")
    home = {name: str(tmp_path / name) for name in ("XDG_CONFIG_HOME", "XDG_STATE_HOME")}
    environment = {**os.environ, **home, "BASTION_ROOT": str(tmp_path / "bucket")}

    def run(*words: str, home: Path = tmp_path) -> Ran:
        return subprocess.run(
            [sys.executable, "-P", "-m", "bastion.command", *words],
            cwd=work,
            env={**environment, "XDG_STATE_HOME": str(home / "XDG_STATE_HOME")},
            capture_output=True,
            text=True,
            check=False,
            timeout=120,
        )

    return run


def alive(folder: Path) -> list[int]:
    """Return the processes that name the folder."""
    return [
        process.pid
        for process in psutil.process_iter(["cmdline"])
        if any(str(folder) in word for word in process.info["cmdline"] or ())
    ]


def test_a_local_bastion_is_begun_and_ended_as_one(
    bastion: Callable[..., Ran], tmp_path: Path
) -> None:
    """An empty folder gets its files, jobs run in it, and nothing of it lives afterwards."""
    (tmp_path / "bucket" / "config").mkdir(parents=True)
    up = bastion("up", "--resources=h100=2,cpu=4")
    try:
        assert up.returncode == 0, up.stderr
        assert bastion("up").stderr.startswith("a bastion already leads ")
        assert bastion("up", "--resources=h100=2,cpu=4").returncode == 0  # typed again
        other = bastion("up", "--resources=h100=3")
        assert other.returncode == 2
        assert "already has pools: here has h100=2,cpu=4" in other.stderr
        ran = bastion("run", "--gpus=2", "--", "sh", "-c", "echo $CUDA_VISIBLE_DEVICES")
        assert (ran.returncode, ran.stdout) == (0, "0,1\n")
        job = bastion("launch", "-q", "--gpus=1", "--", "sleep", "600").stdout.strip()
        assert bastion("wait", job, "--timeout=0s").returncode == 124
        until(lambda: "running" in bastion("list").stdout, f"{job} runs")
        refused = bastion("down")
        assert refused.returncode == 2
        assert "1 job would be stopped" in refused.stderr
    finally:
        down = bastion("down", "--yes")
    assert down.returncode == 0, down.stderr
    assert not alive(tmp_path)
    assert (tmp_path / "bucket" / "state" / "root.json").exists()


def test_a_local_bastion_ends_though_its_bucket_was_deleted(
    bastion: Callable[..., Ran], tmp_path: Path
) -> None:
    """Its programs are found by its machines' folders, and a new bucket may replace it."""
    assert bastion("up", "--resources=h100=2,cpu=4").returncode == 0
    try:
        bastion("run", "--gpus=2", "--", "true")
        gone = tmp_path / "bucket"
        gone.rename(tmp_path / "trash")
        shutil.rmtree(tmp_path / "trash", ignore_errors=True)
        refused = bastion("up")
        assert refused.returncode == 2
        assert "its bastion or machines still run here" in refused.stderr
    finally:
        down = bastion("down", "--yes")
    assert down.returncode == 0, down.stderr
    assert "stopped 1 bastion and 1 machine that served it" in down.stderr
    assert not alive(tmp_path)
    assert bastion("up").returncode == 0
    assert bastion("down").returncode == 0


def test_an_interrupted_up_names_what_it_has_started(
    bastion: Callable[..., Ran], tmp_path: Path
) -> None:
    """Ctrl-C leaves a bastion behind, and prints the command that ends it."""
    root = f"--root={tmp_path / 'another'}"
    home = {"XDG_CONFIG_HOME": str(tmp_path), "XDG_STATE_HOME": str(tmp_path / "XDG_STATE_HOME")}
    up = subprocess.Popen(
        [sys.executable, "-P", "-m", "bastion.command", "up", root],
        env={**os.environ, **home, "BASTION_ROOT": ""},
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        state = tmp_path / "XDG_STATE_HOME"
        until(lambda: any(state.rglob("bastion.log")) and len(alive(state)) > 0, "it is started")
        up.send_signal(signal.SIGINT)
        _, told = up.communicate(timeout=60)
        assert up.returncode == 130
        last = told.splitlines()[-1]
        assert last.startswith("interrupted; the bastion that it started, process "), told
        ends = f"bastion down --root=file://{tmp_path}/another"
        assert last.endswith(f" continues; to stop it once it leads: {ends}"), told
    finally:
        until(lambda: bastion("down", root, "--yes").returncode == 0, "it leads, and is ended")
    assert not alive(tmp_path)


def test_another_home_finds_the_machines_again(bastion: Callable[..., Ran], tmp_path: Path) -> None:
    """A colleague's shell, or sudo, continues with the machines that the bucket's bastion kept."""
    assert bastion("up", "--resources=h100=2,cpu=4").returncode == 0
    other = tmp_path / "other"
    try:
        assert bastion("run", "--gpus=2", "--", "true").returncode == 0
    finally:
        down = bastion("down", home=other)
    assert down.stderr.endswith(" and 1 machine; its bucket remains\n"), down.stderr
    assert not alive(tmp_path)
    try:
        assert bastion("up", home=other).returncode == 0
        ran = bastion("run", "--name=second", "--gpus=2", "--", "true", home=other)
        assert ran.returncode == 0, ran.stderr
        told = bastion("events", "second").stdout
        assert "attempt 1 on" in told
        assert "attempt 2" not in told, "a machine that down has ended was given a job"
        assert not other.exists()
    finally:
        assert bastion("down").returncode == 0
    assert not alive(tmp_path)


def test_machines_in_another_folder_are_never_left_behind(
    bastion: Callable[..., Ran], tmp_path: Path
) -> None:
    """`up` and `down` with another `--machines_dir` name the folder where machines run."""
    assert bastion("up", "--resources=h100=2,cpu=4").returncode == 0
    try:
        assert bastion("run", "--gpus=2", "--", "true").returncode == 0
        for verb in ("up", "down"):
            ran = bastion(verb, f"--machines_dir={tmp_path / 'other'}")
            assert ran.returncode == 2
            assert ran.stderr.startswith("error: --machines_dir: 1 machine of this bucket runs in ")
            assert alive(tmp_path)
    finally:
        down = bastion("down")
    assert down.stderr.endswith(" and 1 machine; its bucket remains\n"), down.stderr
    assert not alive(tmp_path)
    assert bastion("down", f"--machines_dir={tmp_path / 'other'}").returncode == 0


def test_a_bucket_begins_beside_the_machines_of_another(
    bastion: Callable[..., Ran], tmp_path: Path
) -> None:
    """A mistyped root leaves a bastion and its machine; the correct one still starts."""
    (tmp_path / "sub").mkdir()
    machines = f"--machines_dir={tmp_path / 'sub' / '..' / 'machines'}"
    mistyped = f"--root=file://{tmp_path / 'bukket'}"
    try:
        first = bastion("up", mistyped, machines)
        assert first.returncode == 0
        assert f"; its log is {tmp_path / 'machines'}/" in first.stderr, "a path without dots"
        assert (tmp_path / "machines" / ".gitignore").read_text() == "*\n"
        assert bastion("run", mistyped, "--", "true").returncode == 0
        up = bastion("up", machines)
        assert up.returncode == 0, up.stderr
        assert bastion("run", "--", "true").returncode == 0
    finally:
        downs = [bastion("down", machines), bastion("down", mistyped, machines)]
    for down in downs:
        assert down.stderr.endswith(" and 1 machine; its bucket remains\n"), down.stderr
    assert not alive(tmp_path)


def test_up_and_down_refuse_a_cloud_bucket(bastion: Callable[..., Ran]) -> None:
    """`down` never affects a bastion elsewhere."""
    for verb in ("up", "down"):
        ran = bastion(verb, "--root=gs://bucket/bastion")
        assert ran.returncode == 2
        assert ran.stderr.startswith("error: gs://bucket/bastion is not a folder\n")


def test_a_bastion_that_does_not_lead_is_ended(bastion: Callable[..., Ran], tmp_path: Path) -> None:
    """`up` says why in the words of the log, and leaves neither a process nor a machine."""
    bucket = tmp_path / "bucket"
    bucket.mkdir()
    (bucket / "view").write_text("a file where views are published")
    up = bastion("up", "--resources=h100=2,cpu=4")
    assert up.returncode == 1
    told, hint = up.stderr.splitlines()[-2:]
    assert told.startswith("error: the bastion did not lead and was stopped")
    assert "'view/queue.json' cannot be created: no key may be both" in told
    assert hint.endswith("bastion.log")
    assert not alive(tmp_path)
    (bucket / "view").unlink()
    try:
        assert bastion("up").returncode == 0
        assert bastion("run", "--gpus=2", "--", "true").returncode == 0
    finally:
        assert bastion("down").returncode == 0
    assert not alive(tmp_path)


def test_a_start_that_is_refused_shows_its_own_error(
    bastion: Callable[..., Ran], tmp_path: Path
) -> None:
    """A broken root is named, `down` still ends it, and another bucket's log is not read."""
    machines = f"--machines_dir={tmp_path / 'machines'}"
    other = f"--root=file://{tmp_path / 'other'}"
    try:
        assert bastion("up", machines).returncode == 0
        assert bastion("run", "--", "true").returncode == 0
        assert bastion("up", other, machines).returncode == 0
    finally:
        downs = [bastion("down", machines), bastion("down", other, machines)]
    assert [down.returncode for down in downs] == [0, 0], downs
    (tmp_path / "bucket" / "state" / "root.json").write_text("garbage")
    up = bastion("up", machines)
    assert up.returncode == 1
    assert up.stderr.startswith("error: the bastion did not start: state/root.json: invalid JSON")
    down = bastion("down", machines)
    assert down.stderr.endswith(" and 0 machines; its bucket remains\n"), down.stderr
    assert not alive(tmp_path)


def test_a_start_looks_before_it_writes(bastion: Callable[..., Ran], tmp_path: Path) -> None:
    """A file in the place of a folder is named with its flag, and nothing is created."""
    file = tmp_path / "file"
    file.write_text("")
    for words in (
        [f"--root=file://{file}"],
        [f"--root=file://{file}/below"],
        [f"--machines_dir={file}"],
        [f"--machines_dir={file}/below"],
    ):
        up = bastion("up", *words)
        flag = words[0].partition("=")[0]
        assert up.returncode == 2
        assert up.stderr.startswith(f"error: {flag}: {file} is a file, not a folder\n")
    for resources, told in (
        ("h100", "'h100' is not TYPE=N, as in h100=2,cpu=4"),
        ("h100=-2", "h100: '-2' is not a number of units; allowed: 1, 2, 3, ..."),
        ("cpu=4,h100=0", "h100=0 is not allowed; must be 1 or more\nhint: omit h100"),
        ("h100=2000000000", "h100=2000000000 is not allowed; must be at most 1000000000"),
        ("h100=1,H100=2", "h100 is given twice, 1 and 2"),
        ("h 100=1", "'h 100' is not a type; allowed are a-z, 0-9 and _, as in a100_80gb"),
        ("a.b=1", "'a.b' is not a type; allowed are a-z, 0-9 and _, as in a100_80gb"),
        ("memory=8GiB", "memory alone cannot be shared\n"),
    ):
        up = bastion("up", f"--resources={resources}")
        assert (up.returncode, up.stdout) == (2, "")
        assert up.stderr.startswith(f"error: --resources: {told}")
    assert {path.name for path in tmp_path.iterdir()} == {"file", "work"}
