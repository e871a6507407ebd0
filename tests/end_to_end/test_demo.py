"""`bastion demo`: everything, with real processes, by one command."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import launch
from tests.end_to_end.programs import alive_in

ROOT = Path(launch.__file__).parents[1]


@pytest.mark.end_to_end
def test_the_demo_succeeds_and_leaves_nothing_running(tmp_path: Path) -> None:
    """
    A share is lent, reclaimed after notice and checkpoint, and lent again; the bucket stays.

    Exit code 0 means that every check of the demo held; its output must show each stage.
    """
    folder = tmp_path / "demo"
    ran = subprocess.run(
        [sys.executable, "-m", "launch.cli", "demo", f"--root={folder}", "--color=never"],
        env=dict(os.environ, PYTHONPATH=str(ROOT), HOME=str(tmp_path)),
        capture_output=True,
        text=True,
        timeout=90,
        check=False,
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr + (folder / "bastion.log").read_text()
    for shown in (
        "$ bastion why fourth: ",
        "extra prints: told to stop: saved step",
        "extra prints: resumed after step",
        "fourth   failed     bastion wait exits 3",
        "bastion web --open --root=file://",
        "nothing was lost",
    ):
        assert shown in ran.stdout
    assert not alive_in(folder)
    listed = subprocess.run(
        [sys.executable, "-m", "launch.cli", "list", "--all", "-q", f"--root={folder}/bucket"],
        env=dict(os.environ, PYTHONPATH=str(ROOT), HOME=str(tmp_path)),
        capture_output=True,
        text=True,
        check=True,
    )
    assert len(listed.stdout.split()) == 4
