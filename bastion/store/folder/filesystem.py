"""
The type of the filesystem of a folder, and whether other machines can write to it.

It is read from the kernel's mount table. The names there are those of `df -T`, and unlike the magic
numbers of statfs(2) they distinguish sshfs from other FUSE filesystems.
"""

from __future__ import annotations

import os
import re

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
