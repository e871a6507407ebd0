"""
This process and others of this machine, named so that no other process is taken for one of them.

Linux alone has these files; a process that cannot be seen is never taken for dead.
"""

from __future__ import annotations

from pathlib import Path

from bastion.provider.machine_folder import started

_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
_PID_NAMESPACE = Path("/proc/self/ns/pid")


def boot() -> str:
    """
    Return in what this process's id means a process: this boot, and this namespace of ids.

    In two containers of one machine that share its network host and boot are the same, and neither
    sees the other's processes: each would take the other for dead.
    """
    return f"{_BOOT_ID.read_text().strip()} {_PID_NAMESPACE.stat().st_ino}"


def is_alive(pid: int, start: float) -> bool:
    """Whether the process `pid` that began at `start`, in ticks since the boot, may still run."""
    if start != int(start):
        return True  # noted by an older bastion, as a time of day, which says nothing here
    try:
        return started(pid) == start
    except OSError:
        return True
