"""
A cache of file digests and the last bundle of a tree, which only saves time.

A file is identified by its stamp (device, inode, size, modified, changed: a program that resets the
modified time still changes the changed time). A file written within `RACY_S` before it was read is
not cached, because a later write could leave the same stamp; this is the rule of git's index. The
cache is checked by its own digest when read, is never trusted about the content of a store, and may
be deleted at any time. Errors of its disk are ignored.

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
    The cache of one tree, in one file below `folder`.

    Args:
        folder: Shared by all trees; made if missing.
        root: The top of the tree.
        trusted: False: ignore the cached files.
        racy_s: How old a file must have been when it was read, to be cached.
    """

    def __init__(
        self, folder: Path, root: Path, *, trusted: bool = True, racy_s: float = RACY_S
    ) -> None:
        name = hashlib.sha256(os.fsencode(root)).hexdigest()[:32]
        self._file = folder / f"{name}.json"
        self.last = ""
        """Digest of the last bundle, or empty."""
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
        """Return the digest of the file at `path` if its stamp is `stamp`; empty if unknown."""
        known = self._known.get(path)
        return str(known[1]) if known and known[0] == list(stamp) else ""

    def save(self, files: Mapping[str, tuple[tuple[int, ...], str]], *, last: str) -> None:
        """Cache the stamps and digests of `files`, and the bundle `last`; drop everything else."""
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
    """Return the folder of caches: below `$XDG_CACHE_HOME`, or `~/.cache`."""
    home = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(home) / "bastion" / "bundles"
