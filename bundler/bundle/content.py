"""
Read the contents of a tree that may be changing.

Nothing stored is ever replaced, so a bundle whose digest does not match its contents would be wrong
for ever. Therefore every byte that is sent was hashed when it was read, and a file that changed in
between is an error.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator, Sequence

from bundler.bundle.cache import Cache
from bundler.bundle.pack import Piece
from bundler.bundle.select import Found, Selection, stamp_of
from bundler.errors import ChangedError
from bundler.lanes import in_lanes
from bundler.progress import Progress, Report
from bundler.tree import Entry, Tree

_BLOCK_BYTES = 2**20
_SOME_FILES = 64
"""Files hashed as one piece of work: handing over to a thread costs more than one small file."""


def read_tree(
    selection: Selection, *, cache: Cache | None, report: Report, lanes: int
) -> tuple[Tree, dict[str, str]]:
    """
    Return the tree of `selection`, and the sha256 of every file by its path.

    Raises:
        ChangedError: A file has changed since it was selected.
    """
    files = [found for found in selection.found if found.kind == "file"]
    digests = {
        found.path: cache.sha256(found.path, found.stamp) if cache else "" for found in files
    }
    unknown = [found for found in files if not digests[found.path]]
    total_bytes = sum(found.size for found in unknown)
    done_bytes = 0

    def hash_some(some: Sequence[Found]) -> list[tuple[Found, str]]:
        return [(found, _hash(selection, found)) for found in some]

    for hashed in in_lanes(hash_some, _batches(unknown), lanes=lanes):
        digests.update((found.path, sha256) for found, sha256 in hashed)
        done_bytes += sum(found.size for found, _ in hashed)
        report(Progress(step="read", done=done_bytes, total=total_bytes))
    entries = tuple(_entry(found, digests.get(found.path, "")) for found in selection.found)
    return Tree(entries=entries), digests


class ContentReader:
    """
    Reads pieces in the order of `plan_packs`, and checks each content at its end.

    Args:
        selection: The selected files.
        paths: One file with the content, by sha256.
    """

    def __init__(self, selection: Selection, paths: dict[str, str]) -> None:
        self._selection = selection
        self._paths = paths
        self._sizes = {found.path: found.size for found in selection.found}
        self._hashing = hashlib.sha256()

    def read(self, pieces: Sequence[Piece]) -> bytes:
        """
        Return the bytes of `pieces`, one after another.

        Raises:
            ChangedError: They do not match the hashed content.
        """
        return b"".join(self._piece(piece) for piece in pieces)

    def _piece(self, piece: Piece) -> bytes:
        path = self._paths[piece.sha256]
        if piece.offset == 0:
            self._hashing = hashlib.sha256()
        try:
            handle = _open(self._selection, path)
            with os.fdopen(handle, "rb") as file:
                file.seek(piece.offset)
                data = file.read(piece.size)
        except OSError:
            raise ChangedError(path) from None
        self._hashing.update(data)
        ends = piece.offset + piece.size == self._sizes[path]
        if len(data) < piece.size or (ends and self._hashing.hexdigest() != piece.sha256):
            raise ChangedError(path)
        return data


def _batches(files: Sequence[Found]) -> Iterator[Sequence[Found]]:
    batch: list[Found] = []
    weight = 0
    for found in files:
        batch.append(found)
        weight += found.size
        if len(batch) == _SOME_FILES or weight >= 16 * _BLOCK_BYTES:
            yield batch
            batch, weight = [], 0
    if batch:
        yield batch


def _hash(selection: Selection, found: Found) -> str:
    sha256 = hashlib.sha256()
    try:
        handle = _open(selection, found.path)
        try:
            if stamp_of(os.fstat(handle)) != found.stamp:
                raise ChangedError(found.path)
            while block := os.read(handle, _BLOCK_BYTES):
                sha256.update(block)
            if stamp_of(os.fstat(handle)) != found.stamp:
                raise ChangedError(found.path)
        finally:
            os.close(handle)
    except OSError:
        raise ChangedError(found.path) from None
    return sha256.hexdigest()


def _open(selection: Selection, path: str) -> int:
    return os.open(
        f"{selection.root}/{path}", os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
    )


def _entry(found: Found, sha256: str) -> Entry:
    return Entry(
        path=found.path,
        kind=found.kind,
        executable=found.executable,
        target=found.target,
        size=found.size,
        sha256=sha256,
    )
