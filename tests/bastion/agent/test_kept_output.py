"""What a job keeps between its attempts."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import threading
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bastion.agent.kept_output import restore, save
from bastion.errors import RecordError, StoreError
from bastion.records.coding.codec import encode
from bastion.records.keys import layout
from bastion.records.reports.facts import HostFact
from bastion.records.reports.output import PART_BYTES, Saved, SavedFile, read_saved
from bastion.store.folder.local import LocalStore
from bastion.store.memory import Fault, FaultyStore, MemoryStore, Operation
from bastion.store.port import READ_LIMIT_BYTES, Object, Version, Written
from tests.rigs.agent import OF

SECOND = replace(OF, attempt=2, nonce="n2")


def new_store() -> MemoryStore:
    """Return an empty bucket."""
    return MemoryStore(lambda: 0.0)


def content(directory: Path) -> dict[str, tuple[bytes, bool]]:
    """Return every file with its bytes and whether it can be executed."""
    return {
        path.relative_to(directory).as_posix(): (
            path.read_bytes(),
            bool(path.stat().st_mode & 0o100),
        )
        for path in directory.rglob("*")
        if path.is_file()
    }


@settings(max_examples=25)
@given(
    st.dictionaries(
        st.from_regex(r"([a-z]{1,3}/){0,2}[a-z]{1,3}\.f", fullmatch=True),
        st.tuples(st.binary(max_size=200), st.booleans()),
        max_size=6,
    )
)
def test_the_next_attempt_finds_what_was_kept(files: dict[str, tuple[bytes, bool]]) -> None:
    """Every plain file returns with its path, its bytes and its mode."""
    store = new_store()
    with tempfile.TemporaryDirectory() as one, tempfile.TemporaryDirectory() as other:
        for name, (data, executable) in files.items():
            path = Path(one, name)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)
            path.chmod(0o755 if executable else 0o644)
        assert save(store, OF, Path(one), 1) == len(files)
        restore(store, SECOND, Path(other))
        assert content(Path(other)) == content(Path(one)) == files


def test_the_newest_list_of_each_replica_counts(tmp_path: Path) -> None:
    """Of one host the last list counts; of two, the first replica's file; later attempts win."""
    store = new_store()

    def keep(of: HostFact, number: int, **files: str) -> None:
        folder = Path(tempfile.mkdtemp(dir=tmp_path))
        for name, text in files.items():
            (folder / name).write_text(text)
        save(store, of, folder, number)

    keep(OF, 1, gone="old", a="old")
    keep(OF, 2, a="first")
    keep(replace(OF, replica=1), 1, a="second", b="second")
    keep(replace(OF, attempt=2, replica=1), 1, b="later")
    target = tmp_path / "target"
    target.mkdir()
    restore(store, replace(OF, attempt=3), target)
    assert {name: data.decode() for name, (data, _) in content(target).items()} == {
        "a": "first",
        "b": "later",
    }


def test_a_clock_that_is_set_back_makes_no_old_list(tmp_path: Path) -> None:
    """The latest output counts, even if the machine's clock was an hour ahead before."""
    store, target = new_store(), tmp_path / "target"
    target.mkdir()
    output = tmp_path / "output"
    output.mkdir()
    for step, number in enumerate((3_600_000, 1_000, 1_001)):
        (output / "step").write_text(str(step))
        save(store, OF, output, number)
    restore(store, SECOND, target)
    assert (target / "step").read_text() == "2"


def test_a_folder_wins_over_a_file_of_its_name(tmp_path: Path) -> None:
    """A path that one host kept as a file and another as a folder does not stop a third."""
    store = new_store()
    one, other, target = (tmp_path / name for name in ("one", "other", "target"))
    for folder in (one, other / "a", target):
        folder.mkdir(parents=True)
    (one / "a").write_text("file")
    (other / "a" / "b").write_text("below")
    save(store, OF, one, 1)
    save(store, replace(OF, replica=1), other, 1)
    assert restore(store, SECOND, target) == 1
    assert (target / "a" / "b").read_text() == "below"


