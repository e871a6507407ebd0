"""
Where a launch came from: what was run to submit it, and the state of the code around it.

It lies beside the bundles, where users may create objects, and is named by the sha256 of its bytes.
So it cannot be replaced, a hundred launches of one script share it, and the request and `spec.json`
hold only its name. The bastion never reads it. It is for people: what runs is said by the code
reference alone.
"""

from __future__ import annotations

import hashlib
from typing import Literal

from bastion.errors import ConflictError, NotFoundError, RecordError
from bastion.records import layout
from bastion.records.codec import decode, encode
from bastion.store import ObjectStore
from bastion.value import value

MAX_TEXT_BYTES = 256 * 1024
"""Of one file and of the command line; scripts that people write are far below."""
MAX_NAMES = 1000
"""Of each list of paths."""


@value
class OriginFile:
    """A file that a launch was made from."""

    name: str
    """As it was called, without its folders."""
    text: str
    is_cut: bool = False


@value
class WorkingTree:
    """The commit that bundled code began from, and how the tree differed from it."""

    commit: str = ""
    """Full; empty before the first commit."""
    branch: str = ""
    url: str = ""
    """Of the remote `origin`, without credentials."""
    diff: str = ""
    diff_is_cut: bool = False
    changed: tuple[str, ...] = ()
    left_out: tuple[str, ...] = ()
    """Those of `changed` that `diff` does not tell."""
    untracked: tuple[str, ...] = ()

    @property
    def is_dirty(self) -> bool:
        """Whether the tree was anything but its commit."""
        return bool(self.changed or self.untracked)


@value
class Origin:
    """What was run to submit a launch, the files it was made from, and the state of its code."""

    schema: Literal[1] = 1
    argv: tuple[str, ...] = ()
    files: tuple[OriginFile, ...] = ()
    """The script, and the spec where one was written."""
    tree: WorkingTree | None = None
    """None where the code was no folder, or one without git."""


def origin_file(name: str, text: str) -> OriginFile:
    """A file's record, cut where it is longer than a record may be."""
    kept = _utf8(text, MAX_TEXT_BYTES)
    return OriginFile(name=name, text=kept, is_cut=len(kept) < len(text))


def origin_argv(words: tuple[str, ...]) -> tuple[str, ...]:
    """The words of a command line, those that a record has room for."""
    kept: list[str] = []
    left = MAX_TEXT_BYTES
    for word in words:
        kept.append(_utf8(word, left))
        left -= len(kept[-1].encode()) + 1
        if left <= 0:
            break
    return tuple(kept)


def origin_paths(paths: tuple[str, ...]) -> tuple[str, ...]:
    """As many of `paths` as a record has room for, as text."""
    return tuple(path.encode(errors="replace").decode() for path in paths[:MAX_NAMES])


def store_origin(store: ObjectStore, origin: Origin) -> str:
    """
    See that the bucket has `origin`; its digest.

    Raises:
        StoreError: Out of reach or in doubt; try again.
    """
    data = encode(origin)
    digest = hashlib.sha256(data).hexdigest()
    try:
        store.create(layout.origin(digest), data)
    except ConflictError:
        return digest  # it is named by its bytes: what stands there is the same
    return digest


def read_origin(store: ObjectStore, digest: str) -> Origin:
    """
    The origin that `digest` names.

    Raises:
        NotFoundError: It is not in the bucket.
        RecordError: What is there is not what its name says.
        StoreError: Out of reach.
    """
    key = layout.origin(digest)
    found = store.read(key)
    if found is None:
        raise NotFoundError(f"{key} is missing")
    if hashlib.sha256(found.data).hexdigest() != digest:
        raise RecordError(f"{key} does not hold what its name says")
    return decode(Origin, found.data, key=key)


def _utf8(text: str, limit_bytes: int) -> str:
    """`text` cut to so many bytes; what is no text is replaced."""
    return text.encode(errors="replace")[: max(limit_bytes, 0)].decode(errors="ignore")
