"""
The home of an agent on its machine: the folders of its jobs, and two numbers that it keeps.

    <home>/keeper/                 the keeper's own, see `bastion.agent.keeper`
    <home>/numbers/<name>          "<life> <number>": bells reserved, instructions done
    <home>/work/<key>/             BASTION_MARKS_DIR: `checkpointed`, `finished`
    <home>/work/<key>/code         where commands start: the root of the code
    <home>/work/<key>/output       BASTION_OUTPUT_DIR
    <home>/work/<key>/secrets/     secrets that are also files, until it has ended
    <home>/work/<key>/python       link to its Python environment
    <home>/work/<key>/notice.json  BASTION_NOTICE_FILE, once there is one
    <home>/work/<key>/container.json   facts that a container's exit code does not express
    <home>/cache/                  code by digest; Python environments, see `python_env`

Nothing here is synced to disk: after a crash of the whole machine there is a new keeper life, which
uses none of it.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
from collections.abc import Callable, Mapping
from dataclasses import field
from functools import lru_cache
from math import isfinite
from pathlib import Path
from typing import IO, Protocol

from bastion.agent.keeper.socket.request import file_name
from bastion.agent.machine.health import disk_trouble, has_little_room, unwell
from bastion.agent.machine.job_files import (
    is_empty,
    names_in,
    read_end,
    read_start,
    remove,
    replace_file,
    touched_at,
)
from bastion.errors import BastionError
from bastion.value import value


@value
class Folders:
    """The folders of one host's processes."""

    code: str
    output: str
    marks: str
    notice_file: str
    secrets: str
    """A folder; it exists only if there are such files."""
    python: str
    """A link; it exists only if there is such an environment."""


@value
class Marks:
    """The marks left by the processes of a host."""

    checkpointed_at: float | None = None
    """When the checkpoint mark was last touched, by the machine's own clock; None if never."""
    finished: bool = False
    report: Mapping[str, float] = field(default_factory=dict)
    """The last reported numbers."""


@value
class Word:
    """Facts about a host in containers that no exit code expresses."""

    setup_failure: str = ""
    """Why a container never ran, in its engine's words; empty if all ran."""
    lost: str = ""
    """Why a container did not run that may run on another machine; empty if all ran."""
    out_of_memory: bool = False
    """Whether a container was killed by its memory limit."""


class HomeGoneError(BastionError):
    """The home was removed: this machine no longer exists."""


class Home(Protocol):
    """The files that an agent keeps on its machine."""

    @property
    def cache(self) -> Path:
        """The folder of cached code, by digest."""
        ...

    def check(self) -> None:
        """
        Check that the home exists; a new folder in its place is a different home.

        Raises:
            HomeGoneError: It does not exist.
        """
        ...

    def number(self, name: str, life: int) -> int | None:
        """Return the number stored under `name` in this life, else 0; None if it is damaged."""
        ...

    def put_number(self, name: str, life: int, number: int) -> bool:
        """Store `number`; return whether that was possible."""
        ...

    def folders(self, key: str) -> Folders:
        """Return the folders of a host, created if missing; OSError if they cannot be created."""
        ...

    def named(self, key: str) -> Folders:
        """Return the folders of a host, which need not exist."""
        ...

    def take_back(self, key: str) -> None:
        """Delete the folders of a host that never started, if they were given to its user."""
        ...

    def marks(self, key: str) -> Marks:
        """Return the marks of a host."""
        ...

    def word(self, key: str) -> Word:
        """Return the facts that the exit codes of its containers do not express."""
        ...

    def has_output(self, key: str) -> bool:
        """Whether the host left files in its output folder; true if that cannot be determined."""
        ...

    def forget_secrets(self, key: str) -> None:
        """Delete the files of a host's secrets."""
        ...

    def leave(self, key: str, *, is_saved: bool) -> None:
        """
        Leave a host that has ended: its folders age from now, and empty ones are deleted
        immediately.

        `is_saved` means that the bucket has everything that the host kept.
        """
        ...

    def unwell(self) -> str:
        """Return why this machine cannot start processes now, or an empty string."""
        ...

    def clean(self, *, ended: float, needed: float, taken: float, spared: frozenset[str]) -> None:
        """
        Delete files that are too old, which may take minutes.

        While the disk accepts no more data, folders of hosts whose output is saved are deleted at
        any age. Times are seconds since 1970 on this machine's own clock.

        Args:
            ended: Delete the folders of hosts that ended before this time.
            needed: Also delete those of hosts that ended before this time, the oldest first, for as
                long as the disk has little room.
            taken: Delete the Python environments that no host has used since this time.
            spared: Keys of hosts that have not ended: their folders and environments are kept.
        """
        ...


