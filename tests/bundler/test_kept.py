"""Locks of cached trees are deleted with their trees, and still allow one builder at a time."""

from __future__ import annotations

import fcntl
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from bundler.copies.kept import evict, in_use, kept_tree

NAME, OTHER = "a" * 64, "b" * 64


def _make(new: Path) -> None:
    new.mkdir()
    (new / "file").write_text("text")


def _kept(cache: Path, name: str = NAME, make: Callable[[Path], None] = _make) -> Path:
    return kept_tree(cache, name, make=make, is_whole=lambda _: True)


def test_an_evicted_tree_leaves_no_lock(tmp_path: Path) -> None:
    """A tree that was never made leaves none either; a tree in use keeps its own."""
    used = _kept(tmp_path)
    _kept(tmp_path, OTHER)
    (tmp_path / f"{'c' * 64}.lock").touch()
    with in_use(used) as tree:
        assert tree == used
        evict(tmp_path, limit_bytes=0)
        assert {each.name for each in tmp_path.iterdir()} == {NAME, f"{NAME}.lock"}
    evict(tmp_path, limit_bytes=0)
    with in_use(used) as tree:
        assert tree is None
    evict(tmp_path, limit_bytes=0)
    assert list(tmp_path.iterdir()) == []


def test_a_lock_that_was_removed_while_it_was_awaited_is_none(tmp_path: Path) -> None:
    """A process that waited for it takes the new lock, so no other one makes the tree too."""
    lock = tmp_path / f"{NAME}.lock"
    held = lock.open("w")
    fcntl.flock(held, fcntl.LOCK_EX)

    def make(new: Path) -> None:
        with lock.open("w") as second, pytest.raises(BlockingIOError):
            fcntl.flock(second, fcntl.LOCK_EX | fcntl.LOCK_NB)
        _make(new)

    with ThreadPoolExecutor(1) as threads:
        made = threads.submit(_kept, tmp_path, NAME, make)
        while not _is_awaited(lock):
            assert not made.done()
        lock.unlink()
        held.close()
        assert (made.result(60) / "file").read_text() == "text"


def _is_awaited(lock: Path) -> bool:
    """Whether the kernel lists a process that waits for this lock."""
    number = f":{lock.stat().st_ino} "
    lines = Path("/proc/locks").read_text().splitlines()
    return any("->" in line and number in line for line in lines)
