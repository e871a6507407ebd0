"""Kept output is fetched completely, checked, and only once."""

from __future__ import annotations

import fcntl
import itertools
import os
from dataclasses import replace
from pathlib import Path

import pytest

from bastion.agent.kept_output import save
from bastion.client.code.outputs import Outputs, Wish, fetch_all
from bastion.client.look.views import JobView
from bastion.errors import BastionError, NotFoundError, RecordError, StoreError
from bastion.records.coding.codec import encode
from bastion.records.keys import layout
from bastion.records.reports.output import PART_BYTES, Saved, SavedFile
from bastion.store.memory import Fault, FaultyStore, MemoryStore
from bundler.bundle.select import select
from bundler.code import LocalDir
from tests.rigs.agent import OF


class Kept:
    """A bucket, and hosts that keep files in it as agents do."""

    def __init__(self, machines: Path) -> None:
        self.store = MemoryStore(lambda: 5.0)
        self.outputs = Outputs(self.store, OF.project, OF.job)
        self._machines = machines

    def __call__(
        self, files: dict[str, bytes], *, attempt: int = 1, replica: int = 0, host: int = 0
    ) -> Path:
        """Let one host keep `files` in addition; return its directory."""
        folder = self._machines / f"{attempt}-{replica}-{host}"
        for name, data in files.items():
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)
        number = len(self.store.list(layout.saved_outputs(OF.project, OF.job)))
        of = replace(OF, attempt=attempt, replica=replica, host=host)
        save(self.store, of, folder, number)
        return folder


@pytest.fixture
def kept(tmp_path: Path) -> Kept:
    """Provide an empty bucket."""
    return Kept(tmp_path / "machines")


def tree(folder: Path) -> dict[str, bytes]:
    """Return every file below `folder`."""
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file()
    }


def test_each_replica_has_a_folder(kept: Kept, tmp_path: Path) -> None:
    """Files have their paths and bytes; further hosts of a replica have separate folders."""
    kept({"a": b"0", "b/c.txt": b"1"})
    kept({"a": b"2", "empty": b""}, replica=1)
    kept({"a": b"3"}, replica=1, host=1)
    found = kept.outputs.fetch(tmp_path / "out")
    assert tree(tmp_path / "out") == {
        "r0/a": b"0",
        "r0/b/c.txt": b"1",
        "r1/a": b"2",
        "r1/empty": b"",
        "r1.h1/a": b"3",
    }
    assert (found.files, found.size_bytes, found.fetched_bytes) == (5, 4, 4)
    assert (found.attempts, found.kept_at) == ((1,), 5.0)
    assert sorted(each.name for each in (tmp_path / "out").iterdir()) == ["r0", "r1", "r1.h1"]


def test_modes_are_kept(kept: Kept, tmp_path: Path) -> None:
    """A kept program can be run, and nothing else becomes executable."""
    program = kept({"plain": b"x"}) / "program"
    program.write_bytes(b"#!/bin/sh\n")
    program.chmod(0o755)
    kept({})
    kept.outputs.fetch(tmp_path / "out")
    assert os.access(tmp_path / "out/r0/program", os.X_OK)
    assert not os.access(tmp_path / "out/r0/plain", os.X_OK)


def test_asking_again_brings_only_what_changed(kept: Kept, tmp_path: Path) -> None:
    """Equal files are not read; different ones are replaced; foreign files stay."""
    kept({"a": b"aa", "b": b"bb"})
    out = tmp_path / "out"
    kept.outputs.fetch(out)
    assert kept.outputs.fetch(out).fetched_bytes == 0
    kept({"a": b"aa", "b": b"BBB"})
    (out / "r0" / "mine").write_bytes(b"m")
    assert kept.outputs.fetch(out).fetched_bytes == 3
    (out / "r0" / "a").write_bytes(b"aaz")
    assert kept.outputs.fetch(out).fetched_bytes == 2
    assert tree(out) == {"r0/a": b"aa", "r0/b": b"BBB", "r0/mine": b"m"}


def test_the_newest_of_each_host_counts_unless_an_attempt_is_named(
    kept: Kept, tmp_path: Path
) -> None:
    """A host that kept nothing in the newest attempt is shown with its last output."""
    kept({"a": b"1"})
    kept({"a": b"1"}, replica=1)
    kept({"a": b"2"}, attempt=2)
    found = kept.outputs.fetch(tmp_path / "newest")
    assert tree(tmp_path / "newest") == {"r0/a": b"2", "r1/a": b"1"}
    assert found.attempts == (1, 2)
    kept.outputs.fetch(tmp_path / "first", attempt=1)
    assert tree(tmp_path / "first") == {"r0/a": b"1", "r1/a": b"1"}
    kept.outputs.fetch(tmp_path / "one", replica=1)
    assert tree(tmp_path / "one") == {"r1/a": b"1"}


