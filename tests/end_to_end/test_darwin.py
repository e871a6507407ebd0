"""
The user's side on macOS: the command in a Python that lacks what macOS lacks.

The bastion and its machines run on Linux, as they always do.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.end_to_end.programs import DEADLINE_S, REPOSITORY, Programs, until
from tests.rigs import trees
from tests.rigs.git_repositories import commit

pytestmark = pytest.mark.end_to_end
Ran = subprocess.CompletedProcess[str]
RIG = REPOSITORY / "tests" / "rigs" / "darwin"


@pytest.fixture
def mac(programs: Programs, tmp_path: Path) -> Callable[..., Ran]:
    """Run the command in a folder of its own, as on a Mac."""
    env = programs.env | {"PYTHONPATH": f"{RIG}:{REPOSITORY}", "HOME": str(tmp_path)}

    def run(*words: str) -> Ran:
        return subprocess.run(
            [*programs.command, *words],
            cwd=tmp_path,
            env=env,
            capture_output=True,
            text=True,
            check=False,
            timeout=DEADLINE_S,
        )

    return run


def test_a_job_is_submitted_followed_and_inspected(mac: Callable[..., Ran], tmp_path: Path) -> None:
    """Code is uploaded, its copy is written here again, and every view has its answer."""
    code = tmp_path / "code"
    trees.write(code, {"tool": "#!/bin/sh\necho kept > $BASTION_OUTPUT_DIR/file\n"})
    (code / "tool").chmod(0o755)
    ran = mac("run", "--name=of-a-mac", f"--code={code}", "--shell", "--", "./tool; echo done")
    assert (ran.returncode, ran.stdout) == (0, "done\n"), ran.stderr
    job = ran.stderr.partition("following ")[2].partition(";")[0]
    for words in (
        ("list", "--all"),
        ("show", job, "--code"),
        ("show", job, "--checkout=again"),
        ("why", job),
        ("events", job),
        ("logs", job),
        ("wait", job),
        ("fetch", job, "kept"),
        ("history",),
        ("usage",),
        ("query", "SELECT count(*) FROM attempts"),
        ("pool",),
        ("machines",),
        ("top",),
        ("status",),
        ("doctor",),
        ("fsck",),
        ("quota", "show"),
        ("bundle", str(code)),
        ("rerun", job),
        ("simulate", "--machines=2x8", "--jobs=5", "--order=fair,fifo"),
    ):
        ran = mac(*words)
        assert (ran.returncode, "bug in bastion" in ran.stderr) == (0, False), (words, ran.stderr)
    again = tmp_path / "again" / "tool"
    assert (again.read_text(), os.access(again, os.X_OK)) == ((code / "tool").read_text(), True)
    assert [each.read_text() for each in (tmp_path / "kept").rglob("file")] == ["kept\n"]


def test_a_running_job_is_entered_and_cancelled(
    mac: Callable[..., Ran], programs: Programs, tmp_path: Path
) -> None:
    """A git commit is cloned on this side too; `exec` and `cancel` reach the machine."""
    code = tmp_path / "repository"
    head = commit(code, {"file": "of git\n"})
    spec = f"--bundler_spec=url={code.as_uri()} commit={head}"
    ran = mac("launch", "-q", "--bundler_type=git", spec, "--", "sleep", "600")
    assert ran.returncode == 0, ran.stderr
    job = ran.stdout.strip()
    until(lambda: "running" in programs.run("list").stdout, f"{job} runs")
    ran = mac("exec", job, "--", "cat", "file")
    assert (ran.returncode, ran.stdout) == (0, "of git\n"), ran.stderr
    assert mac("cancel", job).returncode == 0


@pytest.mark.parametrize(
    ("words", "what"),
    [
        (("up",), "a bastion with its machines"),
        (("demo",), "the demo"),
        (("serve",), "a bastion"),
        (("agent", "--", "--help"), "an agent"),
    ],
)
def test_what_needs_linux_says_so(
    words: tuple[str, ...], what: str, mac: Callable[..., Ran]
) -> None:
    """Nothing is created; the error says where it can run."""
    ran = mac(*words)
    assert ran.returncode == 1
    assert ran.stderr.startswith(
        f"error: {what} runs on Linux only; this is Darwin\nhint: create a VM for it"
    )
