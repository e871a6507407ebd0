"""
What a job keeps between its attempts: BASTION_OUTPUT_DIR, the same on every machine.

`bastion.records.reports.output` draws its layout in the bucket. Saving sends the missing parts,
then the list of files. Restoring takes the newest list of each host of each replica and applies
them in order, older attempts first; within one attempt the first replica's file wins.
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
"""Parts that are sent or read together, at most 16 MiB each; as many more wait in memory."""

_SMALL_BYTES = 64 << 10
"""Below this size, sending a part is as cheap as checking whether it is there."""


class PartlyKeptError(BastionError):
    """The agent has no permission to read some of an output; everything else of it is kept."""

    def __init__(self, locked: Sequence[str], *, kept: int) -> None:
        more = f" and {len(locked) - 1:,} more" if len(locked) > 1 else ""
        super().__init__(
            f"the agent of its machine may not read {locked[0]!r}{more}; "
            f"files that are kept: {kept:,}"
        )


def save(store: ObjectStore, of: HostFact, directory: Path, number: int) -> int:
    """
    Keep the files in `directory`; return how many there were.

    Files that change while they are read are kept as they were read, up to the size that they had.
    It leaves out what `files_below` leaves out: links, special files, files deleted in the
    meantime, names that are not text, folders too deep and files larger than their disk. Nothing is
    written for an empty directory. The list gets `number`, or one above all that this host has
    written.

    Raises:
        PartlyKeptError: There is no permission to read something; everything else is kept.
        StoreError: The store is unreachable or the result is in doubt; try again.
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
    """Return the key of a list that counts as the newest, even after a clock was set back."""
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
    Fill `directory` with what the job's earlier attempts kept; return the number of files.

    Raises:
        RecordError: A stored object is no such list, names a file outside the directory, or its
            bytes are missing.
        StoreError: The store is unreachable; try again.
        OSError: A file cannot be written.
    """
    wanted: dict[str, SavedFile] = {}
    for key in _newest(store, of):
        for file in read_saved(store, key).files:
            wanted[file.path] = file
    # A path that is a file on one host and a folder on another becomes a folder.
    folders = {str(above) for path in wanted for above in PurePosixPath(path).parents}
    files = [file for path, file in wanted.items() if path not in folders]
    digests = (digest for file in files for digest in file.parts)
    read = partial(read_part, store, of.project, of.job)
    with closing(in_lanes(read, digests, lanes=LANES)) as parts:
        for file in files:
            _write_file(directory, file, islice(parts, len(file.parts)))
    return len(files)


def _newest(store: ObjectStore, of: HostFact) -> tuple[str, ...]:
    """Return the newest list of every host of earlier attempts, in the order of restoring."""
    newest: dict[tuple[int, int], tuple[int, int, str]] = {}
    for named, entry in saved_lists(store, of.project, of.job):
        if named.attempt < of.attempt:
            host = named.replica, named.host
            found = named.attempt, named.number, entry.key
            newest[host] = max(newest.get(host, found), found)
    order = sorted((attempt, -r, -h, key) for (r, h), (attempt, _, key) in newest.items())
    return tuple(key for *_, key in order)


def _parts(found: Iterable[OpenFile], files: list[SavedFile]) -> Iterator[tuple[str, bytes]]:
    """Yield every part of every file with its digest; adds a file to `files` after its parts."""
    for each in found:
        digests, size = [], 0
        with os.fdopen(each.handle, "rb", closefd=False) as file:
            # A file that grows as fast as it is read has no end: its size when it was
            # opened counts.
            while data := file.read(min(PART_BYTES, each.size - size)):
                size += len(data)
                digests.append(hashlib.sha256(data).hexdigest())
                yield digests[-1], data
                if len(data) < PART_BYTES:
                    break  # of a shrinking file, only its last part may be short
        saved = SavedFile(
            path=each.path, parts=tuple(digests), executable=each.executable, size=size
        )
        files.append(saved)


def _send(store: ObjectStore, of: HostFact, part: tuple[str, bytes]) -> None:
    """Put a part into the bucket, unless it is already there."""
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
