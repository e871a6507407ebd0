"""
`LocalStore`: a folder that behaves like a bucket, for many processes on **one** machine.

    <root>/inbox/vision/ada/01H….launch.json   one file per object, `cat` shows it
    <root>/.tmp/<pid>-<token>-<n>.<mark>.tmp   a write in progress; no key leads here
    <root>/.tmp/bucket                         a random token: two folders are never the same bucket
    <root>/.tmp/locks/<nnn>                    one lock for every 4,096th key; never deleted

* **create**: write a temp, fsync it, `link` it to its name (which fails if the name exists), fsync
  the folder, unlink the temp. **swap**: write a temp and fsync it; under the key's lock, check the
  version and `rename` the temp over the name; fsync the folder. **delete**: under the same lock, so
  that no swap restores a deleted object; then remove empty folders. A create whose folder was
  removed makes it again.
* A **version** is the file's modification time, inode and size. Every write sets its own time on
  the temp, at least a nanosecond after the state it replaces, so no version repeats, not even with
  the same bytes. A filesystem that rounds the time is refused. (A hash of the bytes would make a
  list read every object, and a conditional read the whole object.)
* **Killed at any instruction**: before `link` or `rename` nothing has changed except for a temp,
  which a later start sweeps. After it the object is complete, since the temp was fsynced. Before
  the fsync of the folder other processes see the object, and it may be lost if the machine loses
  power. Then those processes are lost too, and anything that they made durable later went into the
  same journal later. A swap's lock is an flock, which the kernel releases with its process.
* The **clock** is that of the kernel, which stamps each file that is written (`date`).
* Network and FUSE filesystems are refused: their `link`, `rename` and locks guarantee less.
"""

# A pathlib object costs more than the system call that it makes, and a list would make many.

from __future__ import annotations

import contextlib
import errno
import itertools
import os
import stat
from collections.abc import Iterator
from functools import cached_property
from typing import TYPE_CHECKING

from bastion.clock import Clock, SystemClock
from bastion.errors import (
    ConflictError,
    NotFoundError,
    OversizeError,
    StoreError,
    StoreFullError,
    StoreRefusedError,
)
from bastion.store.date import FolderDate
from bastion.store.folder.filesystem import Sharing, filesystem_of, is_shared
from bastion.store.folder.folder_identity import FolderIdentity
from bastion.store.folder.mark import mark_of
from bastion.store.keys import checked, checked_prefix, file_name, part_of
from bastion.store.port import READ_LIMIT_BYTES, Entry, Object, Version, Written

if TYPE_CHECKING:
    from bastion.store.folder.lock import FileLocks

_STALE_S = 3600
"""A temp older than this has no live writer: the longest write is a bundle of some gigabytes."""

_RACES = 100
"""How often a create makes its folder again if another process keeps deleting it."""

_LOOKS = frozenset({"read", "listed"})
"""Operations that change nothing: the folder is checked only afterwards."""

_ABSENT = (FileNotFoundError, NotADirectoryError)
_NO_FILE = frozenset({errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.ENXIO})
"""Nothing is at a path, or a link that leads to itself, or a socket."""

_REFUSALS = {
    errno.ENOSPC: ("the disk is full", "free some space, then try again"),
    errno.EDQUOT: ("the disk quota is used up", "free some space, then try again"),
    errno.EROFS: ("the filesystem is read-only", "remount it writable, or choose another folder"),
    errno.EACCES: ("permission denied", "make the folder readable and writable for this user"),
    errno.EPERM: ("operation not permitted", "the filesystem must allow hard links"),
    errno.ENAMETOOLONG: ("the file name is too long", "'%' counts three bytes in a folder"),
}


_NO_ROOM = frozenset({errno.ENOSPC, errno.EDQUOT})


