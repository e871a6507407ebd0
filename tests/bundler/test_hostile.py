"""Stored bytes are hostile until proven otherwise."""

from __future__ import annotations

import hashlib
import json
import tracemalloc
import zlib
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bundler.bundle.blobs import manifest_key
from bundler.bundle.fetch import fetch
from bundler.bundle.manifest import Manifest, encode, read_manifest
from bundler.bundle.pack import PACK_BYTES, Piece, open_pack, plan_packs, seal
from bundler.errors import BundleError, DamagedError
from bundler.tree import Entry, Tree
from tests.rigs.blobs import MemoryBlobs

_X = hashlib.sha256(b"x").hexdigest()


def file(path: str) -> list[object]:
    """Return a row for a file of one byte."""
    return [path, "file", False, "", 1, _X, [0]]


def link(path: str, target: str) -> list[object]:
    """Return a row for a link."""
    return [path, "link", False, target, 0, "", []]


def stored(rows: list[list[object]], **fields: object) -> bytes:
    """Return the bytes of a manifest with these rows."""
    whole = {"schema": 1, "base": "", "removed": [], "packs": ["0" * 64], "entries": rows, **fields}
    return zlib.compress(json.dumps(whole).encode())


def named_right(rows: list[list[object]]) -> str:
    """Return the digest that a hostile uploader would compute for `rows`."""
    text = json.dumps([row[:6] for row in rows], separators=(",", ":"))
    return hashlib.sha256(b"bastion-tree 1\n" + text.encode()).hexdigest()


@pytest.mark.parametrize(
    "rows",
    [
        [file("../up")],
        [file("/etc/passwd")],
        [file("a//b")],
        [file("./a")],
        [file("a/..")],
        [file("")],
        [file("nul\0")],
        [file(".git/config")],
        [file("a\ud800")],
        [file("a"), file("a")],
        [file("b"), file("a")],
        [file("a"), file("a/b")],
        [link("a", "b"), file("a/b")],
        [link("a", "b"), file("a/b/c")],
        [link("a", "/etc")],
        [link("a", "../x")],
        [link("d/a", "../../x")],
        [link("a", "")],
        [["a", "device", False, "", 0, "", []]],
        [["a", "file", False, "", -1, _X, [0]]],
        [["a", "file", False, "", 1, "zz", [0]]],
        [["a", "file", False, "", 0, _X, []]],
        [["a", "file", 1, "", 1, _X, [0]]],
        [["a", "file", False, "", True, _X, [0]]],
        [["a", "file", False, "", 1, _X, [7]]],
        [["a", "file", False, "", 1, _X, [-1]]],
        [["a", "file", False, "", 1, _X, []]],
        [["a", "dir", True, "", 0, "", []]],
        [["a"]],
    ],
)
def test_manifests_that_reach_outside_or_contradict_themselves(rows: list[list[object]]) -> None:
    """A manifest with a wrong digest, path, link or type is refused, even with a correct name."""
    store = MemoryBlobs()
    digest = named_right(rows)
    store.objects[f"manifests/{digest}"] = stored(rows)
    with pytest.raises(DamagedError):
        read_manifest(digest, store)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"no zlib",
        zlib.compress(b"no json"),
        zlib.compress(b"[]"),
        zlib.compress(b"[" * 100_000),
        stored([file("a")])[:-3],
        stored([file("a")], schema=2),
        stored([file("a")], more=1),
        stored([file("a")], packs=["x"]),
        stored([file("a")], removed=3),
        stored([file("a")], base="../x"),
        stored([file("a")], base="1" * 64),
        stored([file("b")]),
    ],
)
def test_manifests_that_are_none(data: bytes) -> None:
    """Bytes that are no manifest of this tree are our error, never another exception."""
    store = MemoryBlobs()
    digest = named_right([file("a")])
    store.objects[f"manifests/{digest}"] = data
    with pytest.raises(DamagedError, match=digest[:12]):
        read_manifest(digest, store)


def test_a_base_has_no_base() -> None:
    """Manifests are not chained: a base with a base is refused, so reading always ends."""
    store = MemoryBlobs()
    rows = [file("a")]
    digest = named_right(rows)
    store.objects[f"manifests/{digest}"] = stored(rows, base=digest)
    with pytest.raises(DamagedError, match="base that has a base"):
        read_manifest(digest, store)


def test_a_right_manifest_is_read() -> None:
    """The rows that the cases above spoil are valid originally."""
    store = MemoryBlobs()
    rows = [file("a"), link("b", "a"), file("c/d")]
    store.objects[f"manifests/{named_right(rows)}"] = stored(rows)
    manifest = read_manifest(named_right(rows), store)
    assert manifest
    assert [entry.path for entry in manifest.tree.entries] == ["a", "b", "c/d"]


def _with_pack(packed: bytes) -> tuple[str, MemoryBlobs]:
    """Return a store whose only bundle is a file `a` of one byte that should be in the pack."""
    pack = hashlib.sha256(packed).hexdigest()
    store = MemoryBlobs()
    digest = named_right([file("a")])
    store.objects[f"manifests/{digest}"] = stored([file("a")], packs=[pack])
    store.objects[f"packs/{pack}"] = packed
    return digest, store


def _plain(table: object, contents: bytes) -> bytes:
    return b"bastion-pack 1 plain\n" + json.dumps(table).encode() + b"\n" + contents


