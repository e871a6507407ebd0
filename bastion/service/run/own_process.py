"""
This process and others of this machine, named so that none is mistaken for another.

Only Linux has these files; a process that cannot be seen is never considered dead.
"""

from __future__ import annotations

from pathlib import Path

from bastion.provider.machine_folder import started

_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
_PID_NAMESPACE = Path("/proc/self/ns/pid")


def boot() -> str:
    """
    Return the scope in which this process's id is valid: this boot, and this namespace of ids.

    In two containers of one machine that share its network, host and boot are the same, and neither
    sees the other's processes: each would consider the other dead.
    """
    return f"{_BOOT_ID.read_text().strip()} {_PID_NAMESPACE.stat().st_ino}"


def is_alive(pid: int, start: float) -> bool:
    """Whether the process `pid` that started at `start`, in ticks since the boot, may still run."""
    if start != int(start):
        return True  # an older bastion noted a time of day, which is useless here
    try:
        return started(pid) == start
    except OSError:
        return True