class LocalStore:
    """
    Objects as files under one folder, which must exist.

    The folder is remembered once it has been seen. If it is missing, or another folder is at its
    path, the store is unreachable. Files and folders get the permissions that the umask allows. In
    a root that its group or all users may write to, they get the matching ones too, since one
    user's umask must not hide a folder of the bucket from the bastion.

    Args:
        root: An absolute path.
        clock: Its wall clock is the store's clock; by default that of the filesystem.
        durable: False skips every fsync: for tests, which need not survive a loss of power.
        lock_timeout_s: How long a swap or delete waits for another process that holds the key.
        makes_root: Create the folder if it is missing, and start a bucket in it: only for a new
            bucket.

    Raises:
        StoreRefusedError: `root` is on a network filesystem, or is not a folder.
    """

    def __init__(
        self,
        root: str | os.PathLike[str],
        *,
        clock: Clock | None = None,
        durable: bool = True,
        lock_timeout_s: float = 10.0,
        makes_root: bool = False,
    ) -> None:
        self._root = os.fspath(root)
        self._temps = f"{self._root}/.tmp"
        self._clock = clock or SystemClock()
        self._date = FolderDate(self._temps, self._clock, is_own=clock is not None)
        self._lock_timeout_s = lock_timeout_s
        self._durable = durable
        # Containers that share the folder may share pids: a token keeps their temps apart.
        self._token = os.urandom(4).hex()
        self._numbers = itertools.count()
        _refuse_shared(self._root)
        self._may_begin = makes_root
        if makes_root:
            self._make_root()
        self._identity = FolderIdentity(self._root, tokens=self._temps)
        if makes_root and not os.path.isdir(self._temps):
            with contextlib.suppress(OSError):
                self._make_folder(self._temps)
                self._identity.sign()
        self._sweep()

    @cached_property
    def _locks(self) -> FileLocks:
        from bastion.store.folder.lock import FileLocks  # reads and creates take no lock

        return FileLocks(
            f"{self._temps}/locks",
            clock=self._clock,
            timeout_s=self._lock_timeout_s,
            sharing=self._sharing,
        )

    @cached_property
    def _sharing(self) -> Sharing:
        return Sharing.of(self._root)

    def read(
        self, key: str, *, unless: Version | None = None, limit_bytes: int = READ_LIMIT_BYTES
    ) -> Object | None:
        """See the port."""
        try:
            return self._read(key, unless, limit_bytes)
        except NotFoundError:
            self._identity.check()
            raise
        except OSError:
            with self._explained(key, "read"):
                raise

    def _read(self, key: str, unless: Version | None, limit_bytes: int) -> Object | None:
        try:
            # O_NONBLOCK: a FIFO in the folder must not block us.
            handle = os.open(self._path(key), os.O_RDONLY | os.O_NONBLOCK)
        except OSError as error:
            if error.errno not in _NO_FILE:
                raise
            raise NotFoundError(f"no object at {key!r}") from None
        try:
            found = os.fstat(handle)
            if not stat.S_ISREG(found.st_mode):
                raise NotFoundError(f"no object at {key!r}")
            version = _version(found)
            if version == unless:
                self._identity.check()
                return None
            # Read the file's size: a buffer of the whole limit costs more than the read.
            data = _bytes_of(handle, min(found.st_size, limit_bytes) + 1)
            if len(data) > found.st_size:  # edited in place in the meantime
                data += _bytes_of(handle, limit_bytes + 1 - len(data))
            if len(data) > limit_bytes:
                raise OversizeError(key, limit_bytes=limit_bytes)
        finally:
            os.close(handle)
        self._identity.check()
        return Object(data=data, version=version, modified_at=found.st_mtime)

    def create(self, key: str, data: bytes) -> Written:
        """See the port; refuses a key that is a folder of others, or lies inside an object."""
        path = self._path(key)
        with self._explained(key, "created"):
            if _stat(path) is not None:  # saves a sync, such as for a bundle that is sent again
                raise _standing(key)
            with self._temp(key, data, after_ns=0) as (temp, written):
                self._link(temp, path, key)
                self._settle(path)
        return written

    def swap(self, key: str, data: bytes, *, if_version: Version) -> Written:
        """See the port; StoreError names the process that holds the key for too long."""
        path = self._path(key)
        with self._explained(key, "swapped"):
            found = _expect(if_version, path, key)
            with self._temp(key, data, after_ns=found.st_mtime_ns) as (temp, written):
                # Nothing slow happens under the lock: a process that freezes with it blocks all
                # others.
                with self._locks.held(key):
                    _expect(if_version, path, key)
                    os.rename(temp, path)
                self._settle(path)
        return written

    def delete(self, key: str) -> None:
        """See the port; StoreError names the process that holds the key for too long."""
        path = self._path(key)
        with self._explained(key, "deleted"):
            if _stat(path) is None:
                return
            with self._locks.held(key), contextlib.suppress(*_ABSENT, IsADirectoryError):
                os.unlink(path)
            self._remove_empty(os.path.dirname(path))

    def list(self, prefix: str, *, start_after: str = "", limit: int = 1000) -> tuple[Entry, ...]:
        """See the port; only folders that can hold matching keys are read."""
        folder = checked_prefix(prefix).rpartition("/")[0]
        path = self._path(folder) if folder else self._root
        try:
            walked = self._walk(path, folder and folder + "/", prefix, start_after)
            found = tuple(itertools.islice(walked, limit))
            self._identity.check()
        except OSError:
            with self._explained(prefix, "listed"):
                raise
        return found

    def date(self) -> float | None:
        """See `Dated`; None for a user who may not write here."""
        return self._date.date()

    def _walk(self, path: str, folder: str, prefix: str, start_after: str) -> Iterator[Entry]:
        below: list[tuple[str, str]] = []
        try:
            with os.scandir(path) as children:
                for child in children:
                    part = part_of(child.name)
                    if part is None:
                        continue
                    slash = "/" if child.is_dir(follow_symlinks=False) else ""
                    key = f"{folder}{part}{slash}"
                    within = slash and (prefix.startswith(key) or start_after.startswith(key))
                    if within or (key > start_after and key.startswith(prefix)):
                        below.append((key, child.path))
        except _ABSENT:
            return
        below.sort()
        for key, child_path in below:
            if key.endswith("/"):
                yield from self._walk(child_path, key, prefix, start_after)
            elif (found := _stat(child_path)) is not None:
                yield Entry(
                    key=key,
                    version=_version(found),
                    size=found.st_size,
                    modified_at=found.st_mtime,
                )

    def _path(self, key: str) -> str:
        return "/".join([self._root, *map(file_name, checked(key).split("/"))])

    @contextlib.contextmanager
    def _temp(self, key: str, data: bytes, *, after_ns: int) -> Iterator[tuple[str, Written]]:
        """Yield a durable file with `data`, stamped later than `after_ns`; remove it afterwards."""
        handle, path = self._open_temp(mark_of(key))
        try:
            try:
                self._sharing.open_file(handle)
                rest = memoryview(data)
                while rest:
                    rest = rest[os.write(handle, rest) :]
                stamp_ns = max(self._date.now_ns(handle), after_ns + 1)
                os.utime(handle, ns=(stamp_ns, stamp_ns))
                if self._durable:
                    os.fsync(handle)
                found = os.fstat(handle)
            finally:
                os.close(handle)
            if found.st_mtime_ns != stamp_ns:
                raise StoreRefusedError(
                    f"{self._root!r}: the filesystem rounds file times, so versions of an object"
                    " cannot be told apart",
                    hint="choose a folder on ext4, xfs, btrfs or tmpfs",
                )
            yield path, Written(version=_version(found), modified_at=found.st_mtime)
        finally:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(path)

    def _open_temp(self, mark: str) -> tuple[int, str]:
        while True:
            name = f"{os.getpid()}-{self._token}-{next(self._numbers)}.{mark}.tmp"
            path = f"{self._temps}/{name}"
            try:
                return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666), path
            except FileNotFoundError:
                if not self._may_begin:
                    raise self._no_bucket() from None
                self._make_folder(self._temps)
                self._identity.sign()

    def _no_bucket(self) -> StoreError:
        """Return the error for a folder without a bucket, such as an empty mount point."""
        return StoreError(
            f"{self._root!r} is out of reach: there is no bucket in this folder",
            hint="mount its disk, or start a bastion on it, which creates a bucket",
        )

    def _link(self, temp: str, path: str, key: str) -> None:
        for _ in range(_RACES):
            try:
                return os.link(temp, path)
            except FileNotFoundError:
                os.stat(temp)  # raises when it is the temp that is gone, swept as stale
                self._make_folder(os.path.dirname(path))
            except FileExistsError:
                if not os.path.isdir(path):
                    raise _standing(key) from None
                self._empty_or_refuse(path, key)
            except NotADirectoryError:
                raise _nested(key) from None
        raise StoreError(
            f"{key!r} was not created: its folder was deleted {_RACES} times meanwhile"
        )

    def _empty_or_refuse(self, path: str, key: str) -> None:
        """Remove a folder tree without objects, which a killed process left; refuse any other."""
        for folder, _, _ in os.walk(path, topdown=False):
            try:
                os.rmdir(folder)
            except FileNotFoundError:
                continue
            except OSError:
                raise _nested(key) from None

    def _make_folder(self, path: str) -> None:
        """
        Make `path` and its missing parents.

        The folders are not synced one by one: the journals of ext4, xfs and btrfs preserve the
        order of changes, so the sync of the object's own entry covers the folders made before it.
        Otherwise five new folders would cost as many syncs as five objects.
        """
        for _ in range(_RACES):
            try:
                os.mkdir(path)
                return self._sharing.open_folder(path)
            except FileExistsError:
                return None
            except FileNotFoundError:
                if path == self._temps or os.path.dirname(path) == self._root:
                    raise  # the root itself is gone and must not be created again
                self._make_folder(os.path.dirname(path))
        raise StoreRefusedError(
            f"{path!r} cannot be made", hint="choose a folder on this machine's own disk"
        )

    def _make_root(self) -> None:
        """Make the root folder and its missing parents."""
        try:
            os.makedirs(self._root, exist_ok=True)
        except OSError as error:
            raise StoreRefusedError(
                f"{self._root!r} cannot be made: {error.strerror or error}",
                hint="choose a folder on this machine's own disk",
            ) from error

    def _remove_empty(self, path: str) -> None:
        while path != self._root:
            try:
                os.rmdir(path)
            except OSError:
                return  # not empty, already gone, or not ours: it may stay
            path = os.path.dirname(path)

    def _settle(self, path: str) -> None:
        """Make the directory entry of `path` durable."""
        if not self._durable:
            return
        try:
            handle = os.open(os.path.dirname(path), os.O_RDONLY | os.O_DIRECTORY)
        except FileNotFoundError:
            return  # the entry was deleted in the meantime, and its folder with it
        try:
            os.fsync(handle)
        finally:
            os.close(handle)

    def _sweep(self) -> None:
        """Remove the temps of killed writers, as far as permitted; the rest are harmless."""
        with contextlib.suppress(OSError), os.scandir(self._temps) as children:
            for child in children:
                if not child.name.endswith(".tmp") or (now := self.date()) is None:
                    continue
                with contextlib.suppress(FileNotFoundError):
                    if now - child.stat(follow_symlinks=False).st_ctime > _STALE_S:
                        os.unlink(child.path)

    @contextlib.contextmanager
    def _explained(self, key: str, done: str) -> Iterator[None]:
        try:
            if done not in _LOOKS:
                self._identity.check()
            try:
                yield
            finally:
                # An answer is void if the folder was replaced in the meantime.
                self._identity.check()
        except OSError as error:
            place = f"{key!r} in {self._root!r}"
            text, hint = _REFUSALS.get(error.errno or 0, ("", ""))
            if text:
                if error.errno == errno.EACCES and error.filename:
                    text += f" for {error.filename!r}"
                refused = StoreFullError if error.errno in _NO_ROOM else StoreRefusedError
                raise refused(f"{place} cannot be {done}: {text}", hint=hint) from error
            raise StoreError(f"{place} cannot be {done}: {error.strerror or error}") from error