def test_an_attempt_does_not_restore_itself(tmp_path: Path) -> None:
    """What an attempt kept is for the attempts after it."""
    store = new_store()
    (tmp_path / "file").write_text("x")
    save(store, OF, tmp_path, 1)
    target = tmp_path / "target"
    target.mkdir()
    assert restore(store, OF, target) == 0


class Meeting(MemoryStore):
    """Answers about a part of an output only during a request for another."""

    def __init__(self) -> None:
        super().__init__(lambda: 0.0)
        self.both = threading.Barrier(2, timeout=30)

    def create(self, key: str, data: bytes) -> Written:
        """See the port."""
        if "/content/" in key:
            self.both.wait()
        return super().create(key, data)

    def read(
        self, key: str, *, unless: Version | None = None, limit_bytes: int = READ_LIMIT_BYTES
    ) -> Object | None:
        """See the port."""
        if "/content/" in key:
            self.both.wait()
        return super().read(key, unless=unless, limit_bytes=limit_bytes)


def test_many_files_are_sent_and_read_at_once(tmp_path: Path) -> None:
    """Thousands of files do not delay the restart of a job more than necessary."""
    store = Meeting()
    for number in range(8):
        (tmp_path / f"{number}").write_text(f"{number}")
    assert save(store, OF, tmp_path, 1) == 8
    back = tmp_path / "back"
    assert restore(store, replace(OF, attempt=OF.attempt + 1), back) == 8
    assert content(back) == {f"{n}": (f"{n}".encode(), False) for n in range(8)}


def test_what_did_not_change_is_not_sent_again(tmp_path: Path) -> None:
    """A large file is sent in parts; only the changed part is sent a second time."""
    store = FaultyStore(new_store(), lambda _operation, _key: None)
    path = tmp_path / "checkpoint"
    path.write_bytes(b"a" * PART_BYTES + b"b" * PART_BYTES)
    save(store, OF, tmp_path, 1)
    before = store.counts["create"]
    path.write_bytes(b"a" * PART_BYTES + b"c" * PART_BYTES)
    save(store, OF, tmp_path, 2)
    assert store.counts["create"] - before == 2
    target = tmp_path / "target"
    target.mkdir()
    restore(store, SECOND, target)
    assert (target / "checkpoint").read_bytes() == path.read_bytes()


def test_a_list_that_stands_is_whole(tmp_path: Path) -> None:
    """If the store fails in the middle, no list names a missing object; a second try works."""
    failures = iter([None, Fault.BEFORE])
    store = FaultyStore(
        new_store(), lambda operation, _: next(failures, None) if operation == "create" else None
    )
    for name in ("a", "b", "c"):
        (tmp_path / name).write_text(name)
    with pytest.raises(StoreError):
        save(store, OF, tmp_path, 1)
    assert store.list(layout.saved_outputs(OF.project, OF.job)) == ()
    assert save(store, OF, tmp_path, 1) == 3


