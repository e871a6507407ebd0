"""
Write a tree from its packs, and check a written tree.

A content is hashed before it can be used. Links are made last and never followed, so nothing can be
written outside of the folder. The folder is new, and not shared while it is written.
"""

from __future__ import annotations

import hashlib
import os
import stat
from pathlib import Path

from bundler.bundle.blobs import Blobs, pack_key
from bundler.bundle.manifest import Manifest
from bundler.bundle.pack import open_pack
from bundler.errors import DamagedError
from bundler.lanes import in_lanes
from bundler.progress import Progress, Report
from bundler.tree import Entry, Tree


def write_tree(manifest: Manifest, top: Path, store: Blobs, *, report: Report, lanes: int) -> None:
    """
    Write the tree of `manifest` into the empty folder `top`.

    Raises:
        DamagedError: A pack is missing, or does not match the tree.
    """
    tree = manifest.tree
    for folder in sorted(_folders(tree)):
        (top / folder).mkdir(parents=True, exist_ok=True)
    writer = _Writer(tree, top)
    total_bytes = sum(tree.contents.values())
    done_bytes = 0
    needed = {pack for sha256 in tree.contents for pack in manifest.places[sha256]}

    def fetch_one(pack: str) -> int:
        packed = store.read(pack_key(pack))
        if packed is None:
            raise DamagedError(f"it needs the pack {pack}, which is gone")
        return writer.write(pack, packed)

    for written_bytes in in_lanes(fetch_one, sorted(needed), lanes=lanes):
        done_bytes += written_bytes
        report(Progress(step="fetch", done=done_bytes, total=total_bytes))
    writer.finish()
    for entry in tree.entries:
        if entry.kind == "link":
            (top / entry.path).symlink_to(entry.target)


def is_intact(tree: Tree, top: Path) -> bool:
    """Whether the folder `top` has exactly the bytes of `tree`."""
    return all(_is_intact(entry, top / entry.path) for entry in tree.entries)


def _is_intact(entry: Entry, path: Path) -> bool:
    try:
        mode = path.lstat().st_mode
        match entry.kind:
            case "dir":
                return stat.S_ISDIR(mode)
            case "link":
                return stat.S_ISLNK(mode) and os.readlink(path) == entry.target  # noqa: PTH115
            case "file":
                executable = bool(mode & stat.S_IXUSR)
                return (
                    stat.S_ISREG(mode)
                    and executable == entry.executable
                    and _sha256(path) == entry.sha256
                )
    except OSError:
        return False


def _folders(tree: Tree) -> set[str]:
    above = {entry.path.rpartition("/")[0] for entry in tree.entries}
    return above | {entry.path for entry in tree.entries if entry.kind == "dir"}


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


class _Writer:
    """Writes contents to their paths in the tree; thread-safe."""

    def __init__(self, tree: Tree, top: Path) -> None:
        self._digest = tree.digest
        self._top = top
        self._wanted: dict[str, list[Entry]] = {}
        self._whole: set[str] = set()
        for entry in tree.entries:
            if entry.kind == "file" and entry.size:
                self._wanted.setdefault(entry.sha256, []).append(entry)
            elif entry.kind == "file":
                self._put(entry, 0, memoryview(b""))

    def write(self, pack: str, packed: bytes) -> int:
        """Write the tree's contents in this pack; return their bytes, each counted once."""
        written_bytes = 0
        for piece, data in open_pack(pack, packed):
            entries = self._wanted.get(piece.sha256, [])
            if not entries:
                continue
            if piece.offset + piece.size > entries[0].size:
                raise DamagedError(f"the pack {pack} has too much for {entries[0].path!r}")
            if piece.size == entries[0].size:
                if hashlib.sha256(data).hexdigest() != piece.sha256:
                    raise DamagedError(f"the pack {pack} has other bytes for {entries[0].path!r}")
                self._whole.add(piece.sha256)
            for entry in entries:
                self._put(entry, piece.offset, data)
            written_bytes += piece.size
        return written_bytes

    def finish(self) -> None:
        """
        Hash the contents that came in several pieces, which also finds missing ones.

        Raises:
            DamagedError: A file does not match the tree.
        """
        for sha256 in self._wanted.keys() - self._whole:
            for entry in self._wanted[sha256]:
                path = self._top / entry.path
                if not path.exists() or _sha256(path) != sha256:
                    raise DamagedError(
                        f"the bundle {self._digest} has other bytes for {entry.path!r}"
                    )

    def _put(self, entry: Entry, offset: int, data: memoryview) -> None:
        mode = 0o755 if entry.executable else 0o644
        flags = os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
        handle = os.open(self._top / entry.path, flags, mode)
        with os.fdopen(handle, "wb", buffering=0) as file:
            os.fchmod(handle, mode)
            file.seek(offset)
            while data:
                data = data[file.write(data) :]
