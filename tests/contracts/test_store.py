"""What every object store promises, tested against every adapter."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from bastion.clock import SystemClock, VirtualClock
from bastion.errors import (
    ConflictError,
    NotFoundError,
    OversizeError,
    SpecError,
    StoreError,
    StoreRefusedError,
)
from bastion.store.date import date_of
from bastion.store.port import Object, ObjectStore, Version
from bastion.store.probe import probe
from tests.contracts.places import PROVEN, SHOPS, Place
from tests.rigs.limits import PATIENCE_S

ODD_KEYS = (
    "a b/üß/日本/😀.json",
    "100%/%2Etmp/%25/.tmp",
    ".tmp/x",
    "a+b=c&d?e#f/g:h;i@j,k'l\"mn*o|p<q>r~s`t^u[v]w{x}y!z$",
    "back\\slash",
    "p" * 240 + "/" + "q" * 240,
    "...",
    "-rf",
    "trailing /space ",
)


@pytest.fixture(
    scope="module",
    params=[pytest.param(name, marks=PROVEN.get(name, [])) for name in SHOPS],
)
def shop(request: pytest.FixtureRequest) -> Iterator[Callable[[Path], Place]]:
    """Provide each adapter in turn, with what it needs."""
    with SHOPS[request.param]() as found:
        yield found


@pytest.fixture
def place(shop: Callable[[Path], Place], tmp_path: Path) -> Place:
    """Provide a fresh, empty store."""
    return shop(tmp_path)


@pytest.fixture
def store(place: Place) -> ObjectStore:
    """Return the store of the place."""
    return place.store


def read(store: ObjectStore, key: str) -> Object:
    """Return the object at `key`, which must exist."""
    found = store.read(key)
    assert found is not None
    return found


def read_patiently(store: ObjectStore, key: str) -> Object:
    """
    Return the object at `key`, retrying while the store is out of reach.

    Servers answer some calls that coincide with another on the same object with 500, which says
    nothing about what was done: moto a read of what is being overwritten, Ceph's gateway a swap
    beside another, and both Ceph's gateway and localstack a swap beside a delete.
    """
    while True:
        try:
            return read(store, key)
        except StoreError:
            continue


def swapped(place: Place, key: str, data: bytes, version: Version) -> bool:
    """Whether a swap is known to have landed; not if it was refused, or is in doubt."""
    try:
        place.store.swap(key, data, if_version=version)
    except ConflictError:
        return False
    except StoreError:
        if not place.is_doubtful:
            raise
        return False
    return True


def keys(store: ObjectStore, prefix: str, *, start_after: str = "", limit: int = 1000) -> list[str]:
    """Return the keys that a list shows."""
    return [e.key for e in store.list(prefix, start_after=start_after, limit=limit)]


def keys_patiently(store: ObjectStore, prefix: str) -> list[str]:
    """Return the keys that a list shows, retrying as in `read_patiently`: moto's can fail."""
    while True:
        try:
            return keys(store, prefix)
        except StoreError:
            continue


def test_its_date_is_known_from_its_answers(place: Place) -> None:
    """Whatever this machine's clock says, the date is that of its objects."""
    here = SystemClock() if place.name == "local" else VirtualClock(wall=0.0)
    date, store = date_of(place.store, here), place.store
    written = store.create("a", b"1")
    assert date() == pytest.approx(written.modified_at, abs=PATIENCE_S)
    assert store.read("a", unless=written.version) is None
    with pytest.raises(NotFoundError):
        store.read("b")
    assert date() == pytest.approx(written.modified_at, abs=PATIENCE_S)


def test_what_was_created_is_read(store: ObjectStore) -> None:
    """A read after a create returns its bytes, its version and the store's time."""
    written = store.create("a/b", b"hello")
    found = read(store, "a/b")
    assert found.data == b"hello"
    assert found.version == written.version
    assert found.modified_at == pytest.approx(written.modified_at, abs=1.0)
    assert abs(found.modified_at - time.time()) < 60


def test_what_is_absent_is_not_found(store: ObjectStore) -> None:
    """Reading an absent object, a folder, or a key inside an object raises NotFoundError."""
    store.create("folder/object", b"x")
    for key in ("absent", "no/such/folder", "folder", "folder/object/inside"):
        with pytest.raises(NotFoundError, match=key):
            store.read(key)


