"""The owner of a local machine: found by its folder, even if its bucket is gone."""

from __future__ import annotations

import os
from pathlib import Path

from bastion.provider.serving import bastions_of, machines_of, noted
from bundler.bundle.select import select
from bundler.code import LocalDir


def machine(folder: Path, root: str = "") -> Path:
    """Return the folder of a machine; one of an older version does not name its root."""
    folder.mkdir(parents=True)
    (folder / "machine").touch()
    if root:
        (folder / "root").write_text(f"{root}\n")
    return folder


def test_machines_of_other_buckets_are_not_counted(tmp_path: Path) -> None:
    """Those of an older version count for this bucket if no other bucket has machines."""
    mine = machine(tmp_path / "b1" / "pool" / "a", "file:///mine")
    machine(tmp_path / "b2" / "pool" / "b", "file:///other")
    older = machine(tmp_path / "pool" / "c")
    assert machines_of(tmp_path, "file:///mine", is_own=False) == [mine]
    assert machines_of(tmp_path, "file:///mine", is_own=True) == [mine, older]
    assert machines_of(tmp_path, "file:///new", is_own=False) == []


def test_bastions_of_one_name_are_told_apart_by_their_buckets(tmp_path: Path) -> None:
    """Each is found while it serves, in any order of starts and ends, and none leaves a note."""
    with noted(tmp_path, "vm", "file:///mine"):
        with noted(tmp_path, "vm", "file:///other"):
            assert bastions_of(tmp_path, "file:///mine") == (os.getpid(),)
            assert bastions_of(tmp_path, "file:///other") == (os.getpid(),)
        assert bastions_of(tmp_path, "file:///mine") == (os.getpid(),)
        assert bastions_of(tmp_path, "file:///other") == ()
    assert not [*tmp_path.iterdir()]


def test_machines_beside_code_are_not_sent_with_it(tmp_path: Path) -> None:
    """Their folder was created for them and has secrets of jobs; a user's own folder stays."""
    (tmp_path / "train.py").touch()
    (tmp_path / "own").mkdir()
    for name in ("machines", "own"):
        with noted(tmp_path / name, "vm", "file:///bucket"):
            (tmp_path / name / "job").touch()
    found = {one.path for one in select(LocalDir(str(tmp_path)), start=tmp_path).found}
    assert found == {"train.py", "own/job"}
