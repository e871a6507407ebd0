"""
Finding and killing processes that are provably ours, through /proc; standard library only.

A process is ours when its environment has our mark, when it belongs to the session of a leader that
we started (same pid, same start time), or when it descends from one of these. A signal goes through
a pidfd whose start time was compared after it was opened, so a recycled pid is never hit.

"It is gone" and "it cannot be seen" are different answers. If /proc cannot be read for lack of
descriptors or memory, every function here raises `OSError`. A caller that took that for "nothing is
left" would free devices that a running process holds.

This file must not know attempts or the keeper's loop: a new keeper life uses it before it serves,
to end what an older life left behind.
"""

from __future__ import annotations

import errno
import os
import signal
import time

from bastion.agent.machine.machine_fault import is_machine_fault
from bastion.agent.machine.pidfd import Held

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

MARK = "BASTION_MARK"
"""The variable that every process of ours has, `<home>:<key>`."""

_GONE = frozenset({errno.ENOENT, errno.ESRCH, errno.ENOTDIR})
"""Errors of /proc that mean that the process has gone. Source: proc(5), fs/proc/base.c."""

_HIDDEN = frozenset({errno.EACCES, errno.EPERM})
"""Errors of /proc that mean that the process belongs to another user, so it is not ours."""

_ENVIRON_BYTES = 6 << 20
"""The kernel's own limit for a process: a shell may put our mark last. Source: execve(2)."""

_HAS_NO_PROGRAM = 0x00200000 | 0x4
"""Flags of a kernel thread, and of an exiting process. Source: include/linux/sched.h."""

_LOOKS = 100
"""Looks at a process that replaces its program, a millisecond apart: it may wait for a disk."""

_BARE = 3
"""After this many looks that show arguments but no variables, it has no variables."""

_HAS_CHILDREN = os.path.exists(f"/proc/self/task/{os.getpid()}/children")
"""Without CONFIG_PROC_CHILDREN in the kernel, every process must be looked at instead."""


class Seen:
    """One process as /proc showed it."""

    __slots__ = ("parent", "pid", "session", "start", "zombie")

    def __init__(self, pid: int, parent: int, session: int, start: int, *, zombie: bool) -> None:
        self.pid = pid
        self.parent = parent
        self.session = session
        self.start = start
        self.zombie = zombie


def look(pid: int) -> Seen | None:
    """
    Return the process `pid` as it is now, or None if it is gone; `start` is in ticks since boot.

    Raises:
        OSError: It cannot be determined whether it is gone.
    """
    fields = _stat(pid)
    if len(fields) < 20:
        return None
    # A process whose main thread has exited looks like a zombie, and lives while others run.
    zombie = fields[0] in (b"Z", b"X") and int(fields[17]) <= 1
    return Seen(pid, int(fields[1]), int(fields[3]), int(fields[19]), zombie=zombie)


def lives(process: Seen) -> bool:
    """
    Whether `process` is still the same process, and not a zombie.

    Raises:
        OSError: It cannot be seen.
    """
    now = look(process.pid)
    return now is not None and now.start == process.start and not now.zombie


def _stat(pid: int) -> list[bytes]:
    """Return the fields of /proc/PID/stat from the third on."""
    stat = read(f"/proc/{pid}/stat", 1024)
    # The name in parentheses may hold anything, ")" included: count from the last one.
    return stat[stat.rfind(b")") + 2 :].split()


def children(pid: int) -> list[int]:
    """
    Return the pids of the children of `pid`, zombies included.

    The list is complete for the calling process, whose children stay until it reaps them. Children
    of other processes may come and go during the read.

    Raises:
        OSError: They cannot be seen.
    """
    if not _HAS_CHILDREN:
        return [process.pid for process in _all_processes().values() if process.parent == pid]
    found: list[int] = []
    try:
        threads = os.listdir(f"/proc/{pid}/task")
    except OSError as error:
        if error.errno in _GONE | _HIDDEN:
            return found
        raise
    for thread in threads:
        found.extend(map(int, read(f"/proc/{pid}/task/{thread}/children", 1 << 20).split()))
    return found


def boot_id() -> str:
    """Return the id of this boot: pids and start times of another boot are meaningless."""
    return read("/proc/sys/kernel/random/boot_id", 64).decode().strip()


def mark_of(pid: int) -> str:
    """
    Return the mark in the environment of `pid`; empty without one, or without permission.

    Raises:
        OSError: It cannot be read.
    """
    prefix = MARK.encode() + b"="
    environ = read(f"/proc/{pid}/environ", _ENVIRON_BYTES)
    if not environ and _may_be_between_programs(pid):
        environ = _environ_after(pid)
    for entry in environ.split(b"\0"):
        if entry.startswith(prefix):
            return os.fsdecode(entry[len(prefix) :])
    return ""


