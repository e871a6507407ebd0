"""The files left out are those that git leaves out."""

from __future__ import annotations

import os
import subprocess
import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bundler.bundle.ignore import parse_rules
from bundler.bundle.select import select
from bundler.code import LocalDir
from tests.rigs import trees

_PARTS = st.sampled_from(["a", "b", "ab", "a.py", "b.txt", ".x", "a b", "A", "é"])
_PATHS = st.lists(_PARTS, min_size=1, max_size=4).map("/".join)
_PIECES = st.sampled_from(
    ["a", "b", "*", "**", "?", "/", "/", "!", "[ab]", "[!a]", "[^b-z]", "[[:alpha:]]", "[]a]",
     "\\", ".py", ".", " ", "#", "[", "[a", "***", "[a-]", "[[:nope:]]", "é", "[z-a]", "\\!"]
)  # fmt: skip
_PATTERNS = st.lists(_PIECES, min_size=1, max_size=5).map("".join)


def git(folder: Path, *arguments: str) -> str:
    """Return git's output in `folder`, without any of the user's settings."""
    home = {"HOME": "/nowhere", "GIT_CONFIG_NOSYSTEM": "1", "PATH": os.environ["PATH"]}
    done = subprocess.run(
        ["git", "-c", "init.defaultBranch=main", *arguments],
        cwd=folder, env=home, check=True, capture_output=True,
    )  # fmt: skip
    return done.stdout.decode()


def kept_by_git(top: Path) -> set[str]:
    """Return the files of `top` that git would track."""
    listed = git(
        top, "ls-files", "-z", "--cached", "--others", "--exclude-per-directory=.gitignore"
    )
    return {name for name in listed.split("\0") if name}


def kept_by_us(top: Path) -> set[str]:
    """Return the files that we select."""
    found = select(LocalDir(str(top)), start=top).found
    return {one.path for one in found if one.kind == "file"}


def assert_same_as_git(top: Path) -> None:
    """Compare our selection with git's."""
    assert kept_by_us(top) == kept_by_git(top)


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """Return an empty repository."""
    git(tmp_path, "init", "-q")
    return tmp_path


def write_some(top: Path, paths: list[str], ignores: dict[str, list[str]]) -> None:
    """Write those of `paths` and ignore files that can exist together."""
    for path in paths:
        try:
            trees.write(top, {path: "x"})
        except OSError:
            continue  # A file is where this path wants a folder.
    for folder, lines in ignores.items():
        if (top / folder).is_dir():
            trees.write(top, {f"{folder}/.gitignore": "\n".join(lines)})


@settings(max_examples=30)
@given(
    paths=st.lists(_PATHS, min_size=1, max_size=12),
    ignores=st.dictionaries(
        st.sampled_from([".", "a", "a/b", "b"]), st.lists(_PATTERNS, max_size=5), max_size=3
    ),
)
def test_random_patterns_on_random_trees(paths: list[str], ignores: dict[str, list[str]]) -> None:
    """For any patterns in any folders, we keep the files that git would track."""
    with tempfile.TemporaryDirectory() as folder:
        top = Path(folder)
        git(top, "init", "-q")
        write_some(top, paths, ignores)
        assert_same_as_git(top)


@pytest.mark.parametrize(
    "lines",
    [
        "*\n!*/\n!*.py",
        "/*\n!/src",
        "build/\n!build/keep.txt",
        "a/**\n!a/b/",
        "**/cache",
        "src/**/gen",
        "*.log\n!important.log\n",
        "doc/*.txt",
        "trail   \nkeep\\ ",
        "crlf.txt\r\nb\r\n",
        "\\#note\n\\!bang",
        "\ufeffbom.txt",
        "link/",
    ],
)
def test_known_traps(repository: Path, lines: str) -> None:
    """Each trap in the manual is decided as git decides it."""
    trees.write(
        repository,
        {
            ".gitignore": lines, "a/b/c.py": "", "a/x": "", "src/m.py": "", "src/one/gen/f": "",
            "src/gen/f": "", "build/keep.txt": "", "x/cache/f": "", "cache": "", "run.log": "",
            "important.log": "", "doc/a.txt": "", "doc/deep/a.txt": "", "trail": "", "keep ": "",
            "crlf.txt": "", "b": "", "#note": "", "!bang": "", "bom.txt": "", "top.py": "",
        },
    )  # fmt: skip
    (repository / "link").symlink_to("src")
    listed = kept_by_git(repository) - {"link"}
    assert kept_by_us(repository) == listed


