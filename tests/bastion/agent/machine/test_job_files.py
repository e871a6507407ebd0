"""What a job may have put in the place of a file, and how that is handled."""

from __future__ import annotations

import os
import socket
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from bastion.agent.machine.job_files import (
    MAX_DEPTH,
    MAX_NAMES,
    TooManyNamesError,
    create_file,
    files_below,
    is_empty,
    names_in,
    read_end,
    read_start,
    remove,
    replace_file,
    touched_at,
)


def pipe(path: Path) -> None:
    """Make a pipe, on which a plain open waits forever."""
    os.mkfifo(path)


def link(path: Path) -> None:
    """Make a link to a file that the job could not read itself."""
    secret = path.parent.parent / "secret"
    secret.write_bytes(b"secret\n")
    path.symlink_to(secret)


def endless(path: Path) -> None:
    """Make a link to an endless file."""
    path.symlink_to("/dev/zero")


def loop(path: Path) -> None:
    """Make a link to itself."""
    path.symlink_to(path)


def folder(path: Path) -> None:
    """Make a folder."""
    path.mkdir()


def listening(path: Path) -> None:
    """Make a socket."""
    with socket.socket(socket.AF_UNIX) as server:
        before = Path.cwd()
        os.chdir(path.parent)
        server.bind(path.name)
        os.chdir(before)


ODD: list[Callable[[Path], None]] = [pipe, link, endless, loop, folder, listening]


def descriptors() -> int:
    """Return how many descriptors this process has open."""
    return len(list(Path("/proc/self/fd").iterdir()))


@pytest.fixture
def base(tmp_path: Path) -> Path:
    """Return the folder of a job."""
    made = tmp_path / "base"
    made.mkdir()
    return made


@pytest.mark.parametrize("put", ODD)
def test_what_is_no_plain_file_is_not_there(put: Callable[[Path], None], base: Path) -> None:
    """A pipe, a link, a folder or a socket is neither read nor waited for."""
    put(base / "report")
    for read in (read_start, read_end):
        with pytest.raises(FileNotFoundError):
            read(f"{base}/report", 100)
    assert touched_at(f"{base}/report") is None
    put(base / "other")
    assert list(files_below(str(base))) == []


@pytest.mark.parametrize("put", [pipe, link, endless, loop, listening])
def test_what_stands_in_the_way_is_replaced(put: Callable[[Path], None], base: Path) -> None:
    """A file is written beside what a job put there, and never through it."""
    put(base / "notice")
    put(base / "notice.new")
    replace_file(f"{base}/notice", b"said")
    assert (base / "notice").read_bytes() == b"said"
    assert not (base / "notice").is_symlink()
    if put is link:
        assert (base.parent / "secret").read_bytes() == b"secret\n"


def test_a_folder_in_the_way_is_an_error(base: Path) -> None:
    """What cannot be replaced is reported, and nothing is written elsewhere."""
    (base / "notice.new").mkdir()
    with pytest.raises(OSError, match="directory"):
        replace_file(f"{base}/notice", b"said")


def test_reads_have_a_limit(base: Path) -> None:
    """Only part of a huge file is read, from its start or its end."""
    with (base / "report").open("wb") as file:
        file.truncate(1 << 40)
        file.seek(0, os.SEEK_END)
        file.write(b"end")
    assert read_end(f"{base}/report", 5) == b"\0\0end"
    assert read_start(f"{base}/report", 5) == bytes(5)


def test_a_tree_is_walked_in_order(base: Path) -> None:
    """Plain files have their path, size and mode; links to folders are not followed."""
    (base / "b").mkdir()
    (base / "b" / "one").write_bytes(b"1")
    (base / "a").write_bytes(b"22")
    (base / "a").chmod(0o755)
    (base / "link").symlink_to(base / "b")
    found = [(file.path, file.size, file.executable) for file in files_below(str(base))]
    assert found == [("a", 2, True), ("b/one", 1, False)]


def test_a_folder_that_became_a_link_is_not_walked(base: Path, tmp_path: Path) -> None:
    """If the folder itself is a link, nothing below is seen."""
    (base / "plain").write_bytes(b"1")
    (tmp_path / "output").symlink_to(base)
    assert list(files_below(f"{tmp_path}/output")) == []
    assert names_in(f"{tmp_path}/output") == []
    assert names_in(str(base)) == ["plain"]


def test_a_file_larger_than_its_disk_is_left_out(base: Path) -> None:
    """A sparse file larger than its disk is not read for days."""
    disk = os.statvfs(base)
    with (base / "holes").open("wb") as file:
        try:
            file.truncate(disk.f_blocks * disk.f_frsize + 1)
        except OSError:
            pytest.skip("this file system holds no file that is larger than itself")
    (base / "plain").touch()
    assert [file.path for file in files_below(str(base))] == ["plain"]


