"""Which files go into a bundle, and all errors if some cannot."""

from __future__ import annotations

import os
import re
import signal
import socket
import tempfile
from collections.abc import Callable
from pathlib import Path
from select import select as select_ready
from typing import Any

import pytest

from bundler.bundle.select import select
from bundler.code import LocalDir
from bundler.errors import BundleError, InvalidCodeError
from bundler.root import find_root
from bundler.suspect import looks_secret
from tests.rigs import trees
from tests.rigs.limits import PATIENCE_S


def _in_a_process_without_root(work: Callable[[], object]) -> str:
    """Return the error of `work` in a process that is not root, which can read everything."""
    reader, writer = os.pipe()
    child = os.fork()
    if not child:
        try:
            if os.geteuid() == 0:
                os.setresuid(65534, 65534, 65534)
            work()
        except BundleError as error:
            os.write(writer, error.message.encode())
        finally:
            os._exit(0)
    os.close(writer)
    with os.fdopen(reader) as said:
        is_told, _, _ = select_ready([said], [], [], PATIENCE_S)
        if not is_told:
            os.kill(child, signal.SIGKILL)
        message = said.read()
    os.waitpid(child, 0)
    assert is_told
    return message


def paths(top: Path, **fields: Any) -> list[str]:
    """Return what is selected of `top`."""
    code = LocalDir(str(top), **fields)
    return [one.path for one in select(code, start=top).found]


def test_the_root_is_found_upward(tmp_path: Path) -> None:
    """The nearest folder with a marker is the root, from any depth."""
    trees.write(tmp_path, {"requirements.txt": "", "pkg/pyproject.toml": "", "pkg/a/b/c.py": ""})
    assert find_root(tmp_path / "pkg/a/b") == tmp_path / "pkg"
    assert select(LocalDir(), start=tmp_path / "pkg/a").root == tmp_path / "pkg"