@pytest.mark.parametrize("path", ["/etc/passwd", "../up", "a/../../b", "", "a//b", "."])
def test_a_list_cannot_leave_its_directory(path: str, tmp_path: Path) -> None:
    """A hostile path in a list is refused before anything is written."""
    store = new_store()
    key = layout.saved_output(OF.project, OF.job, 1, replica=0, host=0, number=1)
    store.create(key, encode(Saved(files=(SavedFile(path=path),))))
    with pytest.raises(RecordError, match="not a path inside"):
        restore(store, SECOND, tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_damaged_bytes_are_refused(tmp_path: Path) -> None:
    """Bytes that do not match their digest, or are missing, are an error that names them."""
    store = new_store()
    (tmp_path / "file").write_text("right")
    save(store, OF, tmp_path, 1)
    (entry,) = store.list(layout.output(OF.project, OF.job) + "content/")
    store.delete(entry.key)
    target = tmp_path / "target"
    target.mkdir()
    with pytest.raises(RecordError, match="missing"):
        restore(store, SECOND, target)
    store.create(entry.key, b"wrong")
    with pytest.raises(RecordError, match="does not hold"):
        restore(store, SECOND, target)


def test_links_are_left_out(tmp_path: Path) -> None:
    """A link could name any file of the machine, so it is not kept."""
    (tmp_path / "link").symlink_to("/etc/hostname")
    store = new_store()
    assert save(store, OF, tmp_path, 1) == 0
    assert store.list("") == ()


def test_odd_names_do_not_spoil_the_rest(tmp_path: Path) -> None:
    """A file whose name is not text is left out; the others are kept."""
    store = new_store()
    (tmp_path / "good\nname").write_text("x")
    Path(os.fsdecode(os.fsencode(tmp_path) + b"/bad\xff")).write_text("y")
    assert save(store, OF, tmp_path, 1) == 1


SAVING = """
import sys
from pathlib import Path
from bastion.agent.kept_output import PartlyKeptError, save
from bastion.store.folder.local import LocalStore
from tests.rigs.agent import OF
try:
    save(LocalStore(sys.argv[1], makes_root=True), OF, Path(sys.argv[2]), 1)
except PartlyKeptError as error:
    print(error)
"""
BOUND = ["setpriv", "--bounding-set=-dac_override,-dac_read_search"] if not os.geteuid() else []
"""Root can read everything, and would not show this."""


def test_what_may_not_be_read_does_not_keep_the_rest_from_being_kept(tmp_path: Path) -> None:
    """One file and one folder are locked: they are reported, and all others are in the bucket."""
    output, bucket = tmp_path / "output", tmp_path / "bucket"
    for name in ("a", "locked/b", "c", "open/d"):
        (output / name).parent.mkdir(parents=True, exist_ok=True)
        (output / name).write_text(name)
    (output / "c").chmod(0)
    (output / "locked").chmod(0)
    words = [*BOUND, sys.executable, "-c", SAVING, str(bucket), str(output)]
    told = subprocess.run(words, capture_output=True, text=True, check=True).stdout
    (output / "c").chmod(0o600)
    (output / "locked").chmod(0o700)
    assert told == (
        "the agent of its machine may not read 'c' and 1 more; files that are kept: 2\n"
    )
    back = tmp_path / "back"
    assert restore(LocalStore(str(bucket)), replace(OF, attempt=OF.attempt + 1), back) == 2
    assert content(back) == {"a": (b"a", False), "open/d": (b"open/d", False)}


def test_an_output_folder_that_is_a_link_keeps_nothing(tmp_path: Path) -> None:
    """Files behind a link in the place of the output folder are not sent."""
    (tmp_path / "secrets").mkdir()
    (tmp_path / "secrets" / "token").write_text("top secret")
    (tmp_path / "output").symlink_to(tmp_path / "secrets")
    store = new_store()
    assert save(store, OF, tmp_path / "output", 1) == 0
    assert store.list("") == ()


def test_pipes_hold_nothing_up(tmp_path: Path) -> None:
    """A pipe among the output is left out, and files beside it are kept."""
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "model").write_text("weights")
    store = new_store()
    assert save(store, OF, tmp_path, 1) == 1


def test_a_file_that_grows_as_it_is_read_comes_to_an_end(tmp_path: Path) -> None:
    """What a file had when it was opened is kept, however fast it grows."""
    model = tmp_path / "model"
    model.write_bytes(b"w" * PART_BYTES)

    def grow(operation: Operation, key: str) -> Fault | None:
        assert model.stat().st_size < 10 * PART_BYTES
        with model.open("ab") as file:
            file.truncate(file.tell() + PART_BYTES)
        return None

    store = new_store()
    assert save(FaultyStore(store, grow), OF, tmp_path, 1) == 1
    (saved,) = [entry.key for entry in store.list("") if "/saved/" in entry.key]
    (file,) = read_saved(store, saved).files
    assert file.size == PART_BYTES
