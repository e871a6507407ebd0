"""The home of an agent on its machine."""

from __future__ import annotations

import os
import re
import time
from pathlib import Path

import pytest

from bastion.agent.home import FolderHome, Marks, Word

KEY = "vision/train-abc/a1-n1/r0/h0"


@pytest.fixture
def home(tmp_path: Path) -> FolderHome:
    """Return an empty home."""
    return FolderHome(tmp_path)


def test_numbers_belong_to_a_life(home: FolderHome, tmp_path: Path) -> None:
    """The home remembers a number across openings; it starts at 0 in each life."""
    assert home.number("bells", 1) == 0
    home.put_number("bells", 1, 256)
    assert FolderHome(tmp_path).number("bells", 1) == 256
    assert home.number("bells", 2) == 0
    assert home.number("instructions", 1) == 0


@pytest.mark.parametrize("written", ["1", "", "1 x", "x 256", "1 2 3", "1 " + "9" * 13, "\0" * 8])
def test_a_damaged_number_is_told_from_none(home: FolderHome, tmp_path: Path, written: str) -> None:
    """Anything but a line of two numbers is damaged, unlike a life without a number."""
    home.put_number("bells", 1, 256)
    (tmp_path / "numbers" / "bells").write_text(written)
    assert home.number("bells", 1) is None


def test_folders_are_made_once_and_private(home: FolderHome) -> None:
    """A repeated call returns the same folders with their contents; others cannot see in."""
    folders = home.folders(KEY)
    Path(folders.code, "file").write_text("x")
    assert home.folders(KEY) == folders
    assert Path(folders.code, "file").exists()
    assert Path(folders.marks).stat().st_mode & 0o777 == 0o700
    assert not Path(folders.notice_file).exists()


@pytest.mark.parametrize("job", ["train-abc", "train-abc.17", "a_b-c@d+e-abc", "ä b:c,d=e%41"])
def test_a_path_means_itself_to_every_program(home: FolderHome, job: str) -> None:
    """No part of it is an instruction to date, printf, ssh -i, a linker or Hydra."""
    folder = home.folders(KEY.replace("train-abc", job)).output
    assert re.fullmatch(r"[A-Za-z0-9_.@+/-]+", folder)
    assert time.strftime(folder) == folder


def test_no_two_hosts_have_one_folder(home: FolderHome) -> None:
    """Whatever a key contains, its folder is unique, and within the common folder."""
    keys = ["a/b", "a+b", "a@2Bb", "a@b", "a.b", "a%2Fb", ".", "..", "@2E", "a", "A"]
    folders = {Path(home.named(key).marks) for key in keys}
    assert len(folders) == len(keys)
    assert {folder.resolve().parent for folder in folders} == {folders.pop().parent}


def test_the_longest_names_have_folders(home: FolderHome) -> None:
    """They may have any characters, and two hosts may share most of a name."""
    longest = f"{'p-' * 31}q/{'a' + '@' * 61 + 'b'}-0123456789.999999/a1-0123456789abcdef/r10/h"
    folders = {home.folders(f"{longest}{host}").code for host in (1, 11)}
    assert len(folders) == 2
    assert all(Path(folder).is_dir() for folder in folders)


def test_a_job_of_an_agent_before_the_upgrade_keeps_its_folder(
    home: FolderHome, tmp_path: Path
) -> None:
    """Its processes run in a folder with the name that was given then."""
    old = tmp_path / "work" / KEY.replace("/", "%2F")
    old.mkdir(parents=True)
    os.utime(old, (1000, 1000))
    later = FolderHome(tmp_path)
    assert Path(later.folders(KEY).marks) == old
    later.clean(ended=2000.0, needed=2000.0, taken=0.0, spared=frozenset({KEY}))
    assert old.exists()
    assert Path(home.named(KEY).marks) != old


def test_marks_are_files(home: FolderHome) -> None:
    """A mark is a file; touching it again is a new mark."""
    marks = Path(home.folders(KEY).marks)
    assert home.marks(KEY).checkpointed_at is None
    assert not home.marks(KEY).finished
    (marks / "checkpointed").touch()
    first = home.marks(KEY).checkpointed_at
    os.utime(marks / "checkpointed", (1, 1))
    assert first != home.marks(KEY).checkpointed_at == 1.0
    (marks / "finished").touch()
    assert home.marks(KEY).finished


@pytest.mark.parametrize(
    ("written", "numbers"),
    [
        ('{"loss": 0.5}\n{"loss": 0.25, "step": 7}\n', {"loss": 0.25, "step": 7.0}),
        ('{"loss": 0.5}\n{"loss": 0.2', {"loss": 0.5}),
        ('{"loss": "low", "step": 7, "nan": NaN, "on": true}\n', {"step": 7.0}),
        ("[1]\n", {}),
        ("not json\n", {}),
        ("[" * 4000 + "\n", {}),
        ('{"large": 1' + "0" * 400 + ', "step": 7}\n', {"step": 7.0}),
        ('{"half \\ud800": 1, "step": 7}\n', {"step": 7.0}),
        ("", {}),
    ],
)
def test_the_last_whole_line_is_the_report(
    home: FolderHome, written: str, numbers: dict[str, float]
) -> None:
    """Only finite numbers of the last complete line of `report` count."""
    (Path(home.folders(KEY).marks) / "report").write_text(written)
    assert home.marks(KEY).report == numbers