def test_a_job_that_submits_jobs_sends_its_own_code(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It does not send a repository around the folders of its machine."""
    code = tmp_path / "machines/work/code"
    trees.write(tmp_path, {".git/HEAD": "", "machines/work/code/pkg/a.py": "", ".gitignore": "*"})
    monkeypatch.setenv("BASTION_MARKS_DIR", str(code.parent))
    selection = select(LocalDir(), start=code / "pkg")
    assert (selection.root, selection.warnings) == (code, ())
    assert [one.path for one in selection.found] == ["pkg/a.py"]


def test_where_nothing_marks_a_root_it_is_told_how_one_is_named(tmp_path: Path) -> None:
    """The words of the command line are included: most users see this at `bastion bundle`."""
    with pytest.raises(BundleError) as missing:
        find_root(tmp_path)
    assert "bastion bundle FOLDER, --code=FOLDER, LocalDir(FOLDER)" in missing.value.hint


def test_a_root_that_is_not_a_folder_is_told(tmp_path: Path) -> None:
    """A root that does not exist, or is a file, is a wrong value of the field."""
    (tmp_path / "train.py").touch()
    with pytest.raises(InvalidCodeError) as nowhere:
        select(LocalDir("nowhere"), start=tmp_path)
    assert re.fullmatch(r"root: '.*nowhere' is not .*: nothing is there", str(nowhere.value))
    with pytest.raises(InvalidCodeError) as a_file:
        select(LocalDir("train.py"), start=tmp_path)
    assert re.fullmatch(r"root: '.*train.py' is not .*: it is a file", str(a_file.value))


def test_git_itself_never_goes_in(tmp_path: Path) -> None:
    """Neither `.git` folders nor the `.git` files of worktrees and submodules are selected."""
    trees.write(tmp_path, {".git/config": "", "sub/.git": "gitdir: x", "sub/a.py": ""})
    assert paths(tmp_path) == ["sub/a.py"]


def test_bastionignore_outranks_gitignore(tmp_path: Path) -> None:
    """A line in `.bastionignore` leaves out more, or keeps what git ignores."""
    trees.write(
        tmp_path,
        {
            ".gitignore": "*.so\nbuild/\n",
            "fast/.bastionignore": "!*.so\nnotes.md\n",
            "fast/x.so": "",
            "fast/notes.md": "",
            "y.so": "",
            "build/z": "",
        },
    )
    assert paths(tmp_path) == [".gitignore", "fast/.bastionignore", "fast/x.so"]


def test_exclude_outranks_every_file(tmp_path: Path) -> None:
    """Patterns of the call take precedence, and are relative to the root."""
    trees.write(tmp_path, {".bastionignore": "!data/\n", "data/x": "", "a/data/y": "", "b.py": ""})
    assert paths(tmp_path, exclude=["/data/"]) == [".bastionignore", "a/data/y", "b.py"]


def test_what_running_writes_stays_out(tmp_path: Path) -> None:
    """Python's own caches do not change a bundle, with or without a `.gitignore`."""
    trees.write(tmp_path, {"a.py": "", "__pycache__/a.cpython-311.pyc": ""})
    assert paths(tmp_path) == ["a.py"]


def test_kinds_and_modes_are_kept(tmp_path: Path) -> None:
    """Executables, links and empty folders keep their kinds."""
    trees.write(tmp_path, {"run.sh": "#!", "src/a.py": "a", "out/": ""})
    (tmp_path / "run.sh").chmod(0o755)
    (tmp_path / "src/link").symlink_to("./../run.sh")
    (tmp_path / "dirlink").symlink_to("src")
    found = {one.path: one for one in select(LocalDir(str(tmp_path)), start=tmp_path).found}
    assert found["run.sh"].executable
    assert not found["src/a.py"].executable
    assert (found["src/link"].kind, found["src/link"].target) == ("link", "./../run.sh")
    assert found["dirlink"].kind == "link"
    assert found["out"].kind == "dir"
    assert "dirlink/a.py" not in found


def test_links_that_leave_the_tree_are_all_named(tmp_path: Path) -> None:
    """Links out of the tree are refused, all of them by name."""
    trees.write(tmp_path, {"a/b.py": ""})
    (tmp_path / "data").symlink_to("/mnt/data")
    (tmp_path / "a/up").symlink_to("../../other")
    with pytest.raises(BundleError, match=r"a/up -> ../../other, data -> /mnt/data") as caught:
        paths(tmp_path)
    assert ".bastionignore" in caught.value.hint


def test_a_virtual_environment_is_left_out_and_told(tmp_path: Path) -> None:
    """Its Python is a link out of the tree: without a .gitignore, it would block every launch."""
    trees.write(tmp_path, {"train.py": "", "a/venv/pyvenv.cfg": "", "a/venv/lib/x.py": ""})
    (tmp_path / "a/venv/bin").mkdir()
    (tmp_path / "a/venv/bin/python3").symlink_to("/usr/bin/python3")
    (tmp_path / "a/venv/bin/python").symlink_to("python3")
    code = LocalDir(str(tmp_path))
    selection = select(code, start=tmp_path)
    assert [one.path for one in selection.found] == ["train.py"]
    (told,) = selection.warnings
    assert told.startswith("a/venv/ is left out: it is a Python environment of this machine")
    (tmp_path / ".bastionignore").write_text("!venv/\n")
    with pytest.raises(BundleError, match="a/venv/bin/python3 -> /usr/bin/python3"):
        select(code, start=tmp_path)
    (tmp_path / "a/venv/bin/python3").unlink()  # a copy is sent, like any other program
    assert "a/venv/lib/x.py" in paths(tmp_path)


def test_names_that_are_not_text_are_told(tmp_path: Path) -> None:
    """A name that is not UTF-8 is refused and shown in a printable form."""
    (tmp_path / os.fsdecode(b"bad\xff")).write_bytes(b"")
    with pytest.raises(BundleError, match=r"not UTF-8: bad\\udcff"):
        paths(tmp_path)


def test_unreadable_files_are_all_named() -> None:
    """Files and folders that cannot be read are reported together."""
    with tempfile.TemporaryDirectory() as folder:
        top = trees.write(Path(folder) / "top", {"a": "", "b": "", "c/d": "", "e": ""})
        Path(folder).chmod(0o755)
        for name in ("a", "b", "c"):
            (top / name).chmod(0)
        said = _in_a_process_without_root(lambda: paths(top))
    assert "cannot be read: a, b, c/" in said
    assert "e" not in said.partition("cannot be read:")[2].split(",")[-1]


def test_a_folder_that_may_be_read_and_not_searched_is_named() -> None:
    """Its files and links are reported with the others that cannot be read."""
    with tempfile.TemporaryDirectory() as made:
        top = Path(made)
        top.chmod(0o755)
        trees.write(top, {"pyproject.toml": "", "d/f": ""})
        (top / "d/l").symlink_to("f")
        (top / "d").chmod(0o744)
        told = _in_a_process_without_root(lambda: select(LocalDir(made), start=top))
        (top / "d").chmod(0o755)
    assert told == f"in {top}: cannot be read: d/f, d/l"


def test_sockets_and_pipes_are_left_out_with_a_warning(tmp_path: Path) -> None:
    """Special files are not read and cause a warning; no name of one reaches a terminal raw."""
    trees.write(tmp_path, {"a": ""})
    os.mkfifo(tmp_path / "pipe")
    os.mkfifo(tmp_path / "\x1b[2J")
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(tmp_path / "sock"))
        selection = select(LocalDir(str(tmp_path)), start=tmp_path)
    assert [one.path for one in selection.found] == ["a"]
    assert {warning.split()[0] for warning in selection.warnings} == {"pipe", "sock", r"'\x1b[2J'"}


