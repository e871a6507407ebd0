"""Leftovers of earlier builds on a host are removed, but nothing in use."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from bastion.clock import SystemClock
from bastion.provider.own_hosts.leftovers import KEPT_S, prune, remove_all
from tests.rigs.limits import killed

NOW = 1_700_000_000.0


def installed(folder: Path, place: str, *, age_s: float) -> Path:
    """Return a build or a Python that was last used this long ago."""
    made = folder / place
    made.mkdir(parents=True)
    mark = made / "whole"
    mark.touch()
    os.utime(mark, (NOW - age_s, NOW - age_s))
    return made


def test_what_nothing_has_used_for_a_week_is_removed(tmp_path: Path) -> None:
    """Builds and Pythons are removed by their last use, even after an incomplete installation."""
    kept = installed(tmp_path, "builds/new", age_s=KEPT_S - 60)
    installed(tmp_path, "builds/old", age_s=KEPT_S + 60)
    installed(tmp_path, "python/old", age_s=KEPT_S + 60)
    half = tmp_path / "builds/.new-7"
    half.mkdir()
    os.utime(half, (NOW - KEPT_S - 60, NOW - KEPT_S - 60))
    assert set(prune(tmp_path, NOW)) == {"builds/old", "builds/.new-7", "python/old"}
    assert list(tmp_path.glob("*/*")) == [kept]
    assert prune(tmp_path, NOW) == ()


@pytest.mark.parametrize("by", ["variable", "word"])
def test_what_a_process_runs_from_stays(tmp_path: Path, by: str) -> None:
    """An agent imports from its build, and a keeper that outlived its agent from its own."""
    old = installed(tmp_path, "builds/old", age_s=KEPT_S + 60)
    env, words = ({"PYTHONPATH": str(old)}, ()) if by == "variable" else ({}, (str(old),))
    argv = ["/bin/sh", "-c", "echo begun; read line", "sh", *words]
    pipe = subprocess.PIPE
    process = subprocess.Popen(argv, stdin=pipe, stdout=pipe, env=env, text=True)
    try:
        # Until its first output, the system may show neither its arguments nor its variables.
        assert process.stdout is not None
        assert process.stdout.readline() == "begun\n"
        assert prune(tmp_path, NOW) == ()
        still = f"process {process.pid} still runs from {old}"
        assert remove_all(tmp_path, SystemClock(), patience_s=0.0) == still
        assert old.exists()
    finally:
        killed(process)
    assert prune(tmp_path, NOW) == ("builds/old",)


def test_a_process_that_is_ending_is_waited_for(tmp_path: Path) -> None:
    """A machine leaves the records moments before its agent has ended."""
    folder = tmp_path / ".bastion"
    old = installed(folder, "builds/old", age_s=0)
    process = subprocess.Popen(["/bin/sh", "-c", "sleep 0.3; exit 0", str(old)])
    try:
        assert remove_all(folder, SystemClock()) == ""
        assert not folder.exists()
    finally:
        killed(process)


def test_everything_of_ours_is_removed_and_nothing_else(tmp_path: Path) -> None:
    """Closed folders of jobs are removed too; link targets and foreign files stay."""
    folder = tmp_path / ".bastion"
    installed(folder, "builds/new", age_s=0)
    work = folder / "bucket/own-1-0/home/work"
    work.mkdir(parents=True)
    (work / "file").touch()
    (folder / "bucket/own-1-0/machine").write_text("own gpu1")
    (folder / "lock").touch()
    others = tmp_path / "others"
    others.mkdir(mode=0o500)
    (work / "link").symlink_to(others)
    work.chmod(0o000)
    (folder / "notes").touch()
    assert remove_all(folder, SystemClock()) == (
        f"{folder} holds what cannot be removed or is not Bastion's: notes"
    )
    assert [path.name for path in folder.iterdir()] == ["notes"]
    assert others.stat().st_mode & 0o777 == 0o500
    (folder / "notes").unlink()
    assert remove_all(folder, SystemClock()) == ""
    assert not folder.exists()
