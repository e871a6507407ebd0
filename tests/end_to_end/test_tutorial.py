"""The tutorial does what it says: a test runs its commands as written."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import launch
from tests.end_to_end.programs import alive_in

ROOT = Path(launch.__file__).parents[1]
PAGE = ROOT / "docs" / "tutorial.md"


@pytest.mark.prove
@pytest.mark.end_to_end
def test_the_tutorial_runs_as_written(tmp_path: Path) -> None:
    """Every `sh` block in order, in one shell: all succeed, and the preempted job resumes."""
    commands = tmp_path / "bin"
    commands.mkdir()
    command = commands / "bastion"
    command.write_text(f'#!/bin/sh\nexec {sys.executable} -m launch.cli "$@"\n')
    command.chmod(0o755)
    blocks = re.findall(r"^```sh\n(.*?)^```$", PAGE.read_text(), re.DOTALL | re.MULTILINE)
    ran = subprocess.run(
        ["bash", "-e", "-m", "-c", "\n".join(blocks)],
        cwd=tmp_path,
        env={
            "PATH": f"{commands}:{os.environ['PATH']}",
            "PYTHONPATH": str(ROOT),
            "HOME": str(tmp_path),
        },
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert "my devices: 0\n" in ran.stdout
    assert "my share\n" in ran.stdout
    resumed = re.search(r"stopped: saved step (\d+)\nbegin at step \1\n", ran.stdout)
    assert resumed, ran.stdout
    assert not alive_in(tmp_path)