def test_create_refuses_a_taken_name(store: ObjectStore) -> None:
    """A second create of one name raises ConflictError and changes nothing."""
    first = store.create("a", b"first")
    with pytest.raises(ConflictError):
        store.create("a", b"second")
    assert read(store, "a") == Object(
        data=b"first", version=first.version, modified_at=read(store, "a").modified_at
    )


def test_swap_needs_the_current_version(store: ObjectStore) -> None:
    """A swap succeeds from the current version only; from any other nothing changes."""
    first = store.create("a", b"1").version
    second = store.swap("a", b"2", if_version=first).version
    assert second != first
    with pytest.raises(ConflictError):
        store.swap("a", b"3", if_version=first)
    assert (read(store, "a").data, read(store, "a").version) == (b"2", second)


def test_swap_never_creates(store: ObjectStore) -> None:
    """A swap of an object that does not exist, or no longer exists, raises ConflictError."""
    version = store.create("a", b"1").version
    store.delete("a")
    for key in ("a", "b", "a/b"):
        with pytest.raises(ConflictError):
            store.swap(key, b"2", if_version=version)
        with pytest.raises(NotFoundError):
            store.read(key)


def test_versions_tell_writes_apart(store: ObjectStore) -> None:
    """Writes of different bytes have different versions, however fast they follow each other."""
    version = store.create("a", b"0").version
    seen = {version}
    for n in range(1, 30):
        version = store.swap("a", b"%d" % n, if_version=version).version
        seen.add(version)
    assert len(seen) == 30


def test_conditional_read_returns_nothing_when_nothing_changed(store: ObjectStore) -> None:
    """A read `unless` the current version returns None; unless another, the object."""
    first = store.create("a", b"1").version
    assert store.read("a", unless=first) is None
    second = store.swap("a", b"2", if_version=first).version
    found = store.read("a", unless=first)
    assert found is not None
    assert (found.data, found.version) == (b"2", second)
    with pytest.raises(NotFoundError):
        store.read("absent", unless=first)


def test_delete_is_idempotent_and_frees_the_name(store: ObjectStore) -> None:
    """A deleted object is gone from reads and lists, can be deleted again, and created again."""
    store.create("a/b/c", b"1")
    store.delete("a/b/c")
    store.delete("a/b/c")
    store.delete("never/there")
    store.delete("a")
    assert keys(store, "") == []
    with pytest.raises(NotFoundError):
        store.read("a/b/c")
    store.create("a/b/c", b"2")
    assert read(store, "a/b/c").data == b"2"


def test_a_folder_is_gone_with_its_last_object(store: ObjectStore) -> None:
    """Once everything below `a/` is deleted, `a` can be an object, and vice versa."""
    store.create("a/b/c", b"1")
    store.delete("a/b/c")
    store.create("a", b"2")
    store.delete("a")
    store.create("a/b", b"3")
    assert keys(store, "") == ["a/b"]


def test_a_folder_store_refuses_an_object_that_is_a_folder(place: Place) -> None:
    """If keys are paths, an object inside an object is refused, and harms neither."""
    if not place.is_folder:
        pytest.skip("a bucket has no folders to see it by")
    place.store.create("a/b", b"1")
    place.store.create("c", b"2")
    for key in ("a", "c/d", "c/d/e"):
        with pytest.raises(StoreRefusedError, match="folder of others"):
            place.store.create(key, b"3")
    assert keys(place.store, "") == ["a/b", "c"]


def test_odd_keys_are_kept_apart(place: Place) -> None:
    """Every character that a key may contain survives create, read, list, swap and delete."""
    store, odd = place.store, [key for key in ODD_KEYS if key not in place.refuses]
    for n, key in enumerate(odd):
        store.create(key, b"%d" % n)
    assert keys(store, "") == sorted(odd, key=str.encode)
    for n, key in enumerate(odd):
        assert read(store, key).data == b"%d" % n
        assert keys(store, key) == [key]
        store.swap(key, b"swapped", if_version=read(store, key).version)
        assert read(store, key).data == b"swapped"
        store.delete(key)
    assert keys(store, "") == []


def test_a_key_that_the_store_cannot_keep_is_refused(place: Place) -> None:
    """The error says so, and nothing is written."""
    for key in place.refuses:
        with pytest.raises(StoreRefusedError, match="cannot hold"):
            place.store.create(key, b"")
    assert keys(place.store, "") == []


