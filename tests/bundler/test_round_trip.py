"""A tree that was bundled, fetched and checked out is the original tree."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bundler.bundle.cache import Cache
from bundler.bundle.fetch import fetch
from bundler.bundle.manifest import read_manifest
from bundler.bundle.pack import PACK_BYTES
from bundler.bundle.select import select
from bundler.bundle.upload import Bundle, bundle, upload
from bundler.code import LocalDir
from bundler.copies.checkout import checkout
from bundler.errors import BundleError, ChangedError
from bundler.progress import Progress
from tests.rigs import trees
from tests.rigs.blobs import MemoryBlobs
from tests.rigs.limits import joined, on_thread

_NAMES = st.text(
    st.characters(exclude_characters="/\0", exclude_categories=["Cs"]), min_size=1, max_size=8
).filter(lambda name: name not in (".", "..", ".git", ".gitignore", ".bastionignore"))
_LEAVES = st.one_of(
    st.binary(max_size=200), st.sampled_from([b"", b"same", b"x" * 5000, "executable", "link"])
)
_TREES = st.recursive(
    st.dictionaries(_NAMES, _LEAVES, max_size=5),
    lambda inner: st.dictionaries(_NAMES, inner | _LEAVES, max_size=4),
    max_leaves=12,
)


def plant(top: Path, tree: dict[str, object]) -> None:
    """Write a random tree."""
    top.mkdir(parents=True, exist_ok=True)
    for name, leaf in tree.items():
        path = top / name
        if isinstance(leaf, dict):
            plant(path, leaf)
        elif leaf == "link":
            path.symlink_to(next(iter(tree)))
        elif leaf == "executable":
            path.write_text("#!/bin/sh\n")
            path.chmod(0o755)
        else:
            path.write_bytes(leaf if isinstance(leaf, bytes) else b"")


def bundled(top: Path, store: MemoryBlobs, caches: Path) -> Bundle:
    """Bundle `top`."""
    return bundle(LocalDir(str(top)), store, start=top, caches=caches)


def came_back(digest: str, store: MemoryBlobs, work: Path) -> dict[str, tuple[str, bytes]]:
    """Fetch and check out, and read the result."""
    checkout(fetch(digest, store, work / "cache"), work / "job")
    return trees.read(work / "job")


@settings(max_examples=60)
@given(tree=_TREES)
def test_any_tree_comes_back(tree: dict[str, object]) -> None:
    """Names, bytes, modes, links and empty folders of any tree are preserved."""
    with tempfile.TemporaryDirectory() as folder:
        work = Path(folder)
        plant(work / "top", tree)
        store = MemoryBlobs()
        made = bundled(work / "top", store, work / "caches")
        kept = {
            path: what
            for path, what in trees.read(work / "top").items()
            if not path.endswith((".pyc", ".DS_Store"))
        }
        assert came_back(made.digest, store, work) == kept


def test_a_file_larger_than_a_pack_comes_back(tmp_path: Path) -> None:
    """A file is split into as many packs as it needs, and is complete on the other side."""
    big = os.urandom(2**20) * (2 * PACK_BYTES // 2**20) + b"tail"
    trees.write(tmp_path / "top", {"a": b"a" * 1000, "big": big, "c": "c"})
    store = MemoryBlobs()
    made = bundled(tmp_path / "top", store, tmp_path / "caches")
    assert came_back(made.digest, store, tmp_path)["big"] == ("file", big)
    assert sum(key.startswith("packs/") for key in store.created) == 3


def test_the_digest_is_of_the_tree_alone(tmp_path: Path) -> None:
    """The same tree has the same digest elsewhere, later, and from any packs."""
    files = {"a.py": "a", "b/c.py": "c", "d/": ""}
    one = trees.write(tmp_path / "one", files)
    two = trees.write(tmp_path / "two", {**files, "b/c.py": "other"})
    store, fresh = MemoryBlobs(), MemoryBlobs()
    bundled(two, store, tmp_path / "caches")
    trees.write(two, files)
    os.utime(two / "a.py", (1, 1))
    by_steps = bundled(two, store, tmp_path / "caches")
    at_once = bundled(one, fresh, tmp_path / "caches")
    assert by_steps.digest == at_once.digest
    assert (
        store.objects[f"manifests/{by_steps.digest}"]
        != (fresh.objects[f"manifests/{at_once.digest}"])
    )


@pytest.mark.parametrize("change", ["content", "mode", "name", "link", "folder"])
def test_any_change_is_another_digest(tmp_path: Path, change: str) -> None:
    """A change of bytes, mode, name, link target or empty folder gives another digest."""
    top = trees.write(tmp_path / "top", {"a": "1", "b": "2", "e/": ""})
    (top / "l").symlink_to("a")
    store = MemoryBlobs()
    before = bundled(top, store, tmp_path / "caches").digest
    match change:
        case "content":
            (top / "a").write_text("2")
        case "mode":
            (top / "a").chmod(0o755)
        case "name":
            (top / "a").rename(top / "c")
        case "link":
            (top / "l").unlink()
            (top / "l").symlink_to("b")
        case "folder":
            (top / "e").rmdir()
    assert bundled(top, store, tmp_path / "caches").digest != before


def test_an_unchanged_tree_sends_nothing(tmp_path: Path) -> None:
    """What is in the store is not sent again, with the cache or without it."""
    top = trees.write(tmp_path / "top", {"a": "1"})
    store = MemoryBlobs()
    first = bundled(top, store, tmp_path / "caches")
    again = bundled(top, store, tmp_path / "caches")
    elsewhere = bundled(top, store, tmp_path / "other")
    assert first.sent_bytes > 0
    assert (again.sent_bytes, elsewhere.sent_bytes) == (0, 0)
    assert first.digest == again.digest == elsewhere.digest


def test_one_line_sends_little(tmp_path: Path) -> None:
    """One changed file of a thousand sends one small pack and a small manifest."""
    top = trees.write(
        tmp_path / "top", {f"d{i % 30}/f{i}.py": os.urandom(500) for i in range(1000)}
    )
    store = MemoryBlobs()
    first = bundled(top, store, tmp_path / "caches")
    (top / "d1/f1.py").write_text("changed")
    store.created.clear()
    second = bundled(top, store, tmp_path / "caches")
    assert first.sent_bytes > 500_000
    assert second.sent_bytes < 2_000
    assert len(store.created) == 2
    assert came_back(second.digest, store, tmp_path)["d1/f1.py"] == ("file", b"changed")


def test_much_that_is_sent_is_warned_about(tmp_path: Path) -> None:
    """The warning names the largest files, once: the store then has them."""
    top = trees.write(
        tmp_path / "top", {"data/big.bin": os.urandom(5000), "data/mid": bytes(900), "a.py": "x"}
    )
    store = MemoryBlobs()
    selection = select(LocalDir(str(top)), start=top)
    assert upload(selection, store, large_bytes=9000).warnings == ()
    store = MemoryBlobs()
    (warning,) = upload(selection, store, large_bytes=4000).warnings
    assert "the largest files are data/big.bin (4.9 KiB), data/mid (900 B), a.py (1 B)" in warning
    assert warning.endswith("to leave data out, name it in .bastionignore")
    assert upload(selection, store, large_bytes=4000).warnings == ()


def test_many_small_changes_stay_few_packs(tmp_path: Path) -> None:
    """A bundle never depends on hundreds of packs: small old ones are sent again together."""
    top = trees.write(tmp_path / "top", {f"f{i}": str(i) for i in range(80)})
    store = MemoryBlobs()
    for i in range(80):
        (top / f"f{i}").write_text(f"new {i}")
        made = bundled(top, store, tmp_path / "caches")
    manifest = read_manifest(made.digest, store)
    assert manifest
    assert len({pack for packs in manifest.places.values() for pack in packs}) <= 66
    assert came_back(made.digest, store, tmp_path)["f7"] == ("file", b"new 7")


def test_removed_and_returned_files(tmp_path: Path) -> None:
    """A bundle stored as changes forgets what is gone, and finds again what returns."""
    top = trees.write(tmp_path / "top", {f"f{i}": str(i) for i in range(20)})
    store = MemoryBlobs()
    first = bundled(top, store, tmp_path / "caches")
    (top / "f3").unlink()
    second = bundled(top, store, tmp_path / "caches")
    (top / "f3").write_text("3")
    third = bundled(top, store, tmp_path / "caches")
    manifest = read_manifest(second.digest, store)
    assert manifest
    assert manifest.base == first.digest
    assert "f3" not in came_back(second.digest, store, tmp_path)
    assert third.digest == first.digest


@pytest.mark.parametrize("harm", ["delete", "flip", "empty", "foreign", "unwritable"])
def test_a_wrong_cache_never_makes_a_wrong_bundle(tmp_path: Path, harm: str) -> None:
    """Whatever happened to the cache, the bundle is that of the files."""
    top = trees.write(tmp_path / "top", {"a": "1", "b": "2"})
    caches, store = tmp_path / "caches", MemoryBlobs()
    first = upload(
        select(LocalDir(str(top)), start=top), store, cache=Cache(caches, top, racy_s=-60)
    )
    (file,) = caches.iterdir()
    match harm:
        case "delete":
            file.unlink()
        case "flip":
            data = bytearray(file.read_bytes())
            data[-70] ^= 1
            file.write_bytes(data)
        case "empty":
            file.write_bytes(b"")
        case "foreign":
            other = MemoryBlobs()
            made = upload(
                select(LocalDir(str(top)), start=top), other, cache=Cache(caches, top, racy_s=-60)
            )
            assert came_back(made.digest, other, tmp_path)["a"] == ("file", b"1")
            return
        case "unwritable":
            file.unlink()
            caches.rmdir()
            caches.write_text("a file where the folder should be")
    (top / "b").write_text("3")
    second = bundled(top, store, caches)
    assert second.digest != first.digest
    assert came_back(second.digest, store, tmp_path)["b"] == ("file", b"3")


def test_a_cache_is_believed_only_about_settled_files(tmp_path: Path) -> None:
    """A file written just before it was read is read again; an older one is not."""
    top = trees.write(tmp_path / "top", {"a": "1"})
    selection = select(LocalDir(str(top)), start=top)
    upload(selection, MemoryBlobs(), cache=Cache(tmp_path / "c", top))
    assert not Cache(tmp_path / "c", top).sha256("a", selection.found[0].stamp)
    upload(selection, MemoryBlobs(), cache=Cache(tmp_path / "c", top, racy_s=-60))
    assert Cache(tmp_path / "c", top).sha256("a", selection.found[0].stamp)


def test_a_file_with_its_old_time_set_back_is_seen(tmp_path: Path) -> None:
    """The same size and modification time do not hide a change."""
    top = trees.write(tmp_path / "top", {"a": "1"})
    store, caches = MemoryBlobs(), tmp_path / "c"
    before = upload(
        select(LocalDir(str(top)), start=top), store, cache=Cache(caches, top, racy_s=-60)
    )
    status = (top / "a").stat()
    (top / "a").write_text("2")
    os.utime(top / "a", ns=(status.st_atime_ns, status.st_mtime_ns))
    assert bundled(top, store, caches).digest != before.digest


def test_a_file_that_changes_meanwhile_is_an_error(tmp_path: Path) -> None:
    """What was selected and what is read must be the same; otherwise nothing is stored."""
    top = trees.write(tmp_path / "top", {"a": "1"})
    selection = select(LocalDir(str(top)), start=top)
    (top / "a").write_text("other")
    store = MemoryBlobs()
    with pytest.raises(ChangedError, match="a changed while"):
        upload(selection, store)
    assert not store.objects


def test_a_change_between_hashing_and_sending_is_an_error(tmp_path: Path) -> None:
    """A manifest never has other contents than those that were sent."""

    class Meddler(MemoryBlobs):
        def exists(self, key: str) -> bool:
            (top / "a").write_text("9")
            return super().exists(key)

    top = trees.write(tmp_path / "top", {"a": "1"})
    store = Meddler()
    with pytest.raises(ChangedError, match="a changed while"):
        upload(select(LocalDir(str(top)), start=top), store)
    assert not any(key.startswith("manifests/") for key in store.objects)


def test_a_tree_that_settles_is_bundled(tmp_path: Path) -> None:
    """After one change during the bundling, files are selected again."""
    meddled: list[int] = []

    class Meddler(MemoryBlobs):
        def exists(self, key: str) -> bool:
            if not meddled:
                meddled.append((top / "a").write_text("9"))
            return super().exists(key)

    top = trees.write(tmp_path / "top", {"a": "1"})
    store = Meddler()
    made = bundle(LocalDir(str(top)), store, start=top, caches=tmp_path / "c")
    assert came_back(made.digest, store, tmp_path)["a"] == ("file", b"9")


def test_an_upload_cut_off_leaves_nothing_wrong(tmp_path: Path) -> None:
    """Until the manifest exists no reader sees a bundle, and the next try completes it."""

    class Broken(MemoryBlobs):
        def create(self, key: str, data: bytes) -> bool:
            if key.startswith("manifests/"):
                raise ConnectionError("gone")
            return super().create(key, data)

    top = trees.write(tmp_path / "top", {"a": "1"})
    broken = Broken()
    with pytest.raises(ConnectionError):
        bundled(top, broken, tmp_path / "c")
    store = MemoryBlobs()
    store.objects = broken.objects
    made = bundled(top, store, tmp_path / "c")
    assert store.created == [f"manifests/{made.digest}"]
    assert came_back(made.digest, store, tmp_path)["a"] == ("file", b"1")


def test_progress_ends_at_the_whole(tmp_path: Path) -> None:
    """The reported value grows and ends at the total, in each step."""
    top = trees.write(tmp_path / "top", {f"f{i}": os.urandom(3000) for i in range(200)})
    seen: list[Progress] = []
    store = MemoryBlobs()
    made = bundle(LocalDir(str(top)), store, start=top, report=seen.append, caches=tmp_path / "c")
    fetch(made.digest, store, tmp_path / "cache", report=seen.append)
    for step in ("read", "send", "fetch"):
        steps = [one for one in seen if one.step == step]
        assert steps[-1].done == steps[-1].total == 600_000
        assert [one.done for one in steps] == sorted(one.done for one in steps)


def test_an_unknown_bundle_is_told(tmp_path: Path) -> None:
    """A digest that is not in the store is an error with a solution."""
    with pytest.raises(BundleError, match="the store has no bundle 0000") as caught:
        fetch("0" * 64, MemoryBlobs(), tmp_path)
    assert caught.value.hint


def test_uploaders_at_the_same_time_agree(tmp_path: Path) -> None:
    """Many uploaders of one tree make one bundle, whichever comes first."""
    top = trees.write(tmp_path / "top", {f"f{i}": str(i) for i in range(50)})
    store = MemoryBlobs()
    made: list[Bundle] = []
    threads = [
        on_thread(lambda n=n: made.append(bundled(top, store, tmp_path / f"c{n}")))
        for n in range(6)
    ]
    for thread in threads:
        joined(thread)
    assert len({one.digest for one in made}) == 1
    assert len(made) == 6
    assert sum(key.startswith("manifests/") for key in store.created) == 1
    assert came_back(made[0].digest, store, tmp_path)["f7"] == ("file", b"7")
