"""
The origin of a launch: the command that submitted it, and the state of its code.

It is stored next to the bundles, where users can create objects, and is named by the sha256 of its
bytes. So it cannot be replaced, a hundred launches of one script share it, and the request and
`spec.json` hold only its name. The bastion never reads it: it is for people, and only the code
reference decides what runs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from bastion.errors import ConflictError, NotFoundError, RecordError
from bastion.records.coding.codec import decode, encode
from bastion.records.keys import layout
from bastion.store import ObjectStore
from bastion.value import value

if TYPE_CHECKING:
    from hashlib import sha256
else:
    # Without OpenSSL, which takes as long to load as a quota file; `random` does the same.
    try:
        from _sha2 import sha256
    except ImportError:
        try:
            from _sha256 import sha256  # before Python 3.12
        except ImportError:  # a Python built without either
            from hashlib import sha256

MAX_TEXT_BYTES = 256 * 1024
"""Maximum per file and per command line; scripts that people write are far below."""
MAX_NAMES = 1000
"""Maximum size of a list of paths."""


@value
class OriginFile:
    """A file that a launch was made from."""

    name: str
    """The name of the file, without its folders."""
    text: str
    is_cut: bool = False


@value
class WorkingTree:
    """The commit that bundled code is based on, and how the tree differs from it."""

    commit: str = ""
    """The full hash; empty before the first commit."""
    branch: str = ""
    url: str = ""
    """The URL of the remote `origin`, without credentials."""
    diff: str = ""
    diff_is_cut: bool = False
    changed: tuple[str, ...] = ()
    left_out: tuple[str, ...] = ()
    """The paths in `changed` that are not part of `diff`."""
    untracked: tuple[str, ...] = ()

    @property
    def is_dirty(self) -> bool:
        """Whether the tree differed from its commit."""
        return bool(self.changed or self.untracked)


@value
class Origin:
    """The command that submitted a launch, its files, and the state of its code."""

    schema: Literal[1] = 1
    argv: tuple[str, ...] = ()
    files: tuple[OriginFile, ...] = ()
    """The script, and the spec if one was written."""
    tree: WorkingTree | None = None
    """None if the code was not a folder or had no git repository."""


def origin_file(name: str, text: str) -> OriginFile:
    """Return the record of a file, cut to the limit of a record."""
    kept = _utf8(text, MAX_TEXT_BYTES)
    return OriginFile(name=name, text=kept, is_cut=len(kept) < len(text))


def origin_argv(words: tuple[str, ...]) -> tuple[str, ...]:
    """Return the words of a command line, as many as fit in a record."""
    kept: list[str] = []
    left = MAX_TEXT_BYTES
    for word in words:
        kept.append(_utf8(word, left))
        left -= len(kept[-1].encode()) + 1
        if left <= 0:
            break
    return tuple(kept)


def origin_paths(paths: tuple[str, ...]) -> tuple[str, ...]:
    """Return `paths` as text, as many as fit in a record."""
    return tuple(path.encode(errors="replace").decode() for path in paths[:MAX_NAMES])


def store_origin(store: ObjectStore, origin: Origin) -> str:
    """
    Store `origin` if the bucket does not have it; return its digest.

    Raises:
        StoreError: The bucket is out of reach or the write is in doubt; try again.
    """
    data = encode(origin)
    digest = sha256(data).hexdigest()
    try:
        store.create(layout.origin(digest), data)
    except ConflictError:
        return digest  # it is named by its bytes, so the stored one is the same
    return digest


def read_origin(store: ObjectStore, digest: str) -> Origin:
    """
    Return the origin with this digest.

    Raises:
        NotFoundError: It is not in the bucket.
        RecordError: The stored bytes do not match the digest.
        StoreError: The bucket is out of reach.
    """
    key = layout.origin(digest)
    found = store.read(key)
    if found is None:
        raise NotFoundError(f"{key} is missing")
    if sha256(found.data).hexdigest() != digest:
        raise RecordError(f"{key} does not hold what its name says")
    return decode(Origin, found.data, key=key)


def _utf8(text: str, limit_bytes: int) -> str:
    """Return `text` cut to this many bytes; characters that UTF-8 cannot encode are replaced."""
    return text.encode(errors="replace")[: max(limit_bytes, 0)].decode(errors="ignore")
