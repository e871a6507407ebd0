"""Whether a machine can start anything, as its agent sees it."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from bastion.agent.machine.health import has_little_room, unwell
from tests.bastion.agent.real_machine import REPOSITORY


def test_a_machine_with_room_is_well(tmp_path: Path) -> None:
    """With disk space, descriptors and memory, nothing is wrong."""
    assert unwell(str(tmp_path)) == ""


def test_a_folder_that_is_gone_is_told(tmp_path: Path) -> None:
    """If the disk of its home does not answer, the machine is unwell."""
    assert "does not answer" in unwell(str(tmp_path / "gone"))


def test_want_of_descriptors_is_told(tmp_path: Path) -> None:
    """A process without a free descriptor says so, and keeps none of those it tried."""
    code = (
        "import os, resource, sys\n"
        "from bastion.agent.machine.health import unwell\n"
        "soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)\n"
        "resource.setrlimit(resource.RLIMIT_NOFILE, (len(os.listdir('/proc/self/fd')) + 4, hard))\n"
        "print(unwell(sys.argv[1]))\n"
        "resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))\n"
        "print(unwell(sys.argv[1]))\n"
    )
    ran = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path)], cwd=REPOSITORY, capture_output=True, check=True
    )
    first, second = ran.stdout.decode().splitlines()
    assert first == "it is out of file descriptors: Too many open files"
    assert second == ""


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of 8 MB."""
    disk = tmp_path / "disk"
    disk.mkdir()
    words = ["mount", "-t", "tmpfs", "-o", "size=8m", "tmpfs", str(disk)]
    if subprocess.run(words, check=False, capture_output=True).returncode:
        pytest.skip("only root may mount a disk here")
    try:
        yield disk
    finally:
        subprocess.run(["umount", str(disk)], check=True)


def test_a_full_disk_is_told(disk: Path) -> None:
    """A small disk that is almost full makes its machine unwell until there is room again."""
    assert unwell(str(disk)) == ""
    assert not has_little_room(str(disk))
    (disk / "almost").write_bytes(b"x" * (15 << 19))
    assert unwell(str(disk)) == ""
    assert has_little_room(str(disk))
    (disk / "full").write_bytes(b"x" * (3 << 17))
    assert unwell(str(disk)).startswith("its disk is full")
    (disk / "full").unlink()
    (disk / "almost").unlink()
    assert unwell(str(disk)) == ""


def test_full_shared_memory_is_told(tmp_path: Path, disk: Path) -> None:
    """What killed data loaders left there keeps the next ones from beginning."""
    assert unwell(str(tmp_path), str(disk)) == ""
    (disk / "torch_1_2").write_bytes(b"x" * (127 << 16))
    told = f"its shared memory is full: 0 MiB of 8 MiB of {disk} are free"
    assert unwell(str(tmp_path), str(disk)).startswith(told)
    (disk / "torch_1_2").unlink()
    assert unwell(str(tmp_path), str(disk)) == ""
    assert unwell(str(tmp_path), str(tmp_path / "none")) == ""
