"""
The stored form of a tree: the object `manifests/<digest>`.

    manifest = zlib of JSON
      schema    1
            base      digest of the manifest that this one is a difference from, or ""
            removed   paths of the base that are removed
      packs     digests of the packs that hold contents
      entries   [path, kind, executable, target, size, sha256, [index into packs, ...]], sorted;
                                with a base, only entries that are new or differ

The digest is that of the *tree* (see `bundler.tree`), whichever packs hold the contents and whether
or not there is a base. The first to create the manifest wins, and every reader gets the same tree.
A base has no base of its own, so reading takes at most two reads. So a one-line change in a tree of
20,000 files is a manifest of a few hundred bytes, instead of the 700 KB of 20,000 digests.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Mapping
from dataclasses import dataclass

from bundler.bundle.blobs import Blobs, manifest_key
from bundler.bundle.limits import MAX_ENTRIES
from bundler.errors import BundleError, DamagedError
from bundler.size import show_size
from bundler.tree import KINDS, SHA256, Entry, Tree

SCHEMA = 1
_MAX_JSON_BYTES = 512 * 2**20
"""
Maximum inflated size of a manifest: `MAX_ENTRIES` of 512 bytes each. The ratio says nothing: equal
contents below long paths shrink to a hundredth.
"""
_STEP_BYTES = 2**22
"""Inflated at once while the size is only counted."""
_CHANGED_SHARE = 4
"""
A base is used while at most a quarter (one in so many) of its entries differ; beyond that a full
manifest is smaller than base and difference together.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """A tree, and the packs with its contents."""

    tree: Tree
    places: Mapping[str, tuple[str, ...]]
    """Digests of the packs of each content, in order, by its sha256."""
    base: str = ""
    """Digest of the manifest that this one was stored as a difference from, or empty."""


def encode(
    manifest: Manifest, *, base: Manifest | None = None, limit_bytes: int = _MAX_JSON_BYTES
) -> bytes:
    """
    Encode in full, or as a difference from `base` if that is small.

    Raises:
        BundleError: The paths are too long altogether for a manifest that can be read again.
    """
    before = {entry.path: entry for entry in base.tree.entries} if base else {}
    entries = tuple(
        entry
        for entry in manifest.tree.entries
        if before.get(entry.path) != entry
        or (base and base.places.get(entry.sha256) != manifest.places.get(entry.sha256))
    )
    removed = sorted(before.keys() - {entry.path for entry in manifest.tree.entries})
    if base and (len(entries) + len(removed)) * _CHANGED_SHARE > len(before):
        return encode(manifest, limit_bytes=limit_bytes)
    packs = sorted({pack for entry in entries for pack in manifest.places.get(entry.sha256, ())})
    index = {pack: at for at, pack in enumerate(packs)}
    stored = {
        "schema": SCHEMA,
        "base": base.tree.digest if base else "",
        "removed": removed,
        "packs": packs,
        "entries": [_row(entry, manifest.places, index) for entry in entries],
    }
    text = json.dumps(stored, separators=(",", ":")).encode()
    if len(text) > limit_bytes:
        raise BundleError(
            f"the paths of {len(entries)} files take {show_size(len(text))}, more than "
            f"{show_size(limit_bytes)}",
            hint="leave folders out by a line in .bastionignore",
        )
    return zlib.compress(text, 6)


def read_manifest(digest: str, store: Blobs) -> Manifest | None:
    """
    Return the manifest of the tree `digest`; None if the store has none.

    Raises:
        DamagedError: It is malformed, unsafe to write out, or of another tree.
    """
    data = store.read(manifest_key(digest))
    if data is None:
        return None
    stored = _Stored(digest, data)
    base = None
    if stored.base:
        base_data = store.read(manifest_key(stored.base))
        if base_data is None:
            changed = f"bundle {digest[:12]} changes the bundle {stored.base}"
            raise DamagedError(f"{changed}, which is gone")
        base = _Stored(stored.base, base_data)
        if base.base:
            raise DamagedError(f"the manifest of {digest} has a base that has a base")
        _check_digest(stored.base, base.manifest(None))
    manifest = stored.manifest(base)
    _check_digest(digest, manifest)
    return manifest


