"""
The folder of a local machine: its files, its processes, and its lock.

A process is recorded as "<pid> <start>", because its number alone may belong to another process.
"""

from __future__ import annotations

import fcntl
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from bastion.errors import ProviderUnavailableError

BALLAST_BYTES = 1 << 20
"""Size of a file that reserves disk space: a starting agent writes a few kilobytes."""
_PLENTY = 8
"""The ballast is written if the disk has this many times its size free."""
NO_KEEPER = "no keeper yet, trying again: "
"""Message of an agent that cannot start and keeps trying."""
_LAST_BYTES = 2000
"""How much of a log is read for its last line."""
_OCTAL = re.compile(rb"\\([0-3][0-7]{2})")
_DIGITS = 20
"""More digits than a process ID or its start in clock ticks has."""


def agent_lives(folder: Path) -> bool:
    """Whether an agent serves the folder: the recorded one, or the holder of its home's lock."""
    return lives(folder / "agent") or lives(folder / "home" / "agent.lock")


def unbegun(folder: Path) -> str:
    """Return why a machine's agent has not started its first keeper, from its log; else empty."""
    home = folder / "home"
    if (home / "keeper").exists() or (folder / "deleting").exists():
        return ""
    try:
        with (home / "agent.log").open("rb") as log:
            log.seek(-min(_LAST_BYTES, log.seek(0, os.SEEK_END)), os.SEEK_END)
            lines = log.read().decode(errors="replace").split("\n")
    except OSError:
        return ""
    last = next((line.strip() for line in reversed(lines) if line.strip()), "")
    if agent_lives(folder) and NO_KEEPER not in last:
        return ""
    return f"its agent does not start: {last.rpartition(NO_KEEPER)[2]}" if last else ""


def end_agent(folder: Path) -> None:
    """Tell the agent to end; jobs continue."""
    for note in (folder / "agent", folder / "home" / "agent.lock"):
        if lives(note):
            with suppress(ProcessLookupError):
                os.kill(int(words(note)[0]), signal.SIGTERM)


def lives(path: Path) -> bool:
    """Whether the process that `path` records as "<pid> <start>" is running."""
    noted = words(path)
    if len(noted) != 2 or not all(word.isdecimal() and len(word) < _DIGITS for word in noted):
        return False
    return noted[1] != "0" and started(int(noted[0])) == int(noted[1])


def started(pid: int) -> int:
    """Return when `pid` was started, in clock ticks since boot; 0 if it does not exist."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_bytes()
    except (FileNotFoundError, ProcessLookupError):
        return 0
    # The name in parentheses may contain ")": search from the last one.
    fields = stat[stat.rfind(b")") + 2 :].split()
    return 0 if fields[0] in (b"Z", b"X") else int(fields[19])


def words(path: Path) -> tuple[str, ...]:
    """Return the words of a file; none if it is missing."""
    try:
        return tuple(path.read_text(errors="replace").split())
    except FileNotFoundError:
        return ()


def write(path: Path, text: str) -> None:
    """Replace a file: a reader sees the old text or the new text, even after a power failure."""
    temporary = path.with_name(f".{path.name}.new")
    with temporary.open("w") as file:
        file.write(text + "\n")
        file.flush()
        os.fsync(file.fileno())
    temporary.rename(path)


def make_room(folder: Path) -> None:
    """Delete the ballast if the disk is full."""
    if _free_bytes(folder) < BALLAST_BYTES:
        (folder / "ballast").unlink(missing_ok=True)


def _free_bytes(folder: Path) -> int:
    found = os.statvfs(folder)
    return found.f_frsize * found.f_bavail


def keep_ballast(folder: Path) -> None:
    """
    Reserve disk space, if there is plenty, for the files of a machine whose disk is full.

    An agent must be restarted there: only the agent stops jobs, reports that, and frees space.
    """
    path = folder / "ballast"
    if path.exists() or _free_bytes(folder) < _PLENTY * BALLAST_BYTES:
        return
    with suppress(OSError), path.open("wb") as file:
        if sys.platform == "linux":  # agents run on nothing else
            os.posix_fallocate(file.fileno(), 0, BALLAST_BYTES)


def remove_tree(place: Path) -> None:
    """
    Remove a folder that jobs wrote to, at any depth and with any permissions; the rest stays.

    System programs do it: `shutil.rmtree` and `os.walk` recurse into each folder, and a job may
    leave more nested folders than Python's stack allows. What a job has mounted there is unmounted
    first, because others may use its files.
    """
    if place.is_symlink() or not place.is_dir():
        return
    for point in _mounts_below(place):
        _run("umount", "-l", point)
    if _mounts_below(place):
        return
    _run("chmod", "-R", "u+rwx", "--", str(place))
    _run("rm", "-rf", "--", str(place))


def _run(*words: str) -> None:
    none = subprocess.DEVNULL
    subprocess.run(words, stdin=none, stdout=none, stderr=none, check=False)


def _mounts_below(place: Path) -> list[str]:
    """
    Return the mounts in a folder, the deepest first; none if the kernel does not report them.

    Source: proc_pid_mountinfo(5), which writes blanks and backslashes as octal numbers.
    """
    try:
        lines = Path("/proc/self/mountinfo").read_bytes().splitlines()
    except OSError:
        return []
    top = os.fsencode(os.path.realpath(place)) + b"/"
    points = (_OCTAL.sub(lambda m: bytes([int(m[1], 8)]), line.split()[4]) for line in lines)
    return sorted((os.fsdecode(each) for each in points if each.startswith(top)), reverse=True)


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Hold the lock of a machine, whose folder is created if it is missing."""
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


@contextmanager
def explained(place: Path) -> Iterator[None]:
    """
    Convert system errors into provider errors.

    Raises:
        ProviderUnavailableError: The folder cannot be used now.
    """
    try:
        yield
    except (OSError, subprocess.SubprocessError) as error:
        raise ProviderUnavailableError(f"machines in {place}: {error}") from error
