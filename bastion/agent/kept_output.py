"""
What a job keeps between its attempts: BASTION_OUTPUT_DIR, the same wherever the next one runs.

How it lies in the bucket is drawn in `bastion.records.reports.output`. Saving sends what is not
there yet, then the list of files. Restoring takes the newest list of each host of each replica and
lays them over each other, older attempts first; within one attempt the first replica's file wins.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from functools import partial
from itertools import islice
from pathlib import Path, PurePosixPath

from bastion.agent.machine.job_files import OpenFile, create_file, files_below
from bastion.errors import BastionError, ConflictError
from bastion.records.coding.codec import encode
from bastion.records.keys import layout
from bastion.records.reports.facts import HostFact
from bastion.records.reports.output import (
    PART_BYTES,
    Saved,
    SavedFile,
    read_part,
    read_saved,
    saved_lists,
)
from bastion.store.port import ObjectStore
from bundler.lanes import in_lanes

LANES = 4
"""Parts that are sent or read at once, of 16 MiB each at most; as many more wait in memory."""

_SMALL_BYTES = 64 << 10
"""Below it, sending is as cheap as asking whether it is there."""


class PartlyKeptError(BastionError):
    """Some of an output may not be read; all else of it is kept."""

    def __init__(self, locked: Sequence[str], *, kept: int) -> None:
        more = f" and {len(locked) - 1:,} more" if len(locked) > 1 else ""
        super().__init__(
            f"the agent of its machine may not read {locked[0]!r}{more}; "
            f"files that are kept: {kept:,}"
        )


def save(store: ObjectStore, of: HostFact, directory: Path, number: int) -> int:
    """
    Keep what is in `directory`; how many files that were.

    Files that change while they are read are kept as they were read, up to the size that they had.
    Left out is what `files_below` leaves out: links, special files, what is deleted meanwhile,
    names that are not text, folders too deep and files larger than their disk. Nothing is written
    for an empty directory. The list gets `number`, or one above all that this host has written.

    Raises:
        PartlyKeptError: Something may not be read; all else is kept.
        StoreError: Out of reach or in doubt; try again.
        OSError: Something else cannot be read; nothing is kept.
    """
    locked: list[str] = []
    files: list[SavedFile] = []
    parts = _parts(files_below(str(directory), locked=locked), files)
    for _ in in_lanes(partial(_send, store, of), parts, lanes=LANES):
        pass
    if files:
        with contextlib.suppress(ConflictError):
            store.create(_next_key(store, of, number), encode(Saved(files=tuple(files))))
    if locked:
        raise PartlyKeptError(locked, kept=len(files))
    return len(files)


def _next_key(store: ObjectStore, of: HostFact, number: int) -> str:
    """Return the key of a list that counts as the newest, also after a clock was set back."""
    key_of = partial(
        layout.saved_output, of.project, of.job, of.attempt, replica=of.replica, host=of.host
    )
    last, newest = key_of(number=number), number - 1
    while entries := store.list(layout.folder_of(last), start_after=last):
        last = entries[-1].key
        named = filter(None, (layout.parse_saved_output(entry.key) for entry in entries))
        newest = max([newest, *(each.number for each in named)])
    return key_of(number=newest + 1)


def restore(store: ObjectStore, of: HostFact, directory: Path) -> int:
    """
    Fill `directory` with what the job's earlier attempts kept; how many files that were.

    Raises:
        RecordError: What stands there is no such list, names a file outside the directory, or
            misses its bytes.
        StoreError: Out of reach; try again.
        OSError: A file cannot be written.
    """
    wanted: dict[str, SavedFile] = {}
    for key in _newest(store, of):
        for file in read_saved(store, key).files:
            wanted[file.path] = file
    # What is a file on one host and a folder on another is a folder.
    folders = {str(above) for path in wanted for above in PurePosixPath(path).parents}
    files = [file for path, file in wanted.items() if path not in folders]
    digests = (digest for file in files for digest in file.parts)
    read = partial(read_part, store, of.project, of.job)
    with closing(in_lanes(read, digests, lanes=LANES)) as parts:
        for file in files:
            _write_file(directory, file, islice(parts, len(file.parts)))
    return len(files)


def _newest(store: ObjectStore, of: HostFact) -> tuple[str, ...]:
    """The newest list of every host of earlier attempts, in the order they lie over each other."""
    newest: dict[tuple[int, int], tuple[int, int, str]] = {}
    for named, entry in saved_lists(store, of.project, of.job):
        if named.attempt < of.attempt:
            host = named.replica, named.host
            found = named.attempt, named.number, entry.key
            newest[host] = max(newest.get(host, found), found)
    order = sorted((attempt, -r, -h, key) for (r, h), (attempt, _, key) in newest.items())
    return tuple(key for *_, key in order)


def _parts(found: Iterable[OpenFile], files: list[SavedFile]) -> Iterator[tuple[str, bytes]]:
    """Every part of every file with its digest; a file is in `files` once its parts were given."""
    for each in found:
        digests, size = [], 0
        with os.fdopen(each.handle, "rb", closefd=False) as file:
            # A file that grows as fast as it is read has no end: what it had when it was opened
            # counts.
            while data := file.read(min(PART_BYTES, each.size - size)):
                size += len(data)
                digests.append(hashlib.sha256(data).hexdigest())
                yield digests[-1], data
                if len(data) < PART_BYTES:
                    break  # of a file that shrinks meanwhile, only its last part may be short
        saved = SavedFile(
            path=each.path, parts=tuple(digests), executable=each.executable, size=size
        )
        files.append(saved)


def _send(store: ObjectStore, of: HostFact, part: tuple[str, bytes]) -> None:
    """Put a part into the bucket, unless it is there."""
    digest, data = part
    key = layout.output_content(of.project, of.job, digest)
    if len(data) < _SMALL_BYTES or not _stands(store, key):
        with contextlib.suppress(ConflictError):
            store.create(key, data)


def _stands(store: ObjectStore, key: str) -> bool:
    return any(entry.key == key for entry in store.list(key, limit=1))


def _write_file(directory: Path, file: SavedFile, parts: Iterable[bytes]) -> None:
    path = directory / file.path
    path.parent.mkdir(parents=True, exist_ok=True)
    with create_file(str(path)) as out:
        os.fchmod(out.fileno(), 0o755 if file.executable else 0o644)
        out.writelines(parts)