MAX_REPORT_BYTES = 4096
"""Per report: some dozens of numbers."""
MAX_WORD_BYTES = 64 << 10
"""Per file from a container's program: one line from its engine."""
MAX_NUMBER_BYTES = 64
"""Two numbers of at most 12 digits, as in the names in the bucket."""
_NUMBER = re.compile(rb"[0-9]{1,12}")
MAX_NAME = 64
"""Characters of the name of such a number."""
MAX_REPORTED = 32
"""Most numbers kept per report: root holds them."""


def _last_report(path: str) -> dict[str, float]:
    """Return the numbers in the last complete line of a report; empty if it has none."""
    try:
        lines = read_end(path, MAX_REPORT_BYTES).split(b"\n")[:-1]
        said = json.loads(lines[-1]) if lines else {}
    except (OSError, ValueError, RecursionError):
        return {}
    if not isinstance(said, dict):
        return {}
    numbers = {name[:MAX_NAME]: n for name, n in said.items() if _is_number(n) and _is_text(name)}
    return {name: float(n) for name, n in sorted(numbers.items())[:MAX_REPORTED]}


def _is_number(said: object) -> bool:
    """Whether it is a number that JSON readers accept: finite, and no larger than a float."""
    try:
        return type(said) in (int, float) and isfinite(said)  # type: ignore[arg-type]
    except OverflowError:
        return False


def _is_text(name: str) -> bool:
    """Whether it can be encoded as UTF-8: JSON can contain lone surrogates."""
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True


_SPECIAL = re.compile(r"[^A-Za-z0-9_./-]|^\.")
_NAME_BYTES = 255
"""Longest name in a path, on every Linux file system. Source: `NAME_MAX` in `limits.h`."""


@lru_cache(maxsize=1024)
def _name(key: str) -> str:
    """
    Return the name of a host's folder, one to one.

    Jobs pass their paths to programs such as ssh, printf and strftime, to which a percent sign is
    an instruction. So the name has no percent sign, colon, comma, blank or equals sign. The longest
    names of projects and jobs would exceed the limit of a file system: their folder names end in a
    digest.
    """

    def escape(found: re.Match[str]) -> str:
        return "".join(f"@{byte:02X}" for byte in found[0].encode())

    name = _SPECIAL.sub(escape, key).replace("/", "+")
    if len(name) <= _NAME_BYTES:
        return name
    digest = "+" + hashlib.sha256(key.encode()).hexdigest()[:32]
    return name[: _NAME_BYTES - len(digest)] + digest


_CACHE_SHARE = 5
"""The cached code may use one part in this many of the disk: the rest is for jobs."""
_CACHE_BYTES = 50 << 30
"""Maximum size of cached code: some hundred trees with their environments."""