def test_a_large_file_goes_on_where_it_was_cut(kept: Kept, tmp_path: Path) -> None:
    """After a store fails in the middle, complete parts are not read again."""
    parts = [bytes([n]) * PART_BYTES for n in range(3)] + [b"end"]
    kept({"big": b"".join(parts)})
    out = tmp_path / "out"
    reads = itertools.count()
    cut = FaultyStore(
        kept.store, lambda op, _: Fault.BEFORE if op == "read" and next(reads) == 3 else None
    )
    with pytest.raises(StoreError):
        Outputs(cut, OF.project, OF.job).fetch(out)
    assert not (out / "r0").exists()
    assert kept.outputs.fetch(out).fetched_bytes == PART_BYTES + 3
    assert tree(out) == {"r0/big": b"".join(parts)}


def test_two_fetches_into_one_folder_are_refused(kept: Kept, tmp_path: Path) -> None:
    """The second one gets an error, and writes nothing."""
    kept({"a": b"1"})
    out = tmp_path / "out"
    out.mkdir()
    handle = os.open(out, os.O_RDONLY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        with pytest.raises(BastionError, match="is being fetched into by another"):
            kept.outputs.fetch(out)
        assert tree(out) == {}
    finally:
        os.close(handle)


@pytest.mark.parametrize("path", ["../x", "/etc/x", "a/../../x", "", "a//b", "a\0b"])
def test_a_list_that_leads_outside_writes_nothing(path: str, kept: Kept, tmp_path: Path) -> None:
    """A machine's list is not trusted: a path outside of the folder is an error."""
    key = layout.saved_output(OF.project, OF.job, 1, replica=0, host=0, number=1)
    kept.store.create(key, encode(Saved(files=(SavedFile(path=path),))))
    with pytest.raises(RecordError, match="is not a path inside"):
        kept.outputs.fetch(tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_damaged_bytes_are_never_written(kept: Kept, tmp_path: Path) -> None:
    """A part that does not match its name is an error, and no file appears."""
    kept({"a": b"good"})
    (entry,) = kept.store.list(layout.output(OF.project, OF.job) + "content/")
    kept.store.swap(entry.key, b"evil", if_version=entry.version)
    with pytest.raises(RecordError, match="does not hold what its name says"):
        kept.outputs.fetch(tmp_path / "out")
    assert not (tmp_path / "out" / "r0").exists()


def test_nothing_kept_is_told(kept: Kept, tmp_path: Path) -> None:
    """Nothing at all, nothing in that attempt and nothing by that replica have separate errors."""
    with pytest.raises(NotFoundError, match="has kept nothing") as none:
        kept.outputs.fetch(tmp_path / "out")
    assert "BASTION_OUTPUT_DIR" in none.value.hint
    kept({"a": b"1"})
    with pytest.raises(NotFoundError, match="kept nothing in attempt 7"):
        kept.outputs.fetch(tmp_path / "out", attempt=7)
    with pytest.raises(NotFoundError, match="kept nothing by replica 3") as other:
        kept.outputs.fetch(tmp_path / "out", replica=3)
    assert other.value.hint == "files were kept in attempt 1"


def a_job(job: str, *, task: int | None = None) -> JobView:
    """Return a job that has succeeded."""
    launch = job.partition(".")[0]
    return JobView(
        id=job,
        name="sweep",
        project=OF.project,
        user="ada",
        launch=launch,
        state="succeeded",
        task=task,
    )


def test_each_task_of_an_array_has_a_folder_named_by_its_index(tmp_path: Path) -> None:
    """A task that kept nothing is left out; if none kept anything, that is an error."""
    store = MemoryStore(lambda: 5.0)
    made = tmp_path / "machine"
    made.mkdir()
    tasks = [a_job(f"sweep-a1b2c3d4e5.{index}", task=index) for index in (3, 4, 17)]
    with pytest.raises(NotFoundError, match="no task of sweep-a1b2c3d4e5 has kept anything"):
        fetch_all(store, tasks, tmp_path / "out", Wish(is_array=True), None)
    for index, task in ((0, tasks[0]), (1, tasks[2])):
        (made / "loss.txt").write_text(f"{task.task}")
        save(store, replace(OF, job=task.id), made, index)
    found = fetch_all(store, tasks, tmp_path / "out", Wish(is_array=True), None)
    assert tree(tmp_path / "out") == {"3/r0/loss.txt": b"3", "17/r0/loss.txt": b"17"}
    assert (found.tasks, found.files, found.size_bytes, found.fetched_bytes) == (2, 2, 3, 3)


def test_a_folder_that_nobody_named_stays_out_of_git_and_of_bundles(
    kept: Kept, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Results are fetched into the folder of the code; a named folder is left as it is."""
    kept({"model.bin": b"1"})
    project = tmp_path / "project"
    project.mkdir()
    (project / "train.py").write_text("")
    monkeypatch.chdir(project)
    job = a_job(OF.job)
    assert fetch_all(kept.store, [job], "", Wish(), None).folder == project / OF.job
    assert {found.path for found in select(LocalDir("."), start=project).found} == {"train.py"}
    fetch_all(kept.store, [job], "named", Wish(), None)
    assert tree(project / "named") == {"r0/model.bin": b"1"}


def test_a_folder_that_cannot_be_written_is_told(kept: Kept, tmp_path: Path) -> None:
    """A file in the place of a folder is named."""
    kept({"a": b"1"})
    (tmp_path / "out").write_bytes(b"")
    with pytest.raises(BastionError, match="cannot be written"):
        kept.outputs.fetch(tmp_path / "out")
