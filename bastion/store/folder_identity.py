"""
`FolderIdentity`: whether the folder at a path is still the one that was seen there first.

A disk that is unmounted, or a folder that is moved away, leaves a path at which nothing is, or an
empty folder. What is written there then is lost to the bucket, and what is read there is no news of
it. So a store remembers its folder, and takes any other for a store that is out of reach.

A folder is known by device and inode, and by a token in it: a disk that is mounted again may come
with another device number. A folder where no bucket ever was, as an empty mount point, is not
remembered: the bucket may appear there later.
"""

# One pathlib object costs more than the system call it makes, and every operation asks.
# ruff: noqa: PTH112, PTH116, PTH118, PTH123

from __future__ import annotations

import contextlib
import os
import secrets

from bastion.errors import StoreError

_TOKEN = "bucket"  # noqa: S105 - names a file
_MOST_BYTES = 64


class FolderIdentity:
    """
    The folder at `path`, from when it is first seen.

    Args:
        path: An absolute path; there may be nothing yet.
        tokens: The folder inside of it where the token lies.
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
        Return when the folder is there, and is the one that was seen first.

        Raises:
            StoreError: It is gone, or another.
        """
        try:
            found = os.stat(self._path)
        except OSError as error:
            raise StoreError(
                f"{self._path!r} is out of reach: {error.strerror or error}",
                hint="if it was moved or its disk unmounted, bring it back; a folder for a new"
                " bucket is made with: mkdir",
            ) from error
        place = (found.st_dev, found.st_ino)
        if self._is_bucket and place == self._seen:
            return
        token = self._read()
        if self._is_bucket and (not token or token != self._token):
            raise StoreError(
                f"{self._path!r} is out of reach: another folder is there than before",
                hint="if its disk was unmounted, mount it again; if the bucket was replaced on"
                " purpose, start everything that uses it anew",
            )
        self._seen, self._token = place, token
        self._is_bucket = os.path.isdir(self._tokens)
        if self._is_bucket and not token:
            self.sign()  # of an older edition, which gave none

    def sign(self) -> None:
        """Put a token into the folder that was seen, unless one lies there."""
        self._is_bucket = True
        mine = f"{self._token_path}.{secrets.token_hex(8)}"
        with contextlib.suppress(OSError):
            with open(mine, "x", encoding="ascii") as file:
                file.write(secrets.token_hex(16))
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