def test_what_is_no_key_is_refused(store: ObjectStore) -> None:
    """Every operation on a malformed key raises SpecError before anything happens."""
    long = ["k" * 241, "/".join(["k" * 100] * 9)]
    for key in [
        "",
        "/",
        "/a",
        "a/",
        "a//b",
        ".",
        "..",
        "a/../b",
        "./a",
        "a\nb",
        "a\0",
        "\udc80",
        *long,
    ]:
        for operation in (
            lambda key: store.read(key),
            lambda key: store.create(key, b""),
            lambda key: store.swap(key, b"", if_version=Version("1")),
            lambda key: store.delete(key),
        ):
            with pytest.raises(SpecError):
                operation(key)
    for prefix in ("/", "a//", "../a", "a\nb"):
        with pytest.raises(SpecError):
            store.list(prefix)


def test_bodies_of_any_size(store: ObjectStore) -> None:
    """Empty bodies and bodies of 10 MB come back byte for byte, and lists show their sizes."""
    large = bytes(range(256)) * 40_000
    store.create("empty", b"")
    store.create("large", large)
    assert read(store, "empty").data == b""
    assert read(store, "large").data == large
    version = store.swap("empty", large[::-1], if_version=read(store, "empty").version).version
    assert read(store, "empty").data == large[::-1]
    store.swap("empty", b"", if_version=version)
    assert [(e.key, e.size) for e in store.list("")] == [("empty", 0), ("large", len(large))]


def test_bytes_come_back_as_they_were(store: ObjectStore) -> None:
    """No layer unpacks, decodes or translates a body."""
    for n, body in enumerate([b"\x1f\x8b\x08\x00gzip?", b"\r\n\r\n", b"\xff\xfe", b"\x00", b"{}"]):
        store.create(f"k{n}", body)
        assert read(store, f"k{n}").data == body


def test_a_list_shows_what_was_written_before(store: ObjectStore) -> None:
    """A list after a write shows it with version, size and time; after a delete, it does not."""
    written = store.create("a/b", b"12345")
    (entry,) = store.list("a/")
    found = read(store, "a/b")
    assert (entry.key, entry.version, entry.size) == ("a/b", written.version, 5)
    assert entry.modified_at == pytest.approx(found.modified_at, abs=1.0)
    swapped = store.swap("a/b", b"1", if_version=written.version)
    (entry,) = store.list("a/")
    assert (entry.version, entry.size) == (swapped.version, 1)
    store.delete("a/b")
    assert store.list("a/") == ()


def test_lists_are_sorted_by_bytes_and_cut_by_prefix(store: ObjectStore) -> None:
    """Keys come in the order of their UTF-8 bytes, including `/`; a prefix is just a string."""
    names = ["a-b", "a.b", "a/b", "a/b.c", "a/b0", "a0", "aa/a", "b", "é/x", "\uffee", "😀"]
    for key in reversed(names):
        store.create(key, b"")
    assert keys(store, "") == sorted(names, key=str.encode) == names
    assert keys(store, "a") == names[:7]
    assert keys(store, "a/") == ["a/b", "a/b.c", "a/b0"]
    assert keys(store, "a/b") == ["a/b", "a/b.c", "a/b0"]
    assert keys(store, "a/b.") == ["a/b.c"]
    assert keys(store, "aa/a/") == []
    assert keys(store, "z") == keys(store, "z/y/x") == []


def test_lists_begin_after_any_string(store: ObjectStore) -> None:
    """`start_after` need not be a key: it may end in a folder, or lie between or outside them."""
    names = ["a/1", "a/2", "a/b/3", "a0", "c/4"]
    for key in names:
        store.create(key, b"")
    for start in ["a", "a/", "a/1", "a/2", "a/20", "a/b", "a/b/", "a/b/3", "a/c", "a0", "b", "d"]:
        assert keys(store, "", start_after=start) == [k for k in names if k > start]
        assert keys(store, "a/", start_after=start) == [
            k for k in names if k > start and k.startswith("a/")
        ]


def test_lists_page_through_many_names(place: Place) -> None:
    """2,500 names come in pages without gap or repeat; a short page is the last one."""
    names = sorted(f"inbox/p{n % 7}/u{n % 31}/{n:05}.launch.json" for n in range(2500))
    place.fill(names)
    store = place.store
    pages: list[list[str]] = [keys(store, "inbox/")]
    while len(pages[-1]) == 1000:
        pages.append(keys(store, "inbox/", start_after=pages[-1][-1]))
    assert [len(page) for page in pages] == [1000, 1000, 500]
    assert [key for page in pages for key in page] == names
    assert keys(store, "inbox/", limit=2500) == names
    assert keys(store, "inbox/p3/", limit=3) == [k for k in names if k.startswith("inbox/p3/")][:3]
    # One cap per user: past the user's whole prefix in one step.
    assert keys(store, "inbox/", start_after="inbox/p0/u0/\U0010ffff", limit=1) == [
        next(k for k in names if k > "inbox/p0/u0/\U0010ffff")
    ]