def _check_digest(digest: str, manifest: Manifest) -> None:
    if manifest.tree.digest != digest:
        raise DamagedError(f"the manifest named {digest} is of the tree {manifest.tree.digest}")
    if missing := manifest.tree.contents.keys() - manifest.places.keys():
        raise DamagedError(f"the manifest of {digest} names no pack for {min(missing)}")


def _row(
    entry: Entry, places: Mapping[str, tuple[str, ...]], index: Mapping[str, int]
) -> list[object]:
    held = [index[pack] for pack in places.get(entry.sha256, ())]
    return [
        entry.path,
        entry.kind,
        entry.executable,
        entry.target,
        entry.size,
        entry.sha256,
        held,
    ]


def _is_bounded(data: bytes) -> bool:
    """Whether `data` is whole and inflates to no more than a manifest may: none of it is kept."""
    inflater = zlib.decompressobj()
    size = 0
    while data and size <= _MAX_JSON_BYTES:
        size += len(inflater.decompress(data, _STEP_BYTES))
        data = inflater.unconsumed_tail
    return inflater.eof and size <= _MAX_JSON_BYTES


class _Stored:
    """One stored manifest, with checked types only."""

    def __init__(self, digest: str, data: bytes) -> None:
        self._digest = digest
        fields = self._parse(data)
        self.base = str(fields["base"])
        removed, packs, rows = fields["removed"], fields["packs"], fields["entries"]
        if not (isinstance(removed, list) and isinstance(packs, list) and isinstance(rows, list)):
            raise self._malformed("its lists")
        if not all(isinstance(pack, str) and SHA256.match(pack) for pack in [*packs, "0" * 64]):
            raise self._malformed("its packs")
        if self.base and not SHA256.match(self.base):
            raise self._malformed("its base")
        if len(rows) > MAX_ENTRIES or not all(isinstance(path, str) for path in removed):
            raise self._malformed("its entries")
        self.removed = frozenset(removed)
        self.places: dict[str, tuple[str, ...]] = {}
        self.entries = tuple(self._entry(row, packs) for row in rows)

    def manifest(self, base: _Stored | None) -> Manifest:
        if base is None:
            return Manifest(tree=Tree(entries=self.entries), places=self.places)
        merged = {e.path: e for e in base.entries if e.path not in self.removed}
        merged.update((entry.path, entry) for entry in self.entries)
        tree = Tree(entries=tuple(merged[path] for path in sorted(merged)))
        return Manifest(tree=tree, places={**base.places, **self.places}, base=self.base)

    def _parse(self, data: bytes) -> dict[str, object]:
        try:
            if not _is_bounded(data):
                raise self._malformed("its length")
            fields = json.loads(zlib.decompress(data))
        except (zlib.error, ValueError, RecursionError):
            raise self._malformed("its bytes") from None
        if not isinstance(fields, dict):
            raise self._malformed("its JSON")
        if fields.get("schema") != SCHEMA:
            raise DamagedError(
                f"the manifest of {self._digest} has schema {fields.get('schema')!r}, "
                f"this version reads {SCHEMA}",
                hint="upgrade this machine's bastion, or bundle again with this version",
            )
        if fields.keys() != {"schema", "base", "removed", "packs", "entries"}:
            raise self._malformed("its fields")
        return fields

    def _entry(self, row: object, packs: list[str]) -> Entry:
        match row:
            case [
                str(path), str(kind), bool(executable), str(target), int(size), str(sha256),
                list(held),
            ] if kind in KINDS and size is not True and size is not False:  # fmt: skip
                if not all(type(at) is int and 0 <= at < len(packs) for at in held):
                    raise self._malformed(f"the packs of {path!r}")
                if held:
                    self.places[sha256] = tuple(packs[at] for at in held)
                return Entry(
                    path=path,
                    kind=kind,
                    executable=executable,
                    target=target,
                    size=size,
                    sha256=sha256,
                )
        raise self._malformed(f"the entry {str(row)[:100]!r}")

    def _malformed(self, what: str) -> DamagedError:
        return DamagedError(f"the manifest of {self._digest} is malformed: {what}")
