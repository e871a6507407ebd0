"""
A bundle becomes a tree in a machine's cache.

Rules: every byte is checked against its sha256 before anyone can use it, and a manifest is hostile
until read strictly; see `bundler.kept` for what two fetchers, a kill or a reboot do.
"""

from __future__ import annotations

from pathlib import Path

from bundler.blobs import Blobs
from bundler.errors import BundleError
from bundler.kept import kept_tree
from bundler.manifest import Manifest, read_manifest
from bundler.progress import Report, unreported
from bundler.unpack import is_intact, write_tree

LANES = 2
"""Packs read and written at once, each about 50 MB of memory while it is."""


def fetch(
    digest: str, store: Blobs, cache: Path, *, report: Report = unreported, lanes: int = LANES
) -> Path:
    """
    The folder in `cache` that holds the tree `digest`, fetched if it is not there.

    Raises:
        BundleError: It is no digest, or the store has no such bundle.
        DamagedError: What the store has is not the tree of that digest.
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