def _may_be_between_programs(pid: int) -> bool:
    """Whether it may be in the middle of `exec`, which briefly hides arguments and variables."""
    fields = _stat(pid)
    if len(fields) <= 6 or fields[0] in (b"Z", b"X"):
        return False
    return not int(fields[6]) & _HAS_NO_PROGRAM


def _environ_after(pid: int) -> bytes:
    """Return the variables of `pid` once its arguments are visible; empty if it has none."""
    bare = 0
    for _ in range(_LOOKS):
        environ = read(f"/proc/{pid}/environ", _ENVIRON_BYTES)
        # `exec` may have ended since then: visible arguments say nothing about `environ` yet.
        bare += bool(read(f"/proc/{pid}/cmdline", 1))
        if environ or bare == _BARE:
            return environ
        time.sleep(0.001)
    return b""


def send(process: Seen, number: int) -> bool:
    """
    Send the signal `number` if `process` is still the same; return whether it was sent.

    Raises:
        OSError: The machine is out of descriptors or memory; the signal was not sent.
    """
    try:
        held = Held(process.pid)
    except OSError as error:
        if is_machine_fault(error):
            raise
        return False
    try:
        now = look(process.pid)
        if now is None or now.start != process.start:
            return False
        held.send(number)
    except OSError as error:
        if is_machine_fault(error):
            raise
        return False
    finally:
        held.close()
    return True


def find(mark_prefix: str, *, leaders: Iterable[tuple[int, int]] = ()) -> list[Seen]:
    """
    Return every living process that is ours, and every descendant of one.

    Args:
        mark_prefix: The prefix of the mark: `<home>:` for all attempts of a home.
        leaders: Session leaders that we started in this boot, as (pid, start): their sessions are
            ours, even if a program has overwritten its environment or the leader is gone. The
            kernel gives the number of a session to no process while the session has members.

    Raises:
        OSError: A process cannot be read, so the result would be incomplete.
    """
    processes = _all_processes()
    ours_by_leader = {
        pid for pid, start in leaders if pid not in processes or processes[pid].start == start
    }
    by_parent: dict[int, list[Seen]] = {}
    for process in processes.values():
        by_parent.setdefault(process.parent, []).append(process)
    above = _ancestors(processes)
    pending = [
        process
        for process in processes.values()
        if process.pid not in above
        and (process.session in ours_by_leader or mark_of(process.pid).startswith(mark_prefix))
    ]
    ours: dict[int, Seen] = {}
    while pending:
        process = pending.pop()
        if process.pid not in ours and process.pid not in above:
            ours[process.pid] = process
            pending.extend(by_parent.get(process.pid, ()))
    return [process for process in ours.values() if not process.zombie]


def kill_all(mark_prefix: str, *, leaders: Iterable[tuple[int, int]] = ()) -> int:
    """
    Kill what `find` finds until it finds nothing; return the number of signals sent.

    It blocks while a process cannot die (uninterruptible in the kernel): its devices are not free
    before.

    Raises:
        OSError: It cannot be determined whether a process is left.
    """
    leaders = tuple(leaders)
    sent = 0
    pause_s = 0.001
    while ours := find(mark_prefix, leaders=leaders):
        sent += sum(send(process, signal.SIGKILL) for process in ours)
        time.sleep(pause_s)
        pause_s = min(2 * pause_s, 0.1)
    return sent


def _all_processes() -> dict[int, Seen]:
    seen = (look(int(name)) for name in os.listdir("/proc") if name.isdigit())
    return {process.pid: process for process in seen if process is not None}


def _ancestors(processes: dict[int, Seen]) -> set[int]:
    """Return the caller and its ancestors, which are never strays, even with our mark."""
    above: set[int] = set()
    pid = os.getpid()
    while pid in processes and pid not in above:
        above.add(pid)
        pid = processes[pid].parent
    return above


def read(path: str, size: int) -> bytes:
    """
    Return up to `size` bytes of a file of /proc; empty if it is gone or not readable by us.

    Raises:
        OSError: It cannot be read for any other reason, such as a lack of descriptors.
    """
    try:
        handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError as error:
        if error.errno in _GONE | _HIDDEN:
            return b""
        raise
    try:
        parts = []
        while size > 0 and (part := os.read(handle, min(size, 1 << 16))):
            parts.append(part)
            size -= len(part)
        return b"".join(parts)
    except OSError as error:
        if error.errno in _GONE | _HIDDEN:
            return b""
        raise
    finally:
        os.close(handle)