def test_what_a_job_makes_of_its_marks_holds_nothing_up(home: FolderHome) -> None:
    """Pipes and links in the place of marks are no marks, and are not waited for."""
    base = Path(home.folders(KEY).marks)
    for name in ("report", "container.json", "finished"):
        os.mkfifo(base / name)
    (base / "checkpointed").symlink_to("/etc/passwd")
    assert home.marks(KEY) == Marks()
    assert home.word(KEY) == Word()


def test_a_linked_output_folder_is_empty(home: FolderHome) -> None:
    """The target of an output folder that became a link is not the job's output."""
    output = Path(home.folders(KEY).output)
    output.rmdir()
    output.symlink_to("/etc")
    assert not home.has_output(KEY)


def test_output_is_seen(home: FolderHome) -> None:
    """Output of a host is detected without creating its folder."""
    assert not home.has_output(KEY)
    folders = home.folders(KEY)
    assert not home.has_output(KEY)
    Path(folders.output, "file").touch()
    assert home.has_output(KEY)


def test_empty_folders_go_at_once(home: FolderHome, tmp_path: Path) -> None:
    """A host that left nothing leaves no folder; one that left a file keeps it."""
    home.folders(KEY)
    home.leave(KEY, is_saved=True)
    assert list((tmp_path / "work").iterdir()) == []
    Path(home.folders(KEY).code, "file").touch()
    home.leave(KEY, is_saved=True)
    assert Path(home.folders(KEY).code, "file").exists()
    home.leave("never/was/a1-n/r0/h0", is_saved=True)


def test_old_folders_are_cleaned_and_living_ones_spared(home: FolderHome, tmp_path: Path) -> None:
    """Age counts from the end of the host; folders of running hosts are never deleted."""
    other = KEY.replace("r0", "r1")
    young = KEY.replace("r0", "r2")
    for key in (KEY, other, young):
        folders = home.folders(key)
        Path(folders.code, "file").touch()
        os.utime(folders.marks, (1000, 1000))
    home.leave(young, is_saved=True)
    home.clean(ended=2000.0, needed=0.0, taken=0.0, spared=frozenset({KEY}))
    left = {path.name for path in (tmp_path / "work").iterdir()}
    assert left == {Path(home.folders(key).marks).name for key in (KEY, young)}


def test_a_disk_with_little_room_gets_it_from_what_ended_first(tmp_path: Path) -> None:
    """The oldest folders are deleted until there is room; recent and running ones stay."""
    keys = [KEY.replace("r0", f"r{number}") for number in range(5)]
    lacks = iter([True, True, False])
    home = FolderHome(tmp_path, has_little_room=lambda _: next(lacks))
    for age, key in enumerate(keys):
        folders = home.folders(key)
        Path(folders.code, "checkpoint").touch()
        os.utime(folders.marks, (1000 + age, 1000 + age))
    home.clean(ended=0.0, needed=1004.0, taken=0.0, spared=frozenset({keys[0]}))
    left = {path.name for path in (tmp_path / "work").iterdir()}
    assert left == {Path(home.named(keys[each]).marks).name for each in (0, 3, 4)}


def test_a_full_disk_keeps_of_what_ended_only_what_is_not_saved(tmp_path: Path) -> None:
    """A job that filled the disk does not close its machine: its output is in the bucket."""
    keys = [KEY.replace("r0", f"r{number}") for number in range(5)]
    full = iter(["full", "full", ""])
    home = FolderHome(tmp_path, has_little_room=lambda _: True, disk_trouble=lambda _: next(full))
    for age, key in enumerate(keys):
        folders = home.folders(key)
        Path(folders.output, "checkpoint").touch()
        home.leave(key, is_saved=age != 1)
        os.utime(folders.marks, (1000 + age, 1000 + age))
    home.clean(ended=0.0, needed=0.0, taken=0.0, spared=frozenset({keys[0]}))
    left = {path.name for path in (tmp_path / "work").iterdir()}
    assert left == {Path(home.named(keys[each]).marks).name for each in (0, 1, 4)}


def test_a_pipe_in_place_of_a_folder_does_not_block_the_agent(
    home: FolderHome, tmp_path: Path
) -> None:
    """A job that replaces its secrets with a pipe is forgotten and cleaned like any other."""
    folders = home.folders(KEY)
    os.mkfifo(folders.secrets)
    home.forget_secrets(KEY)
    assert not Path(folders.secrets).exists()
    os.mkfifo(f"{folders.marks}/pipe")
    home.clean(ended=float("inf"), needed=0.0, taken=0.0, spared=frozenset())
    assert not Path(folders.marks).exists()