def test_files_that_git_tracks_are_kept(repository: Path) -> None:
    """A file that was added with force is part of the tree, though its folder is ignored."""
    trees.write(repository, {".gitignore": "data/\n", "data/words.txt": "w", "data/big.bin": "b"})
    git(repository, "add", "-f", "data/words.txt")
    assert kept_by_us(repository) == {".gitignore", "data/words.txt"}


def test_our_own_files_above_the_root_count(repository: Path) -> None:
    """What the top of a repository leaves out is left out of a package in it, and may be kept."""
    trees.write(
        repository,
        {
            ".gitignore": "*.so\n",
            ".bastionignore": "secrets/\n!/pkg/fast.so\n",
            "pkg/pyproject.toml": "",
            "pkg/fast.so": "",
            "pkg/slow.so": "",
            "pkg/secrets/key": "",
        },
    )
    found = select(LocalDir(), start=repository / "pkg").found
    assert [one.path for one in found] == ["fast.so", "pyproject.toml"]


def test_files_above_the_root_count(repository: Path) -> None:
    """The root may be inside a repository, whose own ignore files still apply."""
    trees.write(
        repository,
        {
            ".gitignore": "*.ckpt\n/code/local\n",
            "code/.gitignore": "!keep.ckpt\n",
            "code/train/keep.ckpt": "",
            "code/train/x.ckpt": "",
            "code/local": "",
        },
    )
    assert kept_by_us(repository / "code") == {".gitignore", "train/keep.ckpt"}


def test_a_repository_below_goes_by_its_own_rules(repository: Path) -> None:
    """Rules of the outer repository do not count in it, and what it tracks is kept."""
    trees.write(
        repository,
        {
            ".gitignore": "build/\n*.log\n",
            "a.log": "",
            "vendor/.gitignore": "*.bin\n",
            "vendor/build/rules.py": "",
            "vendor/w.bin": "",
            "vendor/deep/x.bin": "",
            "vendor/deep/build/y.log": "",
        },
    )
    git(repository / "vendor", "init", "-q")
    git(repository / "vendor", "add", "-f", "w.bin", "build")
    assert kept_by_us(repository / "vendor") == kept_by_git(repository / "vendor")
    assert kept_by_us(repository) == {".gitignore"} | {
        f"vendor/{name}" for name in kept_by_git(repository / "vendor")
    }


def test_a_repository_that_git_cannot_list_is_warned_about(repository: Path) -> None:
    """If git cannot say what it tracks, tracked files are not left out silently."""
    trees.write(repository, {".gitignore": "*.bin\n", "w.bin": "", "a.py": ""})
    git(repository, "add", "-f", ".")
    git(repository, "config", "core.repositoryformatversion", "1")
    git(repository, "config", "extensions.futureformat", "true")
    selected = select(LocalDir(str(repository)), start=repository)
    assert [one.path for one in selected.found] == [".gitignore", "a.py"]
    (warning,) = selected.warnings
    assert warning.startswith("files that git tracks despite a .gitignore are left out: git cannot")
    assert "futureformat" in warning


def test_a_broken_repository_keeps_the_rules_around_it(repository: Path) -> None:
    """A copied submodule names a missing repository: ignored files may be secret."""
    trees.write(
        repository,
        {
            ".gitignore": "*.key\n",
            "sub/.git": "gitdir: /nowhere\n",
            "sub/a.py": "",
            "sub/b.key": "",
        },
    )
    selected = select(LocalDir(str(repository)), start=repository)
    assert [one.path for one in selected.found] == [".gitignore", "sub/a.py"]
    assert len(selected.warnings) == 1


def test_a_machine_without_git_is_warned_about(
    repository: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without an installed git, the warning is the same."""
    trees.write(repository, {".gitignore": "*.bin\n", "a.py": ""})
    monkeypatch.setenv("PATH", str(repository))
    assert select(LocalDir(str(repository)), start=repository).warnings == (
        "files that git tracks despite a .gitignore are left out: no git on this machine",
    )


def test_a_path_that_no_line_matches_is_neither_ignored_nor_kept() -> None:
    """A path that no line matches is neither ignored nor kept."""
    rules = parse_rules(b"*.pyc\n!keep.pyc\n")
    assert rules.verdict(b"a/x.py", b"x.py", is_folder=False) is None
    assert rules.verdict(b"a/x.pyc", b"x.pyc", is_folder=False) is True
    assert rules.verdict(b"a/keep.pyc", b"keep.pyc", is_folder=False) is False
