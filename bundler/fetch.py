"""
A bundle becomes a tree in a machine's cache, and stays there for the next job.

    <cache>/<digest>/tree/        the tree; nobody writes in it again
    <cache>/<digest>/boot         the boot of the machine that it was written or checked in
    <cache>/<digest>.lock         held while it is fetched
    <cache>/.new-<digest>-*       being fetched, or left by one that was killed

Rules: every byte is checked against its sha256 before it has its name; the tree appears by one
rename, so a half-fetched one is never used. Data is not forced to disk, which would take minutes
for many files: a tree written before the machine last started is checked again before it is used.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from bundler.blobs import Blobs
from bundler.errors import BundleError
from bundler.manifest import read_manifest
from bundler.progress import Report, unreported
from bundler.tree import SHA256
from bundler.unpack import is_intact, write_tree

LANES = 3
"""Packs read and written at once: about 100 MB of memory at most."""
_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


def fetch(
    digest: str, store: Blobs, cache: Path, *, report: Report = unreported, lanes: int = LANES
) -> Path:
    """
    The folder in `cache` that holds the tree `digest`, fetched if it is not there.

    Any number of processes may fetch the same tree: one does, the others wait for it. Nobody may
    write in the folder; `bundler.checkout` gives a job its own copy.

    Raises:
        BundleError: The store has no such bundle.
        DamagedError: What the store has is not the tree of that digest.
    """
    if not SHA256.match(digest):
        raise BundleError(f"{digest!r} is no digest of a bundle, which is 64 hexadecimal digits")
    cache.mkdir(parents=True, exist_ok=True)
    home = cache / digest
    if _is_of_this_boot(home):
        return _touched(home)
    with _locked(cache / f"{digest}.lock"):
        if not _is_of_this_boot(home):
            _clear(cache, digest)
            _make(home, digest, store, report=report, lanes=lanes)
    return _touched(home)


def evict(cache: Path, *, limit_bytes: int, keep: frozenset[str] = frozenset()) -> int:
    """
    Delete trees, the longest unused first, until `cache` holds at most `limit_bytes`.

    Trees whose digest is in `keep` stay: the caller names those that are being checked out. What
    killed fetches left goes first. Returns the bytes that trees held.
    """
    for left in {left.name.split("-")[1] for left in cache.glob(".new-*-*")}:
        with suppress(BlockingIOError), _locked(cache / f"{left}.lock", waits=False):
            _clear(cache, left)
    homes = [home for home in cache.iterdir() if SHA256.match(home.name)]
    homes.sort(key=lambda home: home.stat().st_mtime)
    sizes = {home: _size_bytes(home) for home in homes}
    over_bytes = sum(sizes.values()) - limit_bytes
    freed_bytes = 0
    for home in homes:
        if freed_bytes >= over_bytes:
            break
        if home.name not in keep:
            with _locked(cache / f"{home.name}.lock"):
                home.rename(cache / f".new-{home.name}-evicted")
                _clear(cache, home.name)
            freed_bytes += sizes[home]
    return freed_bytes


def _make(home: Path, digest: str, store: Blobs, *, report: Report, lanes: int) -> None:
    manifest = read_manifest(digest, store)
    if manifest is None:
        raise BundleError(
            f"the store has no bundle {digest}", hint="bundle and submit the code again"
        )
    if home.exists():
        if is_intact(manifest.tree, home / "tree"):
            _write_boot(home)
            return
        home.rename(home.parent / f".new-{digest}-damaged")
        _clear(home.parent, digest)
    new = Path(tempfile.mkdtemp(prefix=f".new-{digest}-", dir=home.parent))
    try:
        (new / "tree").mkdir()
        write_tree(manifest, new / "tree", store, report=report, lanes=lanes)
        _write_boot(new)
        new.chmod(0o755)
        new.rename(home)
    except BaseException:
        shutil.rmtree(new, ignore_errors=True)
        raise


def _clear(cache: Path, digest: str) -> None:
    """Delete what is no tree and belongs to `digest`; for the holder of its lock."""
    for left in cache.glob(f".new-{digest}-*"):
        shutil.rmtree(left)


def _is_of_this_boot(home: Path) -> bool:
    try:
        return (home / "boot").read_text() == _boot()
    except FileNotFoundError:
        return False


def _write_boot(home: Path) -> None:
    new = home / ".boot"
    new.write_text(_boot())
    new.replace(home / "boot")


def _boot() -> str:
    return _BOOT_ID.read_text().strip()


def _touched(home: Path) -> Path:
    os.utime(home)
    return home / "tree"


def _size_bytes(home: Path) -> int:
    return sum(
        (Path(folder) / name).lstat().st_size
        for folder, _, names in os.walk(home)
        for name in names
    )


@contextmanager
def _locked(path: Path, *, waits: bool = True) -> Iterator[None]:
    """Hold the lock at `path`, after everyone who holds it now; the kernel frees it on any end."""
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX | (0 if waits else fcntl.LOCK_NB))
        yield
