"""
Opening files in the folders of a job, where it may have put anything: the one place that does it.

A job can put a pipe, a link, a device or a huge file where keeper and agent look for a plain file.
So no link is followed here, no open waits for another process, only plain files are read, and every
read has a limit. Anything that is not a plain file counts as missing. A tree is walked by
descriptors: a folder that becomes a link in the meantime leads nowhere.

The parent folder of a path must be one that the job cannot replace. Standard library only: the
keeper and the program of a container use it too.

Source: open(2), `O_NOFOLLOW`, `O_NONBLOCK` and `O_PATH`; fifo(7).
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from itertools import islice

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import IO

_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
_WRITE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC

MAX_DEPTH = 100
"""Maximum depth of a tree that is walked: each level is an open descriptor in the meantime."""

MAX_NAMES = 50_000
"""
Maximum number of files and folders of a tree that is walked.

More would take more memory than an agent should use, and a longer list than one read of a store.
"""

_ROUNDS = 10_000
"""
Rounds of removing a tree, each up to `MAX_DEPTH` folders deep and `MAX_NAMES` of each folder: in
total, a depth of a million folders and 500 million files in one folder.
"""


class TooManyNamesError(OSError):
    """A tree holds more files and folders than the limit."""

    def __init__(self, most_names: int) -> None:
        super().__init__(f"more than {most_names:,} files and folders; pack them into fewer")


class OpenFile:
    """
    A plain file of a job, open for reading while its tree is walked.

    Attributes:
        path: Its path below the walked folder, `/`-separated.
        handle: Its descriptor; the walk closes it.
        size: Its bytes when it was opened; later writes do not count.
        executable: Whether its mode allows running it.
    """

    __slots__ = ("executable", "handle", "path", "size")

    def __init__(self, path: str, handle: int, found: os.stat_result) -> None:
        self.path = path
        self.handle = handle
        self.size = found.st_size
        self.executable = bool(found.st_mode & 0o111)


def read_start(path: str, limit_bytes: int) -> bytes:
    """
    Read a plain file; its first `limit_bytes` if it has more.

    Raises:
        FileNotFoundError: There is no plain file.
        OSError: It cannot be read.
    """
    handle = _opened(path)
    try:
        return _read(handle, limit_bytes)
    finally:
        os.close(handle)


def read_end(path: str, limit_bytes: int) -> bytes:
    """
    Read the last `limit_bytes` of a plain file; all of it if it has fewer.

    Raises:
        FileNotFoundError: There is no plain file.
        OSError: It cannot be read.
    """
    handle = _opened(path)
    try:
        os.lseek(handle, max(0, os.fstat(handle).st_size - limit_bytes), os.SEEK_SET)
        return _read(handle, limit_bytes)
    finally:
        os.close(handle)


def replace_file(path: str, data: bytes, *, mode: int = 0o644) -> None:
    """
    Write `data` to `path` in one step, through a new file beside it that ends in `.new`.

    Raises:
        OSError: It cannot be written, for example if the job has put a folder at one of the two.
    """
    new = path + ".new"
    with create_file(new, mode=mode) as file:
        file.write(data)
    os.replace(new, path)


def create_file(path: str, *, mode: int = 0o666) -> IO[bytes]:
    """
    Create a new plain file for writing; anything else with its name, except a folder, is removed
    first.

    Raises:
        OSError: It cannot be created; `FileExistsError` if the job was faster to put something
            there.
    """
    with contextlib.suppress(FileNotFoundError):
        os.unlink(path)
    return os.fdopen(os.open(path, _WRITE, mode), "wb")


def remove(path: str) -> None:
    """
    Remove what is at `path`: a tree, a file, a pipe, or a link but not its target.

    A mount at the path or below it stays, with the folders above it: a job may have left the mount
    of a disk that others use.

    `shutil.rmtree` opens what it is given, and would wait forever for the other end of a pipe; a
    tree deeper than Python's stack would be too much for it.

    Raises:
        OSError: Something is left.
    """
    try:
        top = _opened_to_empty(path, None)
    except FileNotFoundError:
        return
    except OSError:
        os.unlink(path)
        return
    try:
        removal = _Removal(top, _mount_at(os.path.dirname(path)))
        for _ in range(_ROUNDS if _mount_of(top) == removal.mount else 0):
            removed = [removal.remove(name, top, depth=1) for name in _some_names(top)]
            if not any(removed):
                break  # nothing is left, or nothing more can be removed
    finally:
        os.close(top)
    os.rmdir(path)


def touched_at(path: str) -> float | None:
    """Return when a plain file was last written, by its disk's clock; None if there is none."""
    try:
        found = os.lstat(path)
    except OSError:
        return None
    return found.st_mtime if stat.S_ISREG(found.st_mode) else None


