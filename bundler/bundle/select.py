"""
Select the files of a working tree that go into its bundle.

Files that git ignores are left out (`.gitignore` files, nested and above the root), except for
tracked ones. So are virtual environments. A submodule or other repository below the root goes by
its own files and its own list of what is tracked. `.bastionignore` files, nested and above the root
too, and `exclude` override them, and each other, in that order.
`.git` is never included, and links stay links. All problems are reported at once. Only names, modes
and sizes are read, never contents.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath

from bundler.bundle.ignore import Rules, parse_rules
from bundler.bundle.limits import refuse_oversize
from bundler.code import LocalDir
from bundler.errors import BundleError, InvalidCodeError, UnreachableError
from bundler.repository.git import tracked_although_ignored
from bundler.root import find_git_top, find_root
from bundler.suspect import is_pointer, looks_secret, submodules_in
from bundler.tree import Kind, leaves_tree

_ALWAYS_OUT = b"__pycache__/\n*.pyc\n.DS_Store\n"
"""Files that running or viewing a tree writes into it; with them its digest would keep changing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """One file, link or empty folder of the tree, as found on disk."""

    path: str
    """Relative to the root, `/`-separated."""
    kind: Kind
    executable: bool
    target: str
    """Target of a link; empty for the rest."""
    size: int
    """Bytes of a file; 0 for the rest."""
    stamp: tuple[int, ...]
    """Device, inode, size, changed and modified times: equal stamps mean an unchanged file."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """A working tree that will be bundled."""

    root: Path
    found: tuple[Found, ...]
    """Sorted by path."""
    warnings: tuple[str, ...]
    """Warnings to the user, one line each, shown by the caller."""

    @property
    def size_bytes(self) -> int:
        """The total size of its files."""
        return sum(found.size for found in self.found)


def select(code: LocalDir, *, start: Path) -> Selection:
    """
    Return the files of `code`, as they are now.

    `start` is the folder of the submission: the root is searched upward from it unless `code` names
    one, and a relative one is relative to it.

    Raises:
        InvalidCodeError: The root that `code` names is not a folder.
        BundleError: No root; unreadable files, names that are not UTF-8, links that leave the tree
            (each kind all at once); more than `max_size`, with the largest named.
    """
    root = root_of(code, start=start)
    if not root.is_dir():
        what = "it is a file" if root.exists() else "nothing is there"
        raise InvalidCodeError(
            f"root: {str(root)!r} is not a folder: {what}", hint="name the top folder of your code"
        )
    walk = _Walk(root, code.exclude)
    walk.folder("", walk.rules_above())
    walk.refuse_wrong()
    found = tuple(sorted(walk.found, key=lambda one: one.path))
    refuse_oversize(
        [(one.path, one.size) for one in found], root=root, limit_bytes=code.max_size_bytes
    )
    return Selection(root=root, found=found, warnings=(*walk.warnings, *_warnings(root, found)))


def root_of(code: LocalDir, *, start: Path) -> Path:
    """
    Return the top of the tree of `code`, whether or not it exists; `start` as in `select`.

    Raises:
        BundleError: `code` names none, and none is found.
    """
    if not code.root:
        return find_root(start)
    # Unlike that of `Path`, it leaves the name of a user who does not exist as it is.
    return (start / os.path.expanduser(code.root)).resolve()  # noqa: PTH111


def stamp_of(status: os.stat_result) -> tuple[int, ...]:
    """Return the fields of a file's status that change with its content."""
    return (
        status.st_dev,
        status.st_ino,
        status.st_size,
        status.st_mtime_ns,
        status.st_ctime_ns,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Layers:
    """The rules in force in one folder; in each layer the last matching rule wins."""

    git: tuple[Rules, ...]
    own: tuple[Rules, ...]
    only_tracked: bool = False
    """Whether the folder is ignored by git and entered only for its tracked files."""


class _Walk:
    """One walk through a tree: its entries, and all problems on the way."""

    def __init__(self, root: Path, exclude: Sequence[str]) -> None:
        self.root = root
        self.found: list[Found] = []
        self.warnings: list[str] = []
        self.unreadable: list[str] = []
        self.unnameable: list[str] = []
        self.leaving: list[str] = []
        self._exclude = parse_rules("\n".join(exclude).encode())
        self._tracked: set[str] = set()

    def rules_above(self) -> _Layers:
        """Return the rules above the root: what is always out, and the files there."""
        git, own = [parse_rules(_ALWAYS_OUT)], list[Rules]()
        top = find_git_top(self.root)
        if top:
            self._rescue_tracked("")
            inner = self.root.relative_to(top).parts
            for depth in range(len(inner)):
                above = "/".join(inner[depth:]) + "/"
                for name, rules in ((".gitignore", git), (".bastionignore", own)):
                    if text := _read(top.joinpath(*inner[:depth], name)):
                        rules.append(parse_rules(text, above=above.encode()))
        return _Layers(git=tuple(git), own=tuple(own))

    def _rescue_tracked(self, path: str) -> bool:
        """
        Note what the repository of the folder `path` tracks although it ignores it.

        Return whether git could tell; else a warning says that it could not.
        """
        try:
            tracked = tracked_although_ignored(self.root / path)
        except UnreachableError:
            raise
        except BundleError as error:
            why = f"files that git tracks despite a .gitignore are left out: {error.message}"
            if why not in self.warnings:
                self.warnings.append(why)
            return False
        self._tracked |= _with_folders([path + name for name in tracked])
        return True

    def folder(self, path: str, layers: _Layers) -> None:
        """Walk the folder `path` (empty, or ending in `/`)."""
        try:
            with os.scandir(self.root / path) as entries:
                inside = list(entries)
        except PermissionError:
            self.unreadable.append(path or ".")
            return
        except (FileNotFoundError, NotADirectoryError):  # Gone since its name was read.
            return
        if path and self._is_virtual_environment(path, inside, layers):
            self.warnings.append(
                f"{_some([path])} is left out: it is a Python environment of this machine; with a"
                " lock file (--python_env, PythonEnv) each machine builds its own"
            )
            return
        layers = self._with_files_of(path, inside, layers)
        for entry in inside:
            self._entry(path, entry, layers)
        if path and not inside:
            self._add(path.rstrip("/"), "dir")

    def refuse_wrong(self) -> None:
        """
        Raise if there were problems.

        Raises:
            BundleError: There were: all of them.
        """
        problems = [
            f"{what}: {_some(sorted(names))}"
            for what, names in (
                ("cannot be read", self.unreadable),
                ("names that are not UTF-8", self.unnameable),
                ("links that leave the tree", self.leaving),
            )
            if names
        ]
        if problems:
            raise BundleError(
                f"in {self.root}: {'; '.join(problems)}",
                hint="fix them, or leave them out by a line in .bastionignore",
            )

    def _is_virtual_environment(
        self, path: str, inside: Sequence[os.DirEntry[str]], layers: _Layers
    ) -> bool:
        """Whether no rule names it, and its Python is a link that would be refused."""
        if layers.only_tracked or not any(entry.name == "pyvenv.cfg" for entry in inside):
            return False
        whole = path.rstrip("/")
        name = whole.rpartition("/")[2]
        if _verdict((*layers.own, self._exclude), whole, name, is_folder=True) is not None:
            return False
        programs = (self.root / path / "bin").glob("python*")
        return any(each.is_symlink() and each.readlink().is_absolute() for each in programs)

    def _with_files_of(
        self, path: str, inside: Sequence[os.DirEntry[str]], layers: _Layers
    ) -> _Layers:
        names = {entry.name for entry in inside}
        # In a repository of its own no rule of git's above counts. What only looks like one, as a
        # copied submodule, keeps them: they may name secrets.
        if path and ".git" in names and self._rescue_tracked(path):
            layers = _Layers(git=(parse_rules(_ALWAYS_OUT),), own=layers.own)
        git, own = layers.git, layers.own
        below = len(os.fsencode(path))
        if ".gitignore" in names and (text := _read(self.root / path / ".gitignore")):
            git = (*git, parse_rules(text, below=below))
        if ".bastionignore" in names and (text := _read(self.root / path / ".bastionignore")):
            own = (*own, parse_rules(text, below=below))
        return replace(layers, git=git, own=own)

    def _entry(self, folder: str, entry: os.DirEntry[str], layers: _Layers) -> None:
        path = folder + entry.name
        is_folder = entry.is_dir(follow_symlinks=False)
        ignored_by_git = False
        ignored = _verdict((*layers.own, self._exclude), path, entry.name, is_folder=is_folder)
        if ignored is None:
            ignored_by_git = layers.only_tracked or bool(
                _verdict(layers.git, path, entry.name, is_folder=is_folder)
            )
            ignored = ignored_by_git and path not in self._tracked
        if ignored or entry.name == ".git":
            return
        if not entry.name.isprintable() and not _is_utf8(path):
            self.unnameable.append(path.encode(errors="backslashreplace").decode())
        elif is_folder:
            self.folder(path + "/", replace(layers, only_tracked=ignored_by_git))
        elif entry.is_symlink():
            self._link(path)
        elif entry.is_file(follow_symlinks=False):
            self._file(path, entry)
        else:
            self.warnings.append(f"{_some([path])} is left out: a socket, pipe or device")

    def _link(self, path: str) -> None:
        try:
            target = os.readlink(self.root / path)  # noqa: PTH115  (Path would tidy the target)
        except PermissionError:  # of its folder, which may be read and not searched
            self.unreadable.append(path)
            return
        except OSError:  # Gone since the folder was read.
            return
        if not _is_utf8(target):
            self.unnameable.append(path)
        elif leaves_tree(path, target):
            self.leaving.append(f"{path} -> {target}")
        else:
            self._add(path, "link", target=target)

    def _file(self, path: str, entry: os.DirEntry[str]) -> None:
        try:
            status = entry.stat(follow_symlinks=False)
        except FileNotFoundError:
            return
        except PermissionError:
            self.unreadable.append(path)
            return
        if not os.access(entry.path, os.R_OK):
            self.unreadable.append(path)
            return
        executable = bool(status.st_mode & stat.S_IXUSR)
        self._add(path, "file", executable=executable, size=status.st_size, stamp=stamp_of(status))

    def _add(
        self,
        path: str,
        kind: Kind,
        *,
        executable: bool = False,
        target: str = "",
        size: int = 0,
        stamp: tuple[int, ...] = (),
    ) -> None:
        self.found.append(
            Found(
                path=path, kind=kind, executable=executable, target=target, size=size, stamp=stamp
            )
        )


def _verdict(rules: Sequence[Rules], path: str, name: str, *, is_folder: bool) -> bool | None:
    """Return the verdict of the last matching rule: ignored, kept, or None."""
    raw, raw_name = os.fsencode(path), os.fsencode(name)
    for one in reversed(rules):
        verdict = one.verdict(raw, raw_name, is_folder=is_folder)
        if verdict is not None:
            return verdict
    return None


def _warnings(root: Path, found: Sequence[Found]) -> Iterator[str]:
    secrets = [one.path for one in found if looks_secret(one.path.rpartition("/")[2])]
    if secrets:
        yield (
            f"may hold secrets, and will be readable by all who can read the bucket: "
            f"{_some(secrets)}; to leave them out, name them in .bastionignore"
        )
    files = [one for one in found if one.kind == "file"]
    if pointers := [one.path for one in files if is_pointer(root / one.path, one.size)]:
        yield (
            f"only a pointer of Git LFS, without the data: {_some(pointers)}; "
            f"`git lfs pull` fetches the data"
        )
    if unfetched := _empty_submodules(root, found):
        yield (
            f"only an empty folder, in place of a submodule: {_some(unfetched)}; "
            f"`git submodule update --init` fetches it"
        )
    if not files:
        yield "no file is selected: the bundle is empty"


def _empty_submodules(root: Path, found: Sequence[Found]) -> list[str]:
    """Return the folders of submodules that were never fetched."""
    empty = {one.path for one in found if one.kind == "dir"}
    lists = [one.path for one in found if one.path.rpartition("/")[2] == ".gitmodules"]
    named = (
        str(PurePosixPath(path).parent / folder)
        for path in lists
        for folder in submodules_in(root / path)
    )
    return [folder for folder in named if folder in empty]


def _with_folders(paths: Sequence[str]) -> set[str]:
    """Return `paths`, and every folder above them."""
    folders = {str(parent) for path in paths for parent in PurePosixPath(path).parents}
    return {*paths, *folders}


def _read(path: Path) -> bytes:
    try:
        is_file = stat.S_ISREG(path.stat().st_mode)
        return path.read_bytes() if is_file else b""  # Reading a pipe would wait for a writer.
    except (FileNotFoundError, PermissionError):
        return b""  # One that cannot be read is named when the walk comes to it as a file.


def _is_utf8(name: str) -> bool:
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True


def _some(names: Sequence[str], *, most: int = 20) -> str:
    more = f" and {len(names) - most} more" if len(names) > most else ""
    shown = (name if name.isprintable() else repr(name) for name in names[:most])
    return ", ".join(shown) + more
