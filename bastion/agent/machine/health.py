"""Whether this machine can start processes: its disk, shared memory, descriptors and memory."""

from __future__ import annotations

import os
import re

from bastion.agent.machine.machine_fault import fault_text

LEAST_FREE_BYTES = 64 << 20
"""Least free space on the disk of the home; on a disk of less than 3 GB a fiftieth of it."""
LEAST_FREE_PART = 50
ROOM_BYTES = 50 << 30
"""Less free space than this, and than a tenth of the disk, is too little for running jobs."""
ROOM_PART = 10
SHARED_MEMORY = "/dev/shm"  # noqa: S108 - where POSIX shared memory lies
LEAST_INODES = 1_000
LEAST_MEMORY_BYTES = 32 << 20
"""Least memory that the kernel must still have: a keeper and a process need about as much."""
_DESCRIPTORS = 16
"""Least free descriptors of this process: starting one job takes about as many."""
_AVAILABLE = re.compile(rb"^MemAvailable:\s+(\d{1,15}) kB", re.MULTILINE)


def unwell(home: str, shared: str = SHARED_MEMORY) -> str:
    """
    Return why this machine cannot start processes now, in a few words, or an empty string.

    `shared` is the folder of shared memory. Data loaders and NCCL need it, and killed processes
    leave files there whose owner is unknown.
    """
    return disk_trouble(home) or _shared_memory(shared) or _descriptors() or _memory()


def disk_trouble(home: str) -> str:
    """Return why the disk of the folder `home` accepts no more data, or an empty string."""
    try:
        found = os.statvfs(home)
    except OSError as error:
        return f"its disk does not answer: {fault_text(error)}"
    if found.f_flag & os.ST_RDONLY:
        return "its disk is read-only"
    size, free = found.f_frsize * found.f_blocks, found.f_frsize * found.f_bavail
    if size and free < min(LEAST_FREE_BYTES, size // LEAST_FREE_PART):
        return f"its disk is full: {free >> 20} MiB of {size >> 20} MiB are free"
    if found.f_files and found.f_favail < min(LEAST_INODES, found.f_files // LEAST_FREE_PART):
        return f"its disk is full: {found.f_favail} of {found.f_files} files can still be made"
    return ""


def _shared_memory(folder: str) -> str:
    try:
        found = os.statvfs(folder)
    except OSError:
        return ""  # not every machine has any
    size, free = found.f_frsize * found.f_blocks, found.f_frsize * found.f_bavail
    if not size or free >= min(LEAST_FREE_BYTES, size // LEAST_FREE_PART):
        return ""
    return (
        f"its shared memory is full: {free >> 20} MiB of {size >> 20} MiB of {folder} are free;"
        " files that no process uses can be removed"
    )


def has_little_room(home: str) -> bool:
    """Whether running jobs may soon fill the disk of the folder `home`."""
    try:
        found = os.statvfs(home)
    except OSError:
        return False
    size, free = found.f_frsize * found.f_blocks, found.f_frsize * found.f_bavail
    has_few_files = found.f_favail < found.f_files // ROOM_PART
    return free < min(ROOM_BYTES, size // ROOM_PART) or has_few_files


def _descriptors() -> str:
    taken: list[int] = []
    try:
        for _ in range(_DESCRIPTORS):
            taken.append(os.open(os.devnull, os.O_RDONLY))
    except OSError as error:
        return f"it is out of file descriptors: {fault_text(error)}"
    finally:
        for handle in taken:
            os.close(handle)
    return ""


def _memory() -> str:
    try:
        with open("/proc/meminfo", "rb") as file:  # noqa: PTH123 - asked every few seconds
            found = _AVAILABLE.search(file.read(4096))
    except OSError:
        return ""
    available = int(found[1]) << 10 if found else LEAST_MEMORY_BYTES
    if available < LEAST_MEMORY_BYTES:
        return f"it is out of memory: {available >> 20} MiB are available"
    return ""