def test_of_many_creators_one_wins(place: Place) -> None:
    """32 contenders create one name: one succeeds, 31 see a conflict, the winner's bytes stay."""

    def create(store: ObjectStore, number: int) -> bool:
        try:
            store.create("race/claim", b"%d" % number * 1000)
        except ConflictError:
            return False
        return True

    won = place.race(32, create)
    assert won.count(True) == 1
    assert read(place.store, "race/claim").data == b"%d" % won.index(True) * 1000


def test_no_update_is_lost(place: Place) -> None:
    """Contenders that add by compare-and-swap, retrying until it succeeds, lose no addition."""
    place.store.create("counts", b"{}")

    def add(store: ObjectStore, number: int) -> int:
        own, added = str(number), 0
        while added < 5:
            found = read_patiently(store, "counts")
            counts = json.loads(found.data)
            stands = counts.get(own, 0)
            assert stands in (added, added + 1), "one that was acknowledged is gone"
            added = stands
            if added < 5 and swapped(place, "counts", more(counts, own), found.version):
                added += 1
        return added

    def more(counts: dict[str, int], own: str) -> bytes:
        return json.dumps({**counts, own: counts.get(own, 0) + 1}).encode()

    place.race(6, add)
    counts = json.loads(read(place.store, "counts").data)
    assert counts == {str(number): 5 for number in range(6)}


def test_a_swap_never_revives_what_was_deleted(place: Place) -> None:
    """A concurrent swap and delete happen in either order: the object is never left behind."""
    if place.name == "ceph":
        pytest.skip("its gateway says that a delete is done when a swap has beaten it (0049)")

    def swap_or_delete(store: ObjectStore, number: int) -> None:
        for n in range(10):
            key = f"race/{n}"
            if number == 0:
                store.delete(key)
            else:
                swapped(place, key, b"swapped", versions[key])

    versions = {f"race/{n}": place.store.create(f"race/{n}", b"").version for n in range(10)}
    place.race(4, swap_or_delete)
    assert keys(place.store, "") == []


def test_folders_come_and_go_under_many_writers(place: Place) -> None:
    """Contenders that create and delete in one folder never fail because it comes and goes."""

    def come_and_go(store: ObjectStore, number: int) -> int:
        for n in range(10):
            store.create(f"inbox/p/u/{number}-{n}", b"x")
            assert f"inbox/p/u/{number}-{n}" in keys_patiently(store, "inbox/p/u/")
            store.delete(f"inbox/p/u/{number}-{n}")
        return 10

    assert place.race(4, come_and_go) == [10] * 4
    assert keys(place.store, "") == []


def test_readers_see_old_or_new_and_never_a_mix(place: Place) -> None:
    """While one contender swaps large bodies, readers see each whole, and only newer ones."""
    place.store.create("large", b"\x00" * 300_000)

    def read_or_write(store: ObjectStore, number: int) -> bool:
        last = 0
        for n in range(1, 40):
            found = read_patiently(store, "large")
            if number == 0:
                store.swap("large", bytes([n]) * 300_000, if_version=found.version)
            if found.data != found.data[:1] * 300_000 or found.data[0] < last:
                return False
            last = found.data[0]
        return True

    assert all(place.race(4, read_or_write))


def test_the_probe_passes_and_leaves_nothing(store: ObjectStore) -> None:
    """The start-up probe accepts the store and cleans up after itself."""
    probe(store)
    assert keys(store, "") == []


def test_a_read_stops_at_its_limit(store: ObjectStore) -> None:
    """An object of as many bytes as are allowed is read; one byte more raises OversizeError."""
    store.create("a", b"x" * 300_000)
    found = store.read("a", limit_bytes=300_000)
    assert found is not None and len(found.data) == 300_000
    with pytest.raises(OversizeError, match="299999"):
        store.read("a", limit_bytes=299_999)
    assert store.read("a", unless=found.version, limit_bytes=1) is None
    assert read(store, "a").data == found.data  # what was cut short spoils no later read
