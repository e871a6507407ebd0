"""
The type of the filesystem of a folder, and whether other machines can write to it.

It is read from the kernel's mount table. The names there are those of `df -T`, and unlike the magic
numbers of statfs(2) they distinguish sshfs from other FUSE filesystems.
"""

from __future__ import annotations

import re
from pathlib import Path

# fmt: off
_SHARED = frozenset({
    "9p", "afs", "beegfs", "ceph", "cifs", "coda", "gfs2", "glusterfs", "gpfs", "lustre",
    "ncpfs", "nfs", "nfs4", "ocfs2", "orangefs", "prl_fs", "pvfs2", "smb3", "smbfs", "vboxsf",
    "virtiofs", "vmhgfs",
})
# fmt: on
"""Filesystems that other machines may write to. Source: filesystems of Linux 6, `man 8 mount`."""

_MOUNTS = Path("/proc/self/mountinfo")


def filesystem_of(path: Path) -> str:
    """
    Return the type of the filesystem of `path`, which need not exist yet; empty if unknown.

    Source: Linux, Documentation/filesystems/proc.rst, section 3.5 (mountinfo).
    """
    if not _MOUNTS.exists():
        return ""
    place = path.resolve()
    kind, longest = "", -1
    for line in _MOUNTS.read_text(errors="surrogateescape").splitlines():
        before, _, after = line.partition(" - ")
        point = Path(_unescaped(before.split()[4]))
        # Of two mounts at one point the later one hides the earlier.
        if place.is_relative_to(point) and len(point.parts) >= longest:
            kind, longest = after.split()[0], len(point.parts)
    return kind


def is_shared(kind: str) -> bool:
    """Whether other machines may write to a filesystem of this type, FUSE included."""
    return kind in _SHARED or kind.startswith("fuse")


def _unescaped(field: str) -> str:
    return re.sub(r"\\([0-7]{3})", lambda octal: chr(int(octal[1], 8)), field)
