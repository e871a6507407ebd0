"""
This process and others of this machine, named so that no other process is taken for one of them.

Linux alone has these files; a process that cannot be seen is never taken for dead.
"""

from __future__ import annotations

from pathlib import Path

_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
_PID_NAMESPACE = Path("/proc/self/ns/pid")


def boot() -> str:
    """
    Return in what this process's id means a process: this boot, and this namespace of ids.

    In two containers of one machine that share its network host and boot are the same, and neither
    sees the other's processes: each would take the other for dead.
    """
    return f"{_BOOT_ID.read_text().strip()} {_PID_NAMESPACE.stat().st_ino}"


def started(pid: int) -> float:
    """
    Return when the process `pid` began, in ticks of the kernel since its boot; 0 if it has ended.

    A clock that is set does not change it, as it does a time of day.

    Raises:
        OSError: The process cannot be seen.
    """
    try:
        stat = Path(f"/proc/{pid}/stat").read_bytes()
    except (FileNotFoundError, ProcessLookupError):
        return 0.0
    # The name in parentheses may hold anything, ")" included: count from the last one.
    fields = stat[stat.rfind(b")") + 2 :].split()
    return 0.0 if fields[0] in (b"Z", b"X") else float(fields[19])


def is_alive(pid: int, start: float) -> bool:
    """Whether the process `pid` that began at `start` may still run."""
    try:
        return started(pid) == start
    except OSError:
        return True
