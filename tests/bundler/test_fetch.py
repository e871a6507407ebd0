"""Fetching: checked, shared, and never half done, whichever process dies."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from bundler.bundle.fetch import fetch
from bundler.bundle.upload import bundle
from bundler.code import LocalDir
from bundler.copies.checkout import checkout
from bundler.copies.kept import evict, in_use
from bundler.errors import BundleError, DamagedError
from tests.rigs import trees
from tests.rigs.blobs import FolderBlobs, MemoryBlobs
from tests.rigs.limits import joined, on_thread

_FETCH_AND_HANG = """
import signal, sys
from pathlib import Path
from bundler.bundle.fetch import fetch
from tests.rigs.blobs import FolderBlobs

class Hangs(FolderBlobs):
    packs = 0
    def read(self, key):
        if key.startswith("packs/"):
            self.packs += 1
            if self.packs == 2:
                print("half", flush=True)
                signal.pause()
        return super().read(key)

fetch(sys.argv[1], Hangs(Path(sys.argv[2])), Path(sys.argv[3]), lanes=1)
"""


def stored(work: Path, store: MemoryBlobs | FolderBlobs, name: str = "a") -> str:
    """Return the digest of a small bundle, which has two packs."""
    top = trees.write(work / f"top-{name}", {f"{name}.py": name, "run.sh": "#!"})
    (top / "run.sh").chmod(0o755)
    bundle(LocalDir(str(top)), store, start=top, caches=work / "caches")
    trees.write(top, {f"later/{name}": name * 2})
    return bundle(LocalDir(str(top)), store, start=top, caches=work / "caches").digest


def test_a_tree_is_fetched_once(tmp_path: Path) -> None:
    """A tree on the machine is not read from the store again."""
    store = MemoryBlobs()
    digest = stored(tmp_path, store)
    first = fetch(digest, store, tmp_path / "cache")
    store.objects.clear()
    assert fetch(digest, store, tmp_path / "cache") == first


@pytest.mark.parametrize("harm", ["flip", "gone", "swapped"])
def test_damaged_packs_are_refused(tmp_path: Path, harm: str) -> None:
    """A pack with other bytes than its name promises, or none, is never written out."""
    store = MemoryBlobs()
    digest = stored(tmp_path, store)
    one, other = sorted(key for key in store.objects if key.startswith("packs/"))
    match harm:
        case "flip":
            store.objects[one] = store.objects[one][:-1] + b"?"
        case "gone":
            del store.objects[one]
        case "swapped":
            store.objects[one] = store.objects[other]
    with pytest.raises(DamagedError, match=one.removeprefix("packs/")):
        fetch(digest, store, tmp_path / "cache")
    assert not (tmp_path / "cache" / digest).exists()
    assert not list((tmp_path / "cache").glob(".new-*"))


def test_a_fetcher_killed_half_way_harms_no_other(tmp_path: Path) -> None:
    """After kill -9 in the middle there is no tree, and the next fetch makes a complete one."""
    store = FolderBlobs(tmp_path / "store")
    (tmp_path / "store").mkdir()
    digest, cache = stored(tmp_path, store), tmp_path / "cache"
    with subprocess.Popen(
        [sys.executable, "-c", _FETCH_AND_HANG, digest, str(tmp_path / "store"), str(cache)],
        stdout=subprocess.PIPE,
    ) as child:
        try:
            assert child.stdout
            assert child.stdout.readline() == b"half\n"
        finally:
            child.kill()
    assert list(cache.glob(f".new-{digest}-*/tree"))
    assert not (cache / digest).exists()
    tree = fetch(digest, store, cache)
    assert trees.read(tree)["later/a"] == ("file", b"aa")
    assert not list(cache.glob(".new-*"))


def test_many_fetchers_share_one_fetch(tmp_path: Path) -> None:
    """Of many that want one tree together, one reads the store and all get the tree."""
    reads: list[str] = []

    class Counting(MemoryBlobs):
        def read(self, key: str) -> bytes | None:
            reads.append(key)
            return super().read(key)

    store = Counting()
    digest = stored(tmp_path, store)
    reads.clear()
    got: list[Path] = []
    threads = [
        on_thread(lambda: got.append(fetch(digest, store, tmp_path / "cache"))) for _ in range(8)
    ]
    for thread in threads:
        joined(thread)
    assert got == [tmp_path / "cache" / digest / "tree"] * 8
    assert sum(key.startswith("packs/") for key in reads) == 2


@pytest.mark.parametrize("harm", ["none", "bytes", "mode", "gone", "link"])
def test_a_tree_of_an_earlier_boot_is_checked(tmp_path: Path, harm: str) -> None:
    """A tree written before the last boot is used if complete, else fetched again."""
    store = MemoryBlobs()
    digest = stored(tmp_path, store)
    tree = fetch(digest, store, tmp_path / "cache")
    whole = trees.read(tree)
    (tree.parent / "boot").write_text("another boot")
    match harm:
        case "bytes":
            (tree / "a.py").write_bytes(b"\0")
        case "mode":
            (tree / "run.sh").chmod(0o644)
        case "gone":
            (tree / "a.py").unlink()
        case "link":
            (tree / "a.py").unlink()
            (tree / "a.py").symlink_to("run.sh")
    if harm == "none":
        for key in [key for key in store.objects if key.startswith("packs/")]:
            del store.objects[key]
    assert trees.read(fetch(digest, store, tmp_path / "cache")) == whole


def test_the_longest_unused_is_evicted_first(tmp_path: Path) -> None:
    """The cache shrinks to its limit by the longest unused, and keeps what is in use."""
    store, cache = MemoryBlobs(), tmp_path / "cache"
    digests = [stored(tmp_path, store, name) for name in "abc"]
    for age, digest in enumerate(digests):
        home = fetch(digest, store, cache).parent
        os.utime(home, (age, age))
    fetch(digests[0], store, cache)
    with in_use(cache / digests[1] / "tree") as tree:
        evict(cache, limit_bytes=100)
    assert tree is not None
    assert sorted(p.name for p in cache.iterdir() if len(p.name) == 64) == sorted(digests[:2])
    trees.write(cache, {f".new-{'9' * 64}-x/tree/half": "of a killed fetch"})
    evict(cache, limit_bytes=0)
    assert not list(cache.glob(".new-*"))
    assert not [p for p in cache.iterdir() if len(p.name) == 64]
    with in_use(cache / digests[1] / "tree") as tree:
        assert tree is None


def test_a_name_that_is_no_digest_is_refused(tmp_path: Path) -> None:
    """A digest becomes part of a path, so nothing else is accepted."""
    with pytest.raises(BundleError, match="is not a digest, which"):
        fetch("../../etc", MemoryBlobs(), tmp_path)


def test_a_job_owns_its_working_directory(tmp_path: Path) -> None:
    """What a job edits in place is not edited for the next job."""
    store = MemoryBlobs()
    tree = fetch(stored(tmp_path, store), store, tmp_path / "cache")
    checkout(tree, tmp_path / "one")
    with (tmp_path / "one/a.py").open("r+") as file:
        file.write("!")
    (tmp_path / "one/run.sh").chmod(0o600)
    checkout(tree, tmp_path / "two")
    assert (tmp_path / "two/a.py").read_text() == "a"
    assert os.access(tmp_path / "two/run.sh", os.X_OK)
    assert trees.read(tmp_path / "two") == trees.read(tree)


@pytest.mark.skipif(not Path("/dev/shm").is_dir(), reason="no second file system here")
def test_a_copy_may_go_to_another_disk(tmp_path: Path) -> None:
    """If blocks cannot be shared, bytes are copied."""
    tree = trees.write(tmp_path / "tree", {"big": os.urandom(3_000_000), "d/e/": ""})
    with tempfile.TemporaryDirectory(dir="/dev/shm") as other:
        checkout(tree, Path(other) / "job")
        assert trees.read(Path(other) / "job") == trees.read(tree)


def test_a_python_without_shared_copies_copies_bytes(tmp_path: Path) -> None:
    """So were those of uv until August 2026: their C library is older than copy_file_range."""
    tree = trees.write(tmp_path / "tree", {"big": os.urandom(3_000_000), "d/empty": ""})
    code = (
        "import os, sys; from pathlib import Path; del os.copy_file_range\n"
        "from bundler.copies.checkout import checkout; checkout(*map(Path, sys.argv[1:]))"
    )
    words = [sys.executable, "-c", code, str(tree), str(tmp_path / "job")]
    subprocess.run(words, check=True)
    assert trees.read(tmp_path / "job") == trees.read(tree)


def test_a_working_directory_in_use_is_refused(tmp_path: Path) -> None:
    """A job never gets a directory with contents; an empty one, or debris, is fine."""
    store = MemoryBlobs()
    tree = fetch(stored(tmp_path, store), store, tmp_path / "cache")
    trees.write(tmp_path, {"used/x": "mine", ".new-empty/half": "of a killed one", "empty/": ""})
    with pytest.raises(BundleError, match="used' exists and is not an empty folder"):
        checkout(tree, tmp_path / "used")
    checkout(tree, tmp_path / "empty")
    assert trees.read(tmp_path / "empty") == trees.read(tree)
    assert trees.read(tmp_path / "used") == {"x": ("file", b"mine")}