class FolderHome:
    """
    A home in a folder.

    Args:
        path: The folder.
        lock: A file in it that stays open for as long as its agent serves; None: no check is made.
        has_little_room: Whether running jobs may soon need more of a folder's disk.
        disk_trouble: Why the disk of a folder accepts no more data, or an empty string.
    """

    def __init__(
        self,
        path: Path,
        *,
        lock: IO[str] | None = None,
        has_little_room: Callable[[str], bool] = has_little_room,
        disk_trouble: Callable[[str], str] = disk_trouble,
    ) -> None:
        self._path = os.fspath(path)
        self._lock = lock
        self._has_little_room = has_little_room
        self._disk_trouble = disk_trouble
        self._saved: set[str] = set()
        """The folders of hosts that have ended since this agent started, and are saved."""
        self.cache = path / "cache"
        # The names before an upgrade of the agent; their jobs may still run.
        self._old = frozenset(name for name in names_in(f"{path}/work") if "%" in name)

    def check(self) -> None:
        """See `Home`."""
        if self._lock is None:
            return
        try:
            is_there = os.path.samestat(os.stat(self._lock.name), os.fstat(self._lock.fileno()))  # noqa: PTH116
        except (FileNotFoundError, NotADirectoryError):
            is_there = False
        except OSError:
            return  # a disk that does not answer does not mean that the home was removed
        if not is_there:
            raise HomeGoneError(f"home {self._path} was removed: what ran here is killed")

    def number(self, name: str, life: int) -> int | None:
        """See `Home`; a file without two numbers is damaged."""
        try:
            said = read_start(f"{self._path}/numbers/{name}", MAX_NUMBER_BYTES).split()
        except FileNotFoundError:
            return 0
        if len(said) != 2 or not all(_NUMBER.fullmatch(part) for part in said):
            return None
        return int(said[1]) if int(said[0]) == life else 0

    def put_number(self, name: str, life: int, number: int) -> bool:
        """
        See `Home`; a reader sees the old number or the new one, even if this process is killed.

        A full disk is no reason to stop jobs. The old number then stays, so instructions are read
        again.
        """
        try:
            os.makedirs(f"{self._path}/numbers", exist_ok=True)  # noqa: PTH103
            replace_file(f"{self._path}/numbers/{name}", f"{life} {number}\n".encode())
        except OSError:
            return False
        return True

    def folders(self, key: str) -> Folders:
        """See `Home`."""
        found = self.named(key)
        base = found.marks
        try:
            os.mkdir(base, 0o700)  # noqa: PTH102 - for every short job: text paths are faster
        except FileNotFoundError:
            os.makedirs(base, 0o700)  # noqa: PTH103
        except FileExistsError:
            pass
        for path in (found.code, found.output):
            with contextlib.suppress(FileExistsError):
                os.mkdir(path)  # noqa: PTH102
        return found

    def named(self, key: str) -> Folders:
        """See `Home`."""
        base = self._base(key)
        return Folders(
            code=f"{base}/code",
            output=f"{base}/output",
            marks=base,
            notice_file=f"{base}/notice.json",
            secrets=f"{base}/secrets",
            python=f"{base}/python",
        )

    def take_back(self, key: str) -> None:
        """See `Home`; other jobs of that user may have put files there since then."""
        base = self._base(key)
        with contextlib.suppress(FileNotFoundError):
            if os.lstat(base).st_uid != os.geteuid():
                remove(base)

    def marks(self, key: str) -> Marks:
        """See `Home`."""
        folder = self._base(key)
        return Marks(
            checkpointed_at=touched_at(f"{folder}/checkpointed"),
            finished=touched_at(f"{folder}/finished") is not None,
            report=_last_report(f"{folder}/report"),
        )

    def word(self, key: str) -> Word:
        """See `Home`; the job can write it too, and its writer may be killed while writing."""
        try:
            said = json.loads(read_start(f"{self._base(key)}/container.json", MAX_WORD_BYTES))
            # JSON can contain lone surrogates.
            why, lost = (
                str(said.get(name, "")).encode("utf-8", "replace").decode()
                for name in ("setup_failure", "lost")
            )
            is_over = bool(said.get("out_of_memory"))
            return Word(setup_failure=why, lost=lost, out_of_memory=is_over)
        except (OSError, ValueError, AttributeError, RecursionError):
            return Word()

    def has_output(self, key: str) -> bool:
        """See `Home`."""
        try:
            return not is_empty(f"{self._base(key)}/output")
        except OSError:
            return True  # saving checks again, and reports why it cannot

    def forget_secrets(self, key: str) -> None:
        """See `Home`."""
        with contextlib.suppress(OSError):
            remove(f"{self._base(key)}/secrets")

    def leave(self, key: str, *, is_saved: bool) -> None:
        """See `Home`."""
        base = self._base(key)
        with contextlib.suppress(OSError):
            os.utime(base)
            for name in ("/output", "/code", ""):
                os.rmdir(base + name)  # noqa: PTH106 - raises at the first that holds something
            return
        if is_saved:
            self._saved.add(self._folder(key))

    def unwell(self) -> str:
        """See `Home`."""
        return self._disk_trouble(self._path) or unwell(self._path)

    def clean(self, *, ended: float, needed: float, taken: float, spared: frozenset[str]) -> None:
        """See `Home`; if there is too much cached code, also delete the least recently used."""
        if self.cache.exists():
            from bastion.agent.machine.environment_cache import clean as clean_environments
            from bundler.copies.kept import evict

            evict(self.cache, limit_bytes=self._cache_bytes())
            links = (Path(f"{self._base(key)}/python") for key in spared)
            clean_environments(self.cache, before=taken, links=links)
        kept = {self._folder(key) for key in spared}
        work = f"{self._path}/work"
        made = [(_made_at(f"{work}/{name}"), name) for name in names_in(work) if name not in kept]
        # None: its host has just left it empty.
        for at, name in sorted((at, name) for at, name in made if at is not None):
            is_needed = at < needed and self._has_little_room(self._path)
            if at < ended or is_needed or (name in self._saved and self._disk_trouble(self._path)):
                with contextlib.suppress(OSError):
                    remove(f"{work}/{name}")
                self._saved.discard(name)

    def _cache_bytes(self) -> int:
        """Return the limit of cached code: a fraction of the disk, and 0 while the disk is full."""
        if self.unwell():
            return 0
        found = os.statvfs(self._path)
        return min(_CACHE_BYTES, found.f_frsize * found.f_blocks // _CACHE_SHARE)

    def _base(self, key: str) -> str:
        return f"{self._path}/work/{self._folder(key)}"

    def _folder(self, key: str) -> str:
        old = file_name(key) if self._old else ""
        return old if old in self._old else _name(key)


def _made_at(folder: str) -> float | None:
    try:
        return os.lstat(folder).st_mtime
    except OSError:
        return None