@pytest.mark.parametrize(
    "make",
    [
        lambda: b"",
        lambda: b"bastion-pack 2 plain\n[]\n",
        lambda: b"bastion-pack 1 zlib\nnone",
        lambda: b"bastion-pack 1 zlib\n" + zlib.compress(bytes(4 * PACK_BYTES)),
        lambda: _plain([[_X, 0, 1]], b""),
        lambda: _plain([[_X, 0, 1]], b"y"),
        lambda: _plain([[_X, 0, 2]], b"xx"),
        lambda: _plain([[_X, -1, 1]], b"x"),
        lambda: _plain([[_X, 5, 1]], b"x"),
        lambda: _plain([[_X, 0, 0]], b""),
        lambda: _plain([], b""),
        lambda: _plain({}, b""),
        lambda: _plain([["../a", 0, 1]], b"x"),
    ],
)
def test_a_pack_with_wrong_contents_is_refused(tmp_path: Path, make: Callable[[], bytes]) -> None:
    """A pack of the right name with wrong contents is refused, and no bomb is inflated."""
    digest, store = _with_pack(make())
    with pytest.raises(DamagedError):
        fetch(digest, store, tmp_path)
    assert not (tmp_path / digest).exists()


def test_a_right_pack_is_read(tmp_path: Path) -> None:
    """The pack that the cases above spoil is valid originally."""
    digest, store = _with_pack(_plain([[_X, 0, 1]], b"x"))
    assert (fetch(digest, store, tmp_path) / "a").read_bytes() == b"x"


@settings(max_examples=60)
@given(st.lists(st.integers(1, 3 * PACK_BYTES), max_size=20))
def test_packs_are_bounded_and_complete(sizes: list[int]) -> None:
    """Every byte is planned once and in order, small contents whole, no pack above the limit."""
    contents = [(f"{at:064}", size) for at, size in enumerate(sizes)]
    packs = list(plan_packs(contents))
    assert all(sum(piece.size for piece in pack) <= PACK_BYTES for pack in packs)
    pieces = [piece for pack in packs for piece in pack]
    for sha256, size in contents:
        mine = [piece for piece in pieces if piece.sha256 == sha256]
        assert [piece.offset for piece in mine] == [
            sum(piece.size for piece in mine[:at]) for at in range(len(mine))
        ]
        assert sum(piece.size for piece in mine) == size
        assert len(mine) == 1 or size > PACK_BYTES


@given(st.binary(max_size=400_000))
@settings(max_examples=20)
def test_a_pack_opens_to_what_was_sealed(data: bytes) -> None:
    """Sealing is deterministic and opening gives the same pieces and bytes."""
    cut = len(data) // 3
    pieces = [
        Piece(sha256="1" * 64, offset=0, size=cut),
        Piece(sha256="2" * 64, offset=9, size=len(data) - cut),
    ]
    digest, packed = seal(pieces, data)
    assert (digest, packed) == seal(pieces, data)
    opened = [(piece, bytes(content)) for piece, content in open_pack(digest, packed)]
    assert opened == [(pieces[0], data[:cut]), (pieces[1], data[cut:])]


def test_text_is_compressed_and_noise_is_not() -> None:
    """A pack of text shrinks; one of noise grows only by its table."""
    piece = [Piece(sha256="1" * 64, offset=0, size=1)]
    assert len(seal(piece, b"import bastion\n" * 10_000)[1]) < 10_000
    noise = hashlib.shake_256(b"").digest(300_000)
    assert len(seal(piece, noise)[1]) < len(noise) + 200


def test_the_canonical_bytes_never_change() -> None:
    """The digest of a known tree is fixed: a change would rename every existing bundle."""
    tree = Tree(
        entries=(
            Entry(path="a", kind="file", size=1, sha256=_X, executable=True),
            Entry(path="é", kind="link", target="a"),
        )
    )
    assert tree.digest == "015907f1d39ddeb152f4826babc3829facf5d6db6964e69df447eb7162735384"


def test_a_manifest_inflates_to_no_more_than_a_manifest_may() -> None:
    """A small manifest of hundreds of megabytes of blanks is refused before they exist."""
    packer = zlib.compressobj(1)
    stored = b"".join([*(packer.compress(b" " * (50 << 20)) for _ in range(12)), packer.flush()])
    digest = "0" * 64
    blobs = MemoryBlobs()
    blobs.create(manifest_key(digest), stored)
    tracemalloc.start()
    try:
        with pytest.raises(DamagedError, match="its length"):
            read_manifest(digest, blobs)
        assert tracemalloc.get_traced_memory()[1] < 64 << 20
    finally:
        tracemalloc.stop()


def _equal_files(count: int) -> Manifest:
    """Return that many equal files, each in its own folder below a long path."""
    deep = "experiments/large-scale-pretraining-run/configurations/generated/" * 2
    entries = (
        Entry(path=f"{deep}{at:06d}/config.yaml", kind="file", size=1, sha256=_X)
        for at in range(count)
    )
    return Manifest(tree=Tree(entries=tuple(entries)), places={_X: ("0" * 64,)})


def test_equal_files_below_long_paths_are_read_again() -> None:
    """A manifest that compresses to a hundredth of its size is read as it was written."""
    manifest = _equal_files(20_000)
    data = encode(manifest)
    assert len(zlib.decompress(data)) > 64 * len(data)
    blobs = MemoryBlobs()
    blobs.create(manifest_key(manifest.tree.digest), data)
    assert read_manifest(manifest.tree.digest, blobs) == manifest


def test_a_manifest_that_could_not_be_read_is_not_written() -> None:
    """If paths are too long in total, they are refused before a manifest of them is stored."""
    with pytest.raises(BundleError, match=r"the paths of 100 files take .* more than 1.0 KiB"):
        encode(_equal_files(100), limit_bytes=1024)
