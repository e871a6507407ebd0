"""
A job's own copy of a cached tree.

It is a copy without hard links: a job that edits a file in place would edit it for every later job.
On filesystems that share blocks (XFS, btrfs) the kernel does so, and a copy is nearly free.
"""

from __future__ import annotations

import errno
import os
import shutil
import stat
import sys
from pathlib import Path

from bundler.errors import BundleError

_BLOCK_BYTES = 2**30
"""Maximum bytes of one call; the kernel's own limit is just below 2 GiB."""
_PIECE_BYTES = 2**20
"""Bytes of one read where the kernel cannot copy from file to file."""
_CANNOT = (errno.EXDEV, errno.ENOSYS, errno.EINVAL, errno.EOPNOTSUPP, errno.EPERM, errno.ETXTBSY)
"""Errors of copy_file_range if the kernel or the file system does not support it."""


def checkout(tree: Path, directory: Path) -> None:
    """
    Make `directory` a copy of the cached `tree`.

    The directory appears complete, by one rename. The remains of a killed attempt are replaced, and
    an empty folder may exist already.

    Raises:
        BundleError: There is something else at `directory`.
    """
    directory.parent.mkdir(parents=True, exist_ok=True)
    new = directory.parent / f".new-{directory.name}"
    shutil.rmtree(new, ignore_errors=True)
    _copy_folder(str(tree), str(new))
    try:
        new.rename(directory)
    except (FileExistsError, NotADirectoryError, OSError) as error:
        shutil.rmtree(new, ignore_errors=True)
        if error.errno not in (errno.EEXIST, errno.ENOTEMPTY, errno.ENOTDIR):
            raise
        raise BundleError(
            f"{str(directory)!r} exists and is not an empty folder",
            hint="name a folder that does not exist yet",
        ) from None


def _copy_folder(source: str, copy: str) -> None:
    os.mkdir(copy, 0o755)  # noqa: PTH102  (text paths: half the time for many small files)
    with os.scandir(source) as entries:
        for entry in entries:
            to = f"{copy}/{entry.name}"
            if entry.is_symlink():
                os.symlink(os.readlink(entry.path), to)  # noqa: PTH115, PTH211
            elif entry.is_dir():
                _copy_folder(entry.path, to)
            else:
                _copy_file(entry.path, to)


def _copy_file(source: str, copy: str) -> None:
    reader = os.open(source, os.O_RDONLY | os.O_CLOEXEC)
    try:
        status = os.fstat(reader)
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
        writer = os.open(copy, flags, stat.S_IMODE(status.st_mode))
        try:
            os.fchmod(writer, stat.S_IMODE(status.st_mode))
            _copy_bytes(reader, writer, status.st_size)
        finally:
            os.close(writer)
    finally:
        os.close(reader)


def _copy_bytes(reader: int, writer: int, size: int) -> None:
    done = 0
    while done < size:
        copied = _copy_some(reader, writer)
        if not copied:
            raise BundleError("a cached tree was cut short while it was copied")
        done += copied


if sys.platform == "linux" and hasattr(os, "copy_file_range"):

    def _copy_some(reader: int, writer: int) -> int:
        """Copy the next bytes, by sharing blocks if possible; return how many, 0 at the end."""
        try:
            shared = os.copy_file_range(reader, writer, _BLOCK_BYTES)
        except OSError as error:
            if error.errno not in _CANNOT:
                raise
            shared = 0
        return shared or os.sendfile(writer, reader, None, _BLOCK_BYTES)

else:  # including Pythons built for a C library before 2.27, as those of uv until August 2026

    def _copy_some(reader: int, writer: int) -> int:
        """Copy the next bytes, from the writer's position; return how many, 0 at the end."""
        return os.write(writer, os.pread(reader, _PIECE_BYTES, os.lseek(writer, 0, os.SEEK_CUR)))
