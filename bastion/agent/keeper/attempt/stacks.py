"""
The stacks of hung processes, written to standard output: a program that the keeper runs.

    main [--system_only] PID:NAME...        NAME may be empty

It shows every process and each of its threads: command, state, the kernel function it waits in and,
if readable, the whole kernel stack. For a Python program it adds the Python stacks, if
py-spy is beside the interpreter or in `PATH` and may attach (as root, or if
/proc/sys/kernel/yama/ptrace_scope is 0). If jobs run as a user other than the keeper's, only
`PATH` is searched: files beside an interpreter belong to the job. No signal is sent to any process.
Standard library only.

Source: Linux, Documentation/filesystems/proc.rst; py-spy's README, "When do you need to run as
sudo?".
"""

from __future__ import annotations

import os
import subprocess
import sys
import time

from bastion.agent.keeper.attempt.tools import SYSTEM_ONLY
from bastion.agent.machine import stray_processes as strays

_PROCESSES = 200
"""Most processes that are shown: the first ones of a job."""

_THREADS = 64
"""Most threads of one process that are shown."""

_PY_SPY_S = 5.0
"""Timeout for one process, which is stopped only while py-spy copies its stacks."""

_ALL_S = 25.0
"""Time after which no more py-spy runs are started: the keeper waits for 40 s."""

_TICKS = os.sysconf("SC_CLK_TCK")


def main() -> None:
    """Write the stacks of the processes that the command line names."""
    begun, path = time.monotonic(), os.environ.get("PATH", os.defpath)
    is_system_only = sys.argv[1:2] == [SYSTEM_ONLY]
    wanted = [argument.partition(":") for argument in sys.argv[1 + is_system_only :]]
    for pid, _, name in wanted[:_PROCESSES]:
        is_late = time.monotonic() - begun > _ALL_S
        _write(_process(int(pid), name))
        _write(_python_stacks(int(pid), path, is_late=is_late, is_system_only=is_system_only))
    if len(wanted) > _PROCESSES:
        _write([f"and {len(wanted) - _PROCESSES} more processes"])


def read(path: str, size: int) -> bytes:
    """Read a file of /proc; empty if it cannot be read."""
    try:
        return strays.read(path, size)
    except OSError:
        return b""


def _write(lines: list[str]) -> None:
    # Flushed process by process: if the next read blocks, this one is already in the log.
    sys.stdout.write("".join(f"{line}\n" for line in lines))
    sys.stdout.flush()


def _process(pid: int, name: str) -> list[str]:
    """Describe a process and its threads; empty if it is gone."""
    stat = _stat(f"/proc/{pid}")
    if stat is None:
        return []
    command = " ".join(_arguments(pid)) or f"[{stat.command}]"
    is_named = f" ({name})" if name else ""
    lines = [f"process {pid}{is_named}, child of {stat.parent}: {command[:500]}"]
    try:
        threads = sorted(map(int, os.listdir(f"/proc/{pid}/task")))
    except OSError:
        threads = []
    for thread in threads[:_THREADS]:
        lines += _thread(pid, thread)
    if len(threads) > _THREADS:
        lines.append(f"  and {len(threads) - _THREADS} more threads")
    return lines


def _thread(pid: int, thread: int) -> list[str]:
    folder = f"/proc/{pid}/task/{thread}"
    stat = _stat(folder)
    if stat is None:
        return []
    waits_in = read(f"{folder}/wchan", 200).decode("utf-8", "replace").strip("\0 \n")
    where = f" in {waits_in}" if waits_in not in ("", "0") else ""
    used = f"{stat.used_s:.1f} s of CPU time, up {stat.age_s():.0f} s"
    kernel = read(f"{folder}/stack", 1 << 14).decode("utf-8", "replace").split("\n")
    stack = [f"    kernel {line}" for line in kernel if line]
    return [f"  thread {thread} {stat.command}: {stat.state}{where}, {used}", *stack]


class _Stat:
    __slots__ = ("begun", "command", "parent", "state", "used_s")

    def __init__(self, command: str, fields: list[bytes]) -> None:
        letter = fields[0].decode()
        self.command = command
        self.state = _STATES.get(letter, letter)
        self.parent = int(fields[1])
        self.used_s = (int(fields[11]) + int(fields[12])) / _TICKS
        self.begun = int(fields[19]) / _TICKS

    def age_s(self) -> float:
        return time.clock_gettime(time.CLOCK_BOOTTIME) - self.begun


_STATES = {
    "R": "running",
    "S": "sleeping",
    "D": "waiting for a device or a disk, cannot be killed",
    "T": "stopped",
    "t": "stopped by a debugger",
    "Z": "dead, not reaped by its parent",
}


def _stat(folder: str) -> _Stat | None:
    data = read(f"{folder}/stat", 1024)
    end = data.rfind(b")")
    fields = data[end + 2 :].split()
    if len(fields) < 20:
        return None
    return _Stat(data[data.find(b"(") + 1 : end].decode("utf-8", "replace"), fields)


def _arguments(pid: int) -> list[str]:
    line = read(f"/proc/{pid}/cmdline", 1 << 12).decode("utf-8", "replace")
    return [repr(word) if " " in word else word for word in line.rstrip("\0").split("\0") if word]


def _python_stacks(pid: int, path: str, *, is_late: bool, is_system_only: bool) -> list[str]:
    """Return py-spy's dump of a Python program, or why there is none; empty for other programs."""
    try:
        program = os.path.basename(os.readlink(f"/proc/{pid}/exe"))
    except OSError:
        return []
    if not program.startswith(("python", "pypy")):
        return []
    words = read(f"/proc/{pid}/cmdline", 1 << 12).split(b"\0")
    py_spy = _py_spy("" if is_system_only else os.fsdecode(words[0]), path)
    if not py_spy:
        return ["  no Python stacks: py-spy is not installed where this program runs"]
    if is_late:
        return ["  no Python stacks: those of other processes took too long"]
    try:
        done = subprocess.run(
            [py_spy, "dump", "--pid", str(pid)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=_PY_SPY_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return [f"  no Python stacks: {error}"]
    dump = done.stdout.decode("utf-8", "replace").splitlines()
    head = "  Python stacks:" if done.returncode == 0 else "  no Python stacks, py-spy says:"
    return [head, *(f"    {line}" for line in dump)]


def _py_spy(interpreter: str, path: str) -> str:
    """Return the py-spy beside the interpreter, as in a virtual environment, else in `path`."""
    folders = [os.path.dirname(interpreter), *path.split(":")]
    for folder in folders:
        found = f"{folder}/py-spy"
        if folder.startswith("/") and os.access(found, os.X_OK):
            return found
    return ""
