"""
The files of BASTION_OUTPUT_DIR that a job keeps, as stored in the bucket.

    output/<project>/<job>/content/<sha256>                      16 MiB of a file, or its rest
    output/<project>/<job>/saved/a<k>/r<i>/h<j>/<n>.json         one host's directory, the n-th time

Both are create-only. Contents are written before the list that names them, so a list in the bucket
is complete. A list is untrusted until it is checked here: a machine that runs users' code wrote it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from typing import Literal

from bastion.errors import NotFoundError, RecordError
from bastion.records.coding.codec import decode
from bastion.records.keys import layout
from bastion.records.keys.layout import SavedOutputName
from bastion.store.port import Entry, ObjectStore
from bastion.value import value

PART_BYTES = 16 << 20
"""Size of each part of a file: limits memory, and bytes sent again when a large file changes."""


@value
class SavedFile:
    """One file of an output directory."""

    path: str
    """Relative, separated by `/`."""
    parts: tuple[str, ...] = ()
    """Digests of its parts, in order; each part but the last has `PART_BYTES`."""
    executable: bool = False
    size: int = 0
    """Bytes."""


@value
class Saved:
    """The output directory of one host at one moment."""

    schema: Literal[1] = 1
    files: tuple[SavedFile, ...] = ()


def saved_lists(
    store: ObjectStore, project: str, job: str
) -> Iterator[tuple[SavedOutputName, Entry]]:
    """
    Yield the key of every list that hosts of a job's attempts wrote.

    Raises:
        StoreError: The bucket is out of reach.
    """
    last, prefix = "", layout.saved_outputs(project, job)
    while entries := store.list(prefix, start_after=last):
        last = entries[-1].key
        for entry in entries:
            named = layout.parse_saved_output(entry.key)
            if named is not None:
                yield named, entry


def read_saved(store: ObjectStore, key: str) -> Saved:
    """
    Return the list at `key`.

    Raises:
        NotFoundError: There is none.
        RecordError: It is malformed, or names a file outside the directory.
        StoreError: The bucket is out of reach.
    """
    found = store.read(key)
    assert found is not None
    saved = decode(Saved, found.data, key=key)
    for file in saved.files:
        if not _is_inside(file.path):
            raise RecordError(f"{key}: {file.path!r} is not a path inside the directory")
    return saved


def read_part(store: ObjectStore, project: str, job: str, digest: str) -> bytes:
    """
    Return the bytes with this digest.

    Raises:
        RecordError: They are missing, or do not match the digest.
        StoreError: The bucket is out of reach.
    """
    key = layout.output_content(project, job, digest)
    try:
        found = store.read(key)
    except NotFoundError:
        raise RecordError(f"{key} is missing, which the job had kept") from None
    assert found is not None
    if hashlib.sha256(found.data).hexdigest() != digest:
        raise RecordError(f"{key} does not hold what its name says")
    return found.data


def _is_inside(path: str) -> bool:
    parts = path.split("/")
    return bool(path) and "\0" not in path and not {"", ".", ".."} & set(parts)