def is_empty(folder: str) -> bool:
    """
    Whether a folder is empty, or is not a folder.

    Raises:
        OSError: It cannot be read.
    """
    try:
        handle = os.open(folder, _FOLDER)
    except (FileNotFoundError, NotADirectoryError):
        return True
    except OSError as error:
        if _is_link(error):
            return True
        raise
    try:
        with os.scandir(handle) as entries:
            return next(entries, None) is None
    finally:
        os.close(handle)


def names_in(folder: str) -> list[str]:
    """
    Return the names in a folder, sorted; none if there is no folder.

    Raises:
        OSError: It cannot be read.
    """
    try:
        handle = os.open(folder, _FOLDER)
    except (FileNotFoundError, NotADirectoryError):
        return []
    except OSError as error:
        if _is_link(error):
            return []
        raise
    try:
        return sorted(os.listdir(handle))
    finally:
        os.close(handle)


def give_away(folder: str, uid: int, gid: int) -> None:
    """
    Give everything below `folder` to another user; links themselves and not their targets.

    The folder itself stays: while it is closed to that user, nothing below it can change.

    Raises:
        OSError: It cannot be given away.
    """
    for _, folders, files, handle in os.fwalk(folder, onerror=_raise):
        for name in (*folders, *files):
            os.chown(name, uid, gid, dir_fd=handle, follow_symlinks=False)


def files_below(
    folder: str, *, most_names: int = MAX_NAMES, locked: list[str] | None = None
) -> Iterator[OpenFile]:
    """
    Open every plain file below `folder`, one after the other, in the order of their names.

    It leaves out links, special files, files that are deleted in the meantime, names that are not
    UTF-8, files deeper than `MAX_DEPTH`, and files that claim to be larger than their disk. If the
    folder belongs to a user other than this process's, files of any third user are left out too.
    With `locked`, files and folders that this process has no permission to read are left out too,
    and their names are added to it.

    Raises:
        TooManyNamesError: It holds more than `most_names` files and folders.
        OSError: Something cannot be read.
    """
    try:
        top = os.open(folder, _FOLDER)
    except (FileNotFoundError, NotADirectoryError):
        return
    except OSError as error:
        if _is_link(error):
            return
        raise
    owner = os.fstat(top).st_uid
    walk = _Walk(None if owner == os.geteuid() else owner, most_names, locked)
    yield from _below(top, "", walk, depth=1)


class _Walk:
    """One walk through a tree: whose files count, and how many more names are allowed."""

    __slots__ = ("left", "locked", "most_names", "owner")

    def __init__(self, owner: int | None, most_names: int, locked: list[str] | None) -> None:
        self.owner = owner
        self.locked = locked
        self.most_names = self.left = most_names

    def names_of(self, folder: int) -> list[str]:
        names = _some_names(folder, self.left + 1)
        self.left -= len(names)
        if self.left < 0:
            raise TooManyNamesError(self.most_names)
        return sorted(names)


def _some_names(folder: int, most: int = MAX_NAMES) -> list[str]:
    """Return at most `most` names in an open folder: a job may have created millions."""
    with os.scandir(folder) as entries:
        return [entry.name for entry in islice(entries, most)]


def _below(folder: int, prefix: str, walk: _Walk, *, depth: int) -> Iterator[OpenFile]:
    """Walk an open folder, and close it."""
    try:
        for name in walk.names_of(folder):
            try:
                yield from _named(name, folder, prefix, walk, depth=depth)
            except (FileNotFoundError, UnicodeEncodeError):
                continue
            except PermissionError:
                if walk.locked is None:
                    raise
                walk.locked.append(prefix + name)
    finally:
        os.close(folder)


def _named(name: str, folder: int, prefix: str, walk: _Walk, *, depth: int) -> Iterator[OpenFile]:
    name.encode()
    found = os.stat(name, dir_fd=folder, follow_symlinks=False)
    if stat.S_ISDIR(found.st_mode) and depth < MAX_DEPTH:
        below = _opened_folder(name, folder)
        yield from _below(below, f"{prefix}{name}/", walk, depth=depth + 1)
    elif stat.S_ISREG(found.st_mode) and walk.owner in (None, found.st_uid):
        yield from _one(name, folder, prefix, walk.owner)