def test_a_pipe_named_like_a_list_of_what_to_ignore_is_not_read(tmp_path: Path) -> None:
    """Reading it would wait forever for what writes to it."""
    trees.write(tmp_path, {"a": ""})
    for name in (".gitignore", ".bastionignore"):
        os.mkfifo(tmp_path / name)
    selection = select(LocalDir(str(tmp_path)), start=tmp_path)
    assert [one.path for one in selection.found] == ["a"]
    assert len(selection.warnings) == 2


def test_too_much_names_the_largest(tmp_path: Path) -> None:
    """A tree above the limit is refused with its largest files and folders."""
    trees.write(tmp_path, {"data/big.bin": bytes(5000), "data/mid": bytes(900), "small.py": "x"})
    with pytest.raises(BundleError) as caught:
        paths(tmp_path, max_size="4KiB")
    assert "data/big.bin (4.9 KiB), data/mid (900 B)" in caught.value.message
    assert "data/ (5.8 KiB)" in caught.value.message
    assert "more than max_size 4.0 KiB" in caught.value.message
    assert "--bundler_spec=max_size=2GiB" in caught.value.hint


def test_likely_secrets_are_warned_about(tmp_path: Path) -> None:
    """Files named like secrets are selected, and named in one warning."""
    trees.write(tmp_path, {".env": "", "keys/id_rsa": "", "a.py": "", ".env.example": ""})
    (warning,) = select(LocalDir(str(tmp_path)), start=tmp_path).warnings
    assert warning.endswith(": .env, keys/id_rsa; to leave them out, name them in .bastionignore")


def test_pointers_of_git_lfs_are_warned_about(tmp_path: Path) -> None:
    """A pointer to a large file that was never fetched is named; code is not."""
    pointer = f"version https://git-lfs.github.com/spec/v1\noid sha256:{'a' * 64}\nsize 9000000\n"
    trees.write(
        tmp_path, {"weights/a.bin": pointer, "b.py": f"x = {pointer!r}", "c.py": pointer[:43]}
    )
    (warning,) = select(LocalDir(str(tmp_path)), start=tmp_path).warnings
    assert "without the data: weights/a.bin; `git lfs pull`" in warning


def test_submodules_that_were_never_fetched_are_warned_about(tmp_path: Path) -> None:
    """A clone without them has empty folders in their place; other empty folders are meant."""
    modules = '[submodule "lib"]\n\tpath = third party/lib\n\turl = https://h/x\n'
    trees.write(tmp_path, {".gitmodules": modules + "\tpath = here\n", "here/a.py": ""})
    (tmp_path / "third party/lib").mkdir(parents=True)
    (tmp_path / "outputs").mkdir()
    (warning,) = select(LocalDir(str(tmp_path)), start=tmp_path).warnings
    assert "in place of a submodule: third party/lib; `git submodule update --init`" in warning


@pytest.mark.parametrize(
    "name",
    [".env", ".env.local", "id_ed25519", "server.pem", "credentials.json", "gcp-credentials.json",
     "service-account.json", "client_secret_123.json", ".netrc", "secrets.yaml", "private_key.txt",
     "server.key", "prod.env", ".envrc", "kaggle.json", ".s3cfg", ".vault-token", "hf_token.txt",
     "main.tfstate"],
)  # fmt: skip
def test_names_of_secrets(name: str) -> None:
    """Common names of secrets are known."""
    assert looks_secret(name)


@pytest.mark.parametrize(
    "name",
    ["env.py", "id_rsa.pub", "tokenizer.json", "credentials.py", "token.py", "added_tokens.json",
     "example.env", "main.tf", "keys.txt"],
)  # fmt: skip
def test_names_of_code(name: str) -> None:
    """Code that merely handles secrets raises no warning."""
    assert not looks_secret(name)
