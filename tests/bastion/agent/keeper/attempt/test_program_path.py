"""The search for a program does not wait forever for a disk that does not answer."""

from __future__ import annotations

import ctypes
import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from bastion.agent.keeper.attempt.process import why_not
from bastion.agent.keeper.attempt.program_path import program_of
from bastion.agent.keeper.socket.request import ProcessSpec


@pytest.fixture
def hung(tmp_path: Path) -> Iterator[Path]:
    """Mount a folder on a disk that does not answer: a FUSE whose program does not read."""
    folder = tmp_path / "hung"
    folder.mkdir()
    libc = ctypes.CDLL(None, use_errno=True)
    try:
        device = os.open("/dev/fuse", os.O_RDWR)
    except OSError:
        pytest.skip("no FUSE here")
    said = f"fd={device},rootmode={stat.S_IFDIR:o},user_id=0,group_id=0"
    if libc.mount(b"none", os.fsencode(folder), b"fuse", 0, said.encode()):
        os.close(device)
        pytest.skip("only root may mount a disk here")
    try:
        yield folder
    finally:
        libc.umount2(os.fsencode(folder), 2)
        os.close(device)


def spec(tmp_path: Path, program: str, path: str) -> ProcessSpec:
    return ProcessSpec({"argv": [program], "env": {"PATH": path}, "cwd": str(tmp_path)})


def test_a_program_is_found_in_the_first_folder_that_has_it(tmp_path: Path) -> None:
    """A folder with its name, and a file that cannot be run, are skipped."""
    for name in ("a", "b", "c", "d"):
        (tmp_path / name).mkdir()
    (tmp_path / "a" / "run").mkdir()
    (tmp_path / "b" / "run").write_text("")
    for name in ("c", "d"):
        (tmp_path / name / "run").touch(0o755)
    path = f"{tmp_path}/none:{tmp_path}/a:b:c:d"
    assert program_of(spec(tmp_path, "run", path), set()) == f"{tmp_path}/c/run"
    assert program_of(spec(tmp_path, "./none", path), set()) == "./none"
    with pytest.raises(FileNotFoundError, match="no such program in PATH"):
        program_of(spec(tmp_path, "walk", path), set())
    with pytest.raises(FileNotFoundError, match="in PATH; many machines have only python3"):
        program_of(spec(tmp_path, "python", path), set())


def test_a_disk_that_does_not_answer_is_named(tmp_path: Path, hung: Path) -> None:
    """The child that searches there is ended, and earlier folders of PATH still work."""
    stuck: set[int] = set()
    for program, path in (("run", f"{tmp_path}:{hung}:/bin"), (f"{hung}/run", "/bin")):
        asked = spec(tmp_path, program, path)
        with pytest.raises(TimeoutError) as raised:
            program_of(asked, stuck, wait_s=0.2)
        told = f"{hung}/run does not answer: its disk may be out of reach"
        assert why_not(asked, raised.value) == f"cannot start {program!r}: {told}"
    assert program_of(spec(tmp_path, "sh", f"/bin:{hung}"), stuck) == "/bin/sh"
    assert not stuck