class _Removal:
    """One removal of a tree: its open top, and the mount on which it stays."""

    __slots__ = ("mount", "top")

    def __init__(self, top: int, mount: bytes) -> None:
        self.top = top
        self.mount = mount

    def remove(self, name: str, folder: int, *, depth: int) -> bool:
        """
        Remove what can be removed, at most `MAX_NAMES` of each folder; return whether anything was.

        Folders deeper than `MAX_DEPTH` move up into the top, and are removed from there.
        """
        try:
            handle = _opened_to_empty(name, folder)
        except FileNotFoundError:
            return False
        except OSError:
            return _done(os.unlink, name, folder)
        try:
            if _mount_of(handle) != self.mount:
                return False
            names = _some_names(handle)
            if depth < MAX_DEPTH:
                removed = [self.remove(child, handle, depth=depth + 1) for child in names]
            else:
                removed = [_move_up(child, handle, self.top) for child in names]
        finally:
            os.close(handle)
        return _done(os.rmdir, name, folder) or any(removed)


def _mount_at(folder: str) -> bytes:
    handle = os.open(folder or ".", os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        return _mount_of(handle)
    finally:
        os.close(handle)


def _mount_of(handle: int) -> bytes:
    """
    Return the mount that an open folder is on, as far as the kernel reports it.

    It differs from the device: a bind mount has the device of its source.

    Source: proc_pid_fdinfo(5), `mnt_id`.
    """
    with open(f"/proc/self/fdinfo/{handle}", "rb") as file:
        return next((line for line in file if line.startswith(b"mnt_id:")), b"")


def _move_up(name: str, folder: int, top: int) -> bool:
    try:
        number = os.stat(name, dir_fd=folder, follow_symlinks=False).st_ino
        os.rename(name, f"deep-{number}", src_dir_fd=folder, dst_dir_fd=top)
    except OSError:
        return False
    return True


def _done(step: Callable[..., None], name: str, folder: int) -> bool:
    """Try to unlink something; return whether it was possible."""
    try:
        step(name, dir_fd=folder)
    except OSError:
        return False
    return True


def _opened_to_empty(name: str, folder: int | None) -> int:
    """Open a folder so that it can be emptied, even one that its owner has closed to itself."""
    try:
        return os.open(name, _FOLDER, dir_fd=folder)
    except PermissionError:
        handle = os.open(name, os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=folder)
        try:
            os.chmod(f"/proc/self/fd/{handle}", 0o700)
        finally:
            os.close(handle)
        return os.open(name, _FOLDER, dir_fd=folder)


def _one(name: str, folder: int, prefix: str, owner: int | None) -> Iterator[OpenFile]:
    handle = _opened(name, folder)
    try:
        found = os.fstat(handle)
        disk = os.fstatvfs(handle)
        fits = found.st_size <= disk.f_blocks * disk.f_frsize
        if fits and owner in (None, found.st_uid):
            yield OpenFile(prefix + name, handle, found)
    finally:
        os.close(handle)


def _opened_folder(name: str, folder: int) -> int:
    try:
        return os.open(name, _FOLDER, dir_fd=folder)
    except NotADirectoryError:
        raise FileNotFoundError(2, "no folder any more", name) from None
    except OSError as error:
        if _is_link(error):
            raise FileNotFoundError(2, "no folder any more", name) from None
        raise


def _opened(path: str, folder: int | None = None) -> int:
    """Open a plain file for reading; never open anything else."""
    # Opening a device may have an effect, so the type must be known before.
    if not stat.S_ISREG(os.stat(path, dir_fd=folder, follow_symlinks=False).st_mode):
        raise FileNotFoundError(2, "no plain file", path)
    try:
        handle = os.open(path, _READ, dir_fd=folder)
    except OSError as error:
        if _is_link(error):
            raise FileNotFoundError(2, "no plain file any more", path) from None
        raise
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        os.close(handle)
        raise FileNotFoundError(2, "no plain file any more", path)
    return handle


def _read(handle: int, limit_bytes: int) -> bytes:
    parts = []
    while limit_bytes > 0 and (part := os.read(handle, min(limit_bytes, 1 << 20))):
        parts.append(part)
        limit_bytes -= len(part)
    return b"".join(parts)


def _raise(error: OSError) -> None:
    raise error


def _is_link(error: OSError) -> bool:
    """Whether an open failed because of `O_NOFOLLOW`, or of a socket, which nothing can open."""
    return error.errno in (errno.ELOOP, errno.ENXIO)
