"""
`FolderIdentity`: whether the folder at a path is still the one first seen there.

After a disk is unmounted or a folder moved away, the path is missing or an empty folder. A write
there would be lost to the bucket, and a read would show an empty bucket. So a store remembers its
folder, and treats any other folder at the path as an unreachable store.

A folder is identified by device and inode, and by a token in it, because a disk may get another
device number when it is mounted again. A folder without a bucket, such as an empty mount point, is
not remembered: the bucket may appear there later.
"""

# A pathlib object costs more than the system call that it makes, and every operation checks.
# ruff: noqa: PTH112, PTH116, PTH118, PTH123

from __future__ import annotations

import contextlib
import os

from bastion.errors import StoreError

_TOKEN = "bucket"  # noqa: S105 - names a file
_MOST_BYTES = 64


class FolderIdentity:
    """
    The folder at `path`, once it has been seen.

    Args:
        path: An absolute path; it need not exist yet.
        tokens: The subfolder that holds the token.
    """

    def __init__(self, path: str, *, tokens: str) -> None:
        self._path = path
        self._tokens = tokens
        self._token_path = os.path.join(tokens, _TOKEN)
        self._seen: tuple[int, int] | None = None
        self._token = ""
        self._is_bucket = False
        with contextlib.suppress(StoreError):
            self.check()

    def check(self) -> None:
        """
        Check that the folder exists and is the one first seen.

        Raises:
            StoreError: It is missing, or another folder.
        """
        try:
            found = os.stat(self._path)
        except OSError as error:
            raise StoreError(
                f"{self._path!r} is out of reach: {error.strerror or error}",
                hint="if it was moved or its disk unmounted, bring it back; bastion up makes a new"
                " bucket in a folder, and starts a bastion here",
            ) from None
        place = (found.st_dev, found.st_ino)
        if self._is_bucket and place == self._seen:
            return
        token = self._read()
        if self._is_bucket and (not token or token != self._token):
            raise StoreError(
                f"{self._path!r} is out of reach: another folder is there than before",
                hint="if its disk was unmounted, mount it again; if the bucket was replaced on"
                " purpose, restart everything that uses it",
            )
        self._seen, self._token = place, token
        self._is_bucket = os.path.isdir(self._tokens)
        if self._is_bucket and not token:
            self.sign()  # an older version of Bastion made the bucket, without a token

    def sign(self) -> None:
        """Write a token into the folder first seen, unless it has one."""
        self._is_bucket = True
        mine = f"{self._token_path}.{os.urandom(8).hex()}"
        with contextlib.suppress(OSError):
            with open(mine, "x", encoding="ascii") as file:
                file.write(os.urandom(16).hex())
            try:
                os.link(mine, self._token_path)
            finally:
                os.unlink(mine)  # noqa: PTH108
        self._token = self._read()

    def _read(self) -> str:
        try:
            handle = os.open(self._token_path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW)
        except OSError:
            return ""
        try:
            return os.read(handle, _MOST_BYTES).decode("ascii", "replace")
        except OSError:
            return ""
        finally:
            os.close(handle)
