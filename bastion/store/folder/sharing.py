"""
`Sharing`: which users beside the owner may use what is made in a bucket's folder.

The owner of a bucket shares it by its root: that its group, or all users, may write there. Then no
umask hides a folder from them, as it does not in a repository that git shares. A list is whole or
fails, so one hidden folder would end every list of the bastion.
"""

# ruff: noqa: PTH101, PTH116 - all paths here are strings

from __future__ import annotations

import os
import stat

from bastion.value import value

_CLASSES = ((stat.S_IWGRP, stat.S_IRWXG), (stat.S_IWOTH, stat.S_IRWXO))
"""The bit that shares a root with each class of users, and all bits of that class."""


@value
class Sharing:
    """The permissions that a root adds to those that the umask leaves."""

    folder: int
    """Of folders; files have them without the right to execute."""

    @classmethod
    def of(cls, root: str) -> Sharing:
        """Return the sharing of the folder `root`; none where it is missing."""
        try:
            mode = os.stat(root).st_mode
        except OSError:
            return cls(folder=0)
        return cls(folder=sum(every for may_write, every in _CLASSES if mode & may_write))

    def open_folder(self, path: str) -> None:
        """Share a folder that was just made; one that is deleted meanwhile is no error."""
        if self.folder:
            try:
                os.chmod(path, stat.S_IMODE(os.stat(path).st_mode) | self.folder)
            except FileNotFoundError:
                return

    def open_file(self, handle: int) -> None:
        """Share an open file of ours."""
        if not self.folder:
            return
        found = os.fstat(handle)
        wanted = stat.S_IMODE(found.st_mode) | (self.folder & 0o666)
        if found.st_uid == os.geteuid() and wanted != stat.S_IMODE(found.st_mode):
            os.fchmod(handle, wanted)
