"""
The type of the filesystem of a folder, and whether other machines or users can write to it.

It is read from the kernel's mount table. The names there are those of `df -T`, and unlike the magic
numbers of statfs(2) they distinguish sshfs from other FUSE filesystems.

The owner of a bucket shares it through the mode of its root, which lets its group, or all users,
write there. Then no umask hides a folder from them, as in a repository that git shares. A list is
complete or fails, so one hidden folder would make every list of the bastion fail.
"""

from __future__ import annotations

import os
import re
import stat

from bastion.value import value

# fmt: off
_SHARED = frozenset({
    "9p", "afs", "beegfs", "ceph", "cifs", "coda", "gfs2", "glusterfs", "gpfs", "lustre",
    "ncpfs", "nfs", "nfs4", "ocfs2", "orangefs", "prl_fs", "pvfs2", "smb3", "smbfs", "vboxsf",
    "virtiofs", "vmhgfs",
})
# fmt: on
"""Filesystems that other machines may write to. Source: filesystems of Linux 6, `man 8 mount`."""

_MOUNTS = "/proc/self/mountinfo"


def filesystem_of(path: str | os.PathLike[str]) -> str:
    """
    Return the type of the filesystem of `path`, which need not exist yet; empty if unknown.

    Source: Linux, Documentation/filesystems/proc.rst, section 3.5 (mountinfo).
    """
    try:
        with open(_MOUNTS, errors="surrogateescape") as file:
            mounts = file.read().splitlines()
    except FileNotFoundError:
        return ""
    inside = f"{os.path.realpath(path).rstrip('/')}/"
    kind, longest = "", -1
    for line in mounts:
        before, _, after = line.partition(" - ")
        point = f"{_unescaped(before.split()[4]).rstrip('/')}/"
        # Of two mounts at one point the later one hides the earlier.
        if inside.startswith(point) and len(point) >= longest:
            kind, longest = after.split()[0], len(point)
    return kind


def is_shared(kind: str) -> bool:
    """Whether other machines may write to a filesystem of this type, FUSE included."""
    return kind in _SHARED or kind.startswith("fuse")


def _unescaped(field: str) -> str:
    if "\\" not in field:
        return field
    return re.sub(r"\\([0-7]{3})", lambda octal: chr(int(octal[1], 8)), field)


_CLASSES = ((stat.S_IWGRP, stat.S_IRWXG), (stat.S_IWOTH, stat.S_IRWXO))
"""The bit that shares a root with each class of users, and all bits of that class."""


@value
class Sharing:
    """The permissions that a root adds to those that the umask leaves."""

    folder: int
    """For folders; files get them without the right to execute."""

    @classmethod
    def of(cls, root: str) -> Sharing:
        """Return the sharing of the folder `root`; none if it is missing."""
        try:
            mode = os.stat(root).st_mode
        except OSError:
            return cls(folder=0)
        return cls(folder=sum(every for may_write, every in _CLASSES if mode & may_write))

    def open_folder(self, path: str) -> None:
        """Share a newly created folder; one that has been deleted in the meantime is no error."""
        if self.folder:
            try:
                os.chmod(path, stat.S_IMODE(os.stat(path).st_mode) | self.folder)
            except FileNotFoundError:
                return

    def open_file(self, handle: int) -> None:
        """Share an open file of this process."""
        if not self.folder:
            return
        found = os.fstat(handle)
        wanted = stat.S_IMODE(found.st_mode) | (self.folder & 0o666)
        if found.st_uid == os.geteuid() and wanted != stat.S_IMODE(found.st_mode):
            os.fchmod(handle, wanted)
