"""Whose a local machine is: told by its folder, also where its bucket is gone."""

from __future__ import annotations

from pathlib import Path

from bastion.provider.serving import machines_of


def machine(folder: Path, root: str = "") -> Path:
    """The folder of a machine; one of an older version does not name its root."""
    folder.mkdir(parents=True)
    (folder / "machine").touch()
    if root:
        (folder / "root").write_text(f"{root}\n")
    return folder


def test_machines_of_other_buckets_are_not_counted(tmp_path: Path) -> None:
    """Those of this bucket are, and those of an older version where nothing else has machines."""
    mine = machine(tmp_path / "b1" / "pool" / "a", "file:///mine")
    machine(tmp_path / "b2" / "pool" / "b", "file:///other")
    older = machine(tmp_path / "pool" / "c")
    assert machines_of(tmp_path, "file:///mine", is_own=False) == [mine]
    assert machines_of(tmp_path, "file:///mine", is_own=True) == [mine, older]
    assert machines_of(tmp_path, "file:///new", is_own=False) == []