def test_folders_too_deep_are_left_out(base: Path) -> None:
    """A tree deeper than any real one cannot use up the descriptors of this process."""
    deepest = base
    for _ in range(MAX_DEPTH - 1):
        deepest = deepest / "d"
        deepest.mkdir()
    (deepest / "seen").touch()
    (deepest / "d").mkdir()
    (deepest / "d" / "unseen").touch()
    before = descriptors()
    assert [Path(file.path).name for file in files_below(str(base))] == ["seen"]
    assert descriptors() == before


def test_names_that_are_no_text_are_left_out(base: Path) -> None:
    """A name that no record can hold does not affect the others."""
    Path(os.fsdecode(os.fsencode(base) + b"/\xff")).touch()
    (base / "good").touch()
    assert [file.path for file in files_below(str(base))] == ["good"]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may give files away")
def test_files_of_third_users_are_left_out(base: Path) -> None:
    """Below another user's folder, only that user's files count: hard links bring in no others."""
    (base / "ours").write_bytes(b"root's")
    (base / "theirs").write_bytes(b"1")
    os.chown(base / "theirs", 65534, 65534)
    os.chown(base, 65534, 65534)
    assert [file.path for file in files_below(str(base))] == ["theirs"]


def test_a_new_file_is_private_where_that_is_asked(base: Path) -> None:
    """The file has this mode from its first moment on."""
    with create_file(f"{base}/secret", mode=0o600) as file:
        file.write(b"x")
    assert (base / "secret").stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("put", ODD)
def test_whatever_lies_there_is_removed_without_waiting(
    base: Path, put: Callable[[Path], None]
) -> None:
    """A pipe, a link, a device or a socket is removed, alone or in a folder, but no link target."""
    kept = base / "kept"
    kept.write_bytes(b"1")
    (base / "folder").mkdir()
    for path in (base / "odd", base / "folder" / "odd"):
        put(path)
    (base / "folder" / "link").symlink_to(kept)
    remove(str(base / "odd"))
    remove(str(base / "folder"))
    remove(str(base / "missing"))
    assert kept.read_bytes() == b"1"
    assert not (base / "folder").exists() and "odd" not in names_in(str(base))


def test_a_tree_deeper_than_the_stack_is_removed(base: Path) -> None:
    """Fifteen hundred nested folders, some of them closed, are all removed."""
    top = base / "deep"
    top.mkdir()
    folder = os.open(top, os.O_RDONLY)
    for depth in range(1_500):
        os.mkdir("d", 0o700, dir_fd=folder)
        below = os.open("d", os.O_RDONLY, dir_fd=folder)
        if depth % 10 == 0:
            os.fchmod(folder, 0o000)
        os.close(folder)
        folder = below
    os.close(folder)
    remove(str(top))
    assert not top.exists()


def test_a_folder_of_more_files_than_are_named_at_once_is_removed(base: Path) -> None:
    """A job may have created millions; the next job needs their room."""
    many = base / "work" / "many"
    many.mkdir(parents=True)
    for number in range(MAX_NAMES + 1):
        os.mknod(many / str(number))
    remove(str(base / "work"))
    assert not (base / "work").exists()


@pytest.mark.parametrize("point", ["work/data", "work"])
def test_what_a_job_has_mounted_is_not_removed(base: Path, point: str) -> None:
    """A mounted folder of this disk or another is kept: all jobs may read it."""
    shared = base / "shared"
    for folder in (shared, base / "work" / "data"):
        folder.mkdir(parents=True)
    (shared / "set").write_bytes(b"data")
    (base / "work" / "own").touch()
    words = ["mount", "--bind", str(shared), str(base / point)]
    if subprocess.run(words, check=False, capture_output=True).returncode:
        pytest.skip("only root may mount a folder here")
    try:
        with pytest.raises(OSError, match=r"busy|not empty"):
            remove(str(base / "work"))
    finally:
        subprocess.run(["umount", str(base / point)], check=True)
    assert (shared / "set").read_bytes() == b"data"
    assert (base / "work" / "own").exists() == (point == "work")
    remove(str(base / "work"))
    assert not (base / "work").exists()


def test_a_tree_of_too_many_files_is_refused(base: Path) -> None:
    """A walk has a limit of files and folders, however they are distributed."""
    for half in ("a", "b"):
        (base / "many" / half).mkdir(parents=True)
        for number in range(50):
            (base / "many" / half / str(number)).touch()
    assert len(list(files_below(str(base / "many"), most_names=102))) == 100
    with pytest.raises(TooManyNamesError, match="more than 101 files and folders"):
        list(files_below(str(base / "many"), most_names=101))


@pytest.mark.parametrize("put", [pipe, link, endless, loop, listening])
def test_what_is_no_folder_counts_as_empty(base: Path, put: Callable[[Path], None]) -> None:
    """Only a folder with something in it is not empty, and nothing is waited for."""
    put(base / "odd")
    (base / "folder").mkdir()
    assert all(is_empty(str(base / name)) for name in ("odd", "folder", "missing"))
    (base / "folder" / "file").touch()
    assert not is_empty(str(base / "folder"))
