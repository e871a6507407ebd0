"""
Fetch a bundle into the cache of a machine.

Every byte is checked against its sha256 before it can be used, and a manifest is untrusted until it
is parsed strictly. `bundler.copies.kept` describes concurrent fetches, kills and reboots.
"""

from __future__ import annotations

from pathlib import Path

from bundler.bundle.blobs import Blobs
from bundler.bundle.manifest import Manifest, read_manifest
from bundler.bundle.unpack import is_intact, write_tree
from bundler.copies.kept import kept_tree
from bundler.errors import BundleError
from bundler.progress import Report, unreported

LANES = 2
"""Packs read and written at once; each takes about 50 MB of memory."""


def fetch(
    digest: str, store: Blobs, cache: Path, *, report: Report = unreported, lanes: int = LANES
) -> Path:
    """
    Return the folder in `cache` with the tree `digest`; fetch it if it is missing.

    Raises:
        BundleError: It is not a digest, or the store has no such bundle.
        DamagedError: The stored bundle does not match the digest.
    """

    def make(top: Path) -> None:
        top.mkdir()
        write_tree(_manifest(digest, store), top, store, report=report, lanes=lanes)

    def is_whole(top: Path) -> bool:
        return is_intact(_manifest(digest, store).tree, top)

    return kept_tree(cache, digest, make=make, is_whole=is_whole)


def _manifest(digest: str, store: Blobs) -> Manifest:
    manifest = read_manifest(digest, store)
    if manifest is None:
        raise BundleError(
            f"the store has no bundle {digest}", hint="bundle and submit the code again"
        )
    return manifest