def _refuse_shared(root: str) -> None:
    if not os.path.isabs(root):
        raise StoreRefusedError(f"{root!r} is not an absolute path")
    if os.path.exists(root) and not os.path.isdir(root):
        raise StoreRefusedError(f"{root!r} is not a folder")
    kind = filesystem_of(root)
    if is_shared(kind):
        raise StoreRefusedError(
            f"{root!r} lies on {kind}, where other machines may write and locks do not "
            "hold between them",
            hint="choose a folder on this machine's own disk, or a bucket (gs://, s3://, az://)",
        )


def _nested(key: str) -> StoreRefusedError:
    return StoreRefusedError(
        f"{key!r} cannot be created: no key may be both an object and a folder of others"
    )


def _standing(key: str) -> ConflictError:
    return ConflictError(f"there is an object at {key!r}")


def _bytes_of(handle: int, most_bytes: int) -> bytes:
    """
    Return the next bytes of an open file, at most `most_bytes`.

    A file object would make three more system calls for each read.
    """
    data = os.read(handle, most_bytes)
    while len(data) < most_bytes and (more := os.read(handle, most_bytes - len(data))):
        data += more
    return data


def _stat(path: str) -> os.stat_result | None:
    try:
        found = os.stat(path)
    except OSError as error:
        if error.errno not in _NO_FILE:
            raise
        return None
    return found if stat.S_ISREG(found.st_mode) else None


def _expect(version: Version, path: str, key: str) -> os.stat_result:
    found = _stat(path)
    if found is None or _version(found) != version:
        raise ConflictError(f"the object at {key!r} is no longer at version {version}")
    return found


def _version(found: os.stat_result) -> Version:
    return Version(f"{found.st_mtime_ns:x}-{found.st_ino:x}-{found.st_size:x}")
