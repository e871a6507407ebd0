"""
What is remembered about a tree between two bundles of it, to save time and nothing else.

Rules: a file is known by its stamp (device, inode, size, modified, changed: a program that sets
the modified time back still moves the changed time). A file written within `RACY_S` of being
read is not remembered, for a later write could leave the same stamp: the rule of git's index. The
cache is checked by its own digest when read, is never trusted about what a store holds, and may be
deleted at any time. Errors of its disk are never anyone's problem.

Source: git, Documentation/technical/racy-git.
"""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

RACY_S = 2.0
"""FAT's times move in steps of two seconds, the coarsest in use."""
_SCHEMA = 1


class Cache:
    """
    The memory of one tree, in one file below `folder`.

    Args:
        folder: Shared by all trees; made when missing.
        root: The top of the tree.
        trusted: False: begin with nothing remembered about its files.
        racy_s: How long a file must have rested before it was read, to be remembered.
    """

    def __init__(
        self, folder: Path, root: Path, *, trusted: bool = True, racy_s: float = RACY_S
    ) -> None:
        name = hashlib.sha256(os.fsencode(root)).hexdigest()[:32]
        self._file = folder / f"{name}.json"
        self.last = ""
        """Digest of the bundle made last, or empty."""
        self._known: dict[str, list[object]] = {}
        self._settled_ns = 0
        with suppress(OSError, ValueError, KeyError, TypeError, AttributeError):
            self._load(trusted=trusted)
        with suppress(OSError):
            folder.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryFile(dir=folder) as probe:  # The kernel's clock of files.
                now_ns = os.fstat(probe.fileno()).st_mtime_ns
            self._settled_ns = now_ns - int(racy_s * 1e9)

    def sha256(self, path: str, stamp: tuple[int, ...]) -> str:
        """The digest of the file at `path` while its stamp is `stamp`; empty when not known."""
        known = self._known.get(path)
        return str(known[1]) if known and known[0] == list(stamp) else ""

    def save(self, files: Mapping[str, tuple[tuple[int, ...], str]], *, last: str) -> None:
        """Remember the stamps and digests of `files`, and the bundle `last`; drop all else."""
        known = {
            path: (stamp, sha256)
            for path, (stamp, sha256) in files.items()
            if max(stamp[-2:]) < self._settled_ns
        }
        body = json.dumps({"schema": _SCHEMA, "last": last, "files": known}).encode()
        with suppress(OSError):
            handle, temporary = tempfile.mkstemp(dir=self._file.parent)
            try:
                with os.fdopen(handle, "wb") as file:
                    file.write(hashlib.sha256(body).hexdigest().encode() + b"\n" + body)
                Path(temporary).replace(self._file)
            except OSError:
                Path(temporary).unlink()
                raise

    def _load(self, *, trusted: bool) -> None:
        digest, _, body = self._file.read_bytes().partition(b"\n")
        if hashlib.sha256(body).hexdigest().encode() != digest:
            return
        stored = json.loads(body)
        if stored["schema"] == _SCHEMA:
            self.last = str(stored["last"])
            self._known = dict(stored["files"]) if trusted else {}


def cache_folder() -> Path:
    """Where caches lie: below `$XDG_CACHE_HOME`, or `~/.cache`."""
    home = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(home) / "bastion" / "bundles"
