"""
The trees in a machine's cache, so that the next job with the same code fetches nothing.

        <cache>/<name>/tree/        the tree, which is never modified
        <cache>/<name>/boot         the boot in which it was written or last checked
        <cache>/<name>.lock         locked while it is made, shared while it is copied
        <cache>/.new-<name>-*       in progress, or left by a killed process

A name is 64 hexadecimal digits that identify the tree. A tree appears by one rename, so a partial
one is never used. Data is not synced to disk, which would take minutes for many files: instead a
tree from before the last boot is checked before it is used.

A lock is removed with its tree, by a process that holds it. So a process that has got a lock looks
whether it still is the one at its path, and takes the new one if it is not.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from bundler.errors import BundleError
from bundler.tree import SHA256

_NOW = fcntl.LOCK_EX | fcntl.LOCK_NB
_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


def kept_tree(
    cache: Path, name: str, *, make: Callable[[Path], None], is_whole: Callable[[Path], bool]
) -> Path:
    """
    Return the folder in `cache` with the tree `name`; make it if it is missing.

    Any number of processes may request the same tree: one makes it, and the others wait. It must
    not be modified; `bundler.copies.checkout` gives a job its own copy.

    `make` writes the tree to a new folder; `is_whole` checks one of an earlier boot.

    Raises:
        BundleError: `name` is not 64 hexadecimal digits; also the errors of `make`.
    """
    if not SHA256.match(name):
        raise BundleError(f"{name!r} is not a digest, which is 64 lowercase hexadecimal digits")
    cache.mkdir(parents=True, exist_ok=True)
    home = cache / name
    if not _is_ready(home):
        with _locked(_lock_of(home)):
            if not _is_ready(home):
                _clear(cache, name)
                _renew(home, make=make, is_whole=is_whole)
    return home / "tree"


@contextmanager
def in_use(tree: Path) -> Iterator[Path | None]:
    """Yield the cached `tree`, which is not evicted meanwhile; None if it was evicted before."""
    home = tree.parent
    with _locked(_lock_of(home), fcntl.LOCK_SH):
        yield tree if tree.exists() else None


def evict(cache: Path, *, limit_bytes: int) -> int:
    """
    Delete the least recently used trees, until `cache` has at most `limit_bytes`.

    Trees that are in use stay. The remains of killed fetches are deleted first, and locks without a
    tree. Return the bytes of the trees that were deleted.
    """
    for left in {left.name.split("-")[1] for left in cache.glob(".new-*-*")}:
        with suppress(BlockingIOError), _locked(_lock_of(cache / left), _NOW):
            _clear(cache, left)
    for lock in cache.glob("*.lock"):
        home = lock.with_suffix("")
        if SHA256.match(home.name) and not home.exists():
            with suppress(BlockingIOError), _locked(lock, _NOW):
                _remove_lock(home)
    homes = [home for home in cache.iterdir() if SHA256.match(home.name)]
    homes.sort(key=lambda home: home.stat().st_mtime)
    sizes = {home: _size_bytes(home) for home in homes}
    over_bytes = sum(sizes.values()) - limit_bytes
    freed_bytes = 0
    for home in homes:
        if freed_bytes >= over_bytes:
            break
        with suppress(BlockingIOError), _locked(_lock_of(home), _NOW):
            home.rename(cache / f".new-{home.name}-evicted")
            _clear(cache, home.name)
            _remove_lock(home)
            freed_bytes += sizes[home]
    return freed_bytes


def _renew(home: Path, *, make: Callable[[Path], None], is_whole: Callable[[Path], bool]) -> None:
    if home.exists():
        if is_whole(home / "tree"):
            _write_boot(home)
            return
        home.rename(home.parent / f".new-{home.name}-damaged")
        _clear(home.parent, home.name)
    new = Path(tempfile.mkdtemp(prefix=f".new-{home.name}-", dir=home.parent))
    try:
        make(new / "tree")
        _write_boot(new)
        new.chmod(0o755)
        new.rename(home)
    except BaseException:
        shutil.rmtree(new, ignore_errors=True)
        raise


def _clear(cache: Path, name: str) -> None:
    """Delete the partial trees of `name`; the caller holds its lock."""
    for left in cache.glob(f".new-{name}-*"):
        shutil.rmtree(left)


def _is_ready(home: Path) -> bool:
    """Whether the tree can be used; it counts as used now."""
    try:
        boot = _boot()
        is_ready = bool(boot) and (home / "boot").read_text() == boot
        if is_ready:
            os.utime(home)
    except FileNotFoundError:
        return False
    return is_ready


def _write_boot(home: Path) -> None:
    new = home / ".boot"
    new.write_text(_boot())
    new.replace(home / "boot")


def _boot() -> str:
    """Return the id of this boot; empty on systems other than Linux, where every use checks."""
    return _BOOT_ID.read_text().strip() if sys.platform == "linux" else ""


def _size_bytes(home: Path) -> int:
    return sum(
        (Path(folder) / name).lstat().st_size
        for folder, _, names in os.walk(home)
        for name in names
    )


def _lock_of(home: Path) -> Path:
    return home.with_name(f"{home.name}.lock")


def _remove_lock(home: Path) -> None:
    """Remove the lock of a tree that is gone; the caller holds it."""
    if not home.exists():
        _lock_of(home).unlink()


@contextmanager
def _locked(path: Path, kind: int = fcntl.LOCK_EX) -> Iterator[None]:
    """Hold the lock at `path`, after its earlier holders; the kernel frees it at any exit."""
    while True:
        with path.open("w") as file:
            fcntl.flock(file, kind)
            if _is_at(path, file.fileno()):
                yield
                return


def _is_at(path: Path, descriptor: int) -> bool:
    """Whether the open file is the one at `path`, and was not removed."""
    try:
        return os.path.samestat(os.fstat(descriptor), path.stat())
    except FileNotFoundError:
        return False
