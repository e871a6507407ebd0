"""
A tree as data: its entries, their order, and its digest.

The digest depends only on paths, kinds, executable bits, link targets and contents, and not on
times, owners, packs or the user who bundled it. A tree from a store is untrusted until it is
checked here: no path may leave its folder, and nothing may be below a link or a file. Nothing here
accesses a disk.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

from bundler.errors import DamagedError

Kind = Literal["file", "link", "dir"]
KINDS: tuple[Kind, ...] = ("dir", "file", "link")
SHA256 = re.compile(r"[0-9a-f]{64}\Z")
_MAGIC = b"bastion-tree 1\n"
_EMPTY = hashlib.sha256(b"").hexdigest()


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One file, link or empty folder."""

    path: str
    """Relative to the top, `/`-separated."""
    kind: Kind
    executable: bool = False
    target: str = ""
    """Target of a link, as written in it."""
    size: int = 0
    """Size of a file in bytes."""
    sha256: str = ""
    """Digest of a file's content."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tree:
    """
    Entries in the order of their paths.

    Raises:
        DamagedError: They cannot coexist in one folder, or a path leaves it.
    """

    entries: tuple[Entry, ...]

    def __post_init__(self) -> None:
        """Check every entry, and all of them together."""
        for entry in self.entries:
            _check(entry)
        _check_together(self.entries)

    @property
    def digest(self) -> str:
        """Sha256 of the canonical bytes, which identifies this tree."""
        rows = [(e.path, e.kind, e.executable, e.target, e.size, e.sha256) for e in self.entries]
        text = json.dumps(rows, separators=(",", ":"))
        return hashlib.sha256(_MAGIC + text.encode()).hexdigest()

    @property
    def contents(self) -> dict[str, int]:
        """Size in bytes of every stored content, by sha256; empty files need none."""
        return {entry.sha256: entry.size for entry in self.entries if entry.size}


def leaves_tree(path: str, target: str) -> bool:
    """
    Whether a link at `path` with the target `target` leads out of the tree.

    Links on the way are not resolved: one that stays inside by passing through another that also
    does cannot leave. (`a -> b/..` with `b` a link is the exception, and harmless: nothing here
    ever follows a link.)
    """
    if target.startswith("/"):
        return True
    depth = path.count("/")
    for part in target.split("/"):
        depth += 0 if part in ("", ".") else -1 if part == ".." else 1
        if depth < 0:
            return True
    return False


def _check(entry: Entry) -> None:
    parts = entry.path.split("/")
    if any(part in ("", ".", "..") for part in parts) or "\0" in entry.path or ".git" in parts:
        raise DamagedError(f"a bundle names the path {entry.path!r}, which is not allowed")
    try:
        (entry.path + entry.target).encode()
    except UnicodeEncodeError:
        raise DamagedError(f"a bundle names the path {entry.path!r}, not UTF-8") from None
    if not _is_consistent(entry):
        raise DamagedError(f"a bundle contradicts itself about {entry.path!r}")
    if entry.kind == "link" and leaves_tree(entry.path, entry.target):
        raise DamagedError(
            f"a bundle has the link {entry.path!r}, which leaves it: {entry.target!r}"
        )


def _is_consistent(entry: Entry) -> bool:
    bare = not entry.sha256 and not entry.size and not entry.executable
    match entry.kind:
        case "dir":
            return bare and not entry.target
        case "link":
            return bare and bool(entry.target) and "\0" not in entry.target
        case "file":
            named = SHA256.match(entry.sha256) is not None and not entry.target
            return named and entry.size >= 0 and (entry.size > 0 or entry.sha256 == _EMPTY)


def _check_together(entries: Sequence[Entry]) -> None:
    """Check that paths ascend, so none is repeated, and that no entry is the folder of another."""
    for before, after in pairwise(entries):
        if before.path >= after.path:
            raise DamagedError(f"a bundle names {after.path!r} out of order or twice")
    leaves = {entry.path for entry in entries}
    folders = {entry.path.rpartition("/")[0] for entry in entries}
    for folder in folders:
        while folder:
            if folder in leaves:
                raise DamagedError(f"a bundle puts entries below {folder!r}, which is not a folder")
            folder = folder.rpartition("/")[0]
