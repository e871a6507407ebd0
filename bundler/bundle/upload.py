"""
Upload a selected tree as a bundle.

Packs are written first and the manifest last, all create-only. So an aborted upload leaves only
packs that no manifest names. If several programs upload one tree, the first wins, and all return
the same digest. The previous bundle only saves uploads: which packs exist is read from its manifest
in the store, never from a local cache.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

from bundler.bundle.blobs import Blobs, manifest_key, pack_key
from bundler.bundle.cache import Cache, cache_folder
from bundler.bundle.content import ContentReader, read_tree
from bundler.bundle.limits import LARGE_BYTES, told_large
from bundler.bundle.manifest import Manifest, encode, read_manifest
from bundler.bundle.pack import PACK_BYTES, Piece, plan_packs, seal
from bundler.bundle.select import Selection, select
from bundler.code import BundleRef, LocalDir
from bundler.errors import ChangedError, DamagedError
from bundler.lanes import in_lanes
from bundler.progress import Progress, Report, unreported
from bundler.tree import Tree

LANES = 4
"""Packs compressed and sent at once. Memory is bounded by eight packs read and four compressed."""
_MAX_OLD_PACKS = 64
"""
Packs, beyond what its size needs, that a bundle may reuse: each is a read on every machine. Beyond
that, contents in packs that are less than half used are sent again.
"""

Look: TypeAlias = Callable[[Selection], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Bundle:
    """One tree in the store."""

    digest: str
    files: int
    size_bytes: int
    """The total size of its files."""
    sent_bytes: int
    """Compressed bytes sent by this call; 0 if the store had everything."""
    warnings: tuple[str, ...]
    """Warnings to the user, shown by the caller."""
    root: Path
    """The top of the working tree it was made from."""
    paths: frozenset[str]
    """Every file and link in it, relative to `root`."""

    @property
    def ref(self) -> BundleRef:
        """The reference for a stored spec."""
        return BundleRef(digest=self.digest)


def _unseen(_: Selection) -> None:
    """Accept every selection."""


def bundle(
    code: LocalDir,
    store: Blobs,
    *,
    start: Path,
    report: Report = unreported,
    caches: Path | None = None,
    look: Look = _unseen,
) -> Bundle:
    """
    Select the files of `code` and upload what the store does not have.

    `start` is the folder of the submission (see `select`). `caches` is the folder of caches; None:
    the user's own. `look` gets the selection before anything is sent, and may raise. If the tree
    changes meanwhile, it is selected again, at most twice and without the cache.

    Raises:
        ChangedError: Files kept changing.
        BundleError: The selection is refused.
    """
    for trusted in (True, False):
        with suppress(ChangedError):
            return _bundle_once(code, store, start, report, caches, look, trusted=trusted)
    return _bundle_once(code, store, start, report, caches, look, trusted=False)


def _bundle_once(
    code: LocalDir,
    store: Blobs,
    start: Path,
    report: Report,
    caches: Path | None,
    look: Look,
    *,
    trusted: bool,
) -> Bundle:
    selection = select(code, start=start)
    look(selection)
    cache = Cache(caches or cache_folder(), selection.root, trusted=trusted)
    return upload(selection, store, report=report, cache=cache)


def upload(
    selection: Selection,
    store: Blobs,
    *,
    report: Report = unreported,
    cache: Cache | None = None,
    previous: str = "",
    lanes: int = LANES,
    large_bytes: int = LARGE_BYTES,
) -> Bundle:
    """
    Upload the tree `selection`, unless the store has it.

    `previous` is the digest of a bundle whose packs may be reused, in place of the one in `cache`.
    More than `large_bytes` sent is a warning.

    Raises:
        ChangedError: A file has changed since it was selected.
    """
    tree, digests = read_tree(selection, cache=cache, report=report, lanes=lanes)
    digest = tree.digest
    sent_bytes = 0
    if not store.exists(manifest_key(digest)):
        before = _read_previous(previous or (cache.last if cache else ""), store)
        reader = ContentReader(selection, {sha256: path for path, sha256 in digests.items()})
        sent_bytes = _send(tree, before, reader, store, report=report, lanes=lanes)
    if cache:
        stamps = {found.path: found.stamp for found in selection.found}
        cache.save({path: (stamps[path], sha256) for path, sha256 in digests.items()}, last=digest)
    warnings = selection.warnings
    if sent_bytes > large_bytes:
        files = [(found.path, found.size) for found in selection.found]
        warnings += (told_large(files, sent_bytes=sent_bytes),)
    return Bundle(
        digest=digest,
        files=len(digests),
        size_bytes=selection.size_bytes,
        sent_bytes=sent_bytes,
        warnings=warnings,
        root=selection.root,
        paths=frozenset(found.path for found in selection.found),
    )


def _read_previous(digest: str, store: Blobs) -> Manifest | None:
    try:
        return read_manifest(digest, store) if digest else None
    except DamagedError:
        return None


def _send(
    tree: Tree,
    before: Manifest | None,
    reader: ContentReader,
    store: Blobs,
    *,
    report: Report,
    lanes: int,
) -> int:
    """Send the contents that `before` does not have, then the manifest; return the bytes sent."""
    contents = tree.contents
    old = _worth_leaning_on(before.places, contents) if before else {}
    missing = [(sha256, size) for sha256, size in contents.items() if sha256 not in old]
    total_bytes = sum(size for _, size in missing)
    done_bytes = sent_bytes = 0
    places: dict[str, tuple[str, ...]] = {}

    def send(work: tuple[tuple[Piece, ...], bytes]) -> tuple[tuple[Piece, ...], str, int]:
        pieces, data = work
        digest, packed = seal(pieces, data)
        created = store.create(pack_key(digest), packed)
        return pieces, digest, len(packed) if created else 0

    def read() -> Iterator[tuple[tuple[Piece, ...], bytes]]:
        for pieces in plan_packs(missing):
            yield pieces, reader.read(pieces)

    for pieces, pack, size in in_lanes(send, read(), lanes=lanes):
        for piece in pieces:
            places[piece.sha256] = (*places.get(piece.sha256, ()), pack)
        sent_bytes += size
        done_bytes += sum(piece.size for piece in pieces)
        report(Progress(step="send", done=done_bytes, total=total_bytes))
    base = _read_previous(before.base, store) if before and before.base else before
    data = encode(Manifest(tree=tree, places={**old, **places}), base=base)
    created = store.create(manifest_key(tree.digest), data)
    return sent_bytes + (len(data) if created else 0)


def _worth_leaning_on(
    places: Mapping[str, tuple[str, ...]], contents: Mapping[str, int]
) -> dict[str, tuple[str, ...]]:
    """Return the places of `contents` in the packs worth reusing, few enough to read."""
    live: Counter[str] = Counter()
    for sha256, size in contents.items():
        for pack in places.get(sha256, ()):
            live[pack] += size
    kept = set(live)
    if len(live) > _MAX_OLD_PACKS + sum(contents.values()) // PACK_BYTES:
        kept = {pack for pack, size in live.items() if size * 2 > PACK_BYTES}
    return {
        sha256: places[sha256]
        for sha256 in contents
        if sha256 in places and kept.issuperset(places[sha256])
    }
